"""Values come back as they were put, per namespace, or the failure is named."""

import asyncio
import os

import pytest

from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, Sha256
from sandbox.store.blobs import BlobLost, BlobStore
from tests.fixtures.blobs import blobs_at, digest

ONE = NamespaceId("00000000-0000-7000-8000-000000000001")
OTHER = NamespaceId("00000000-0000-7000-8000-000000000002")


async def test_value_comes_back_and_may_be_put_again(blobs: BlobStore) -> None:
    value = os.urandom(300_000)
    await blobs.put(ONE, digest(value), value)
    await blobs.put(ONE, digest(value), value)
    assert await blobs.get(ONE, digest(value)) == value
    assert await blobs.exists(ONE, digest(value))


async def test_namespaces_do_not_share_values(blobs: BlobStore) -> None:
    value = os.urandom(1_000)
    await blobs.put(ONE, digest(value), value)
    assert not await blobs.exists(OTHER, digest(value))
    with pytest.raises(BlobLost, match="has no value"):
        await blobs.get(OTHER, digest(value))


async def test_concurrent_calls_are_all_answered(blobs: BlobStore) -> None:
    values = [os.urandom(70_000) for _ in range(20)]
    await asyncio.gather(*(blobs.put(ONE, digest(value), value) for value in values))
    assert await asyncio.gather(*(blobs.get(ONE, digest(value)) for value in values)) == values


async def test_store_that_does_not_answer_is_unavailable() -> None:
    with blobs_at("s3+http://k:s@127.0.0.1:1/bucket") as blobs:
        for call in (
            blobs.put(ONE, Sha256("0" * 64), b"1"),
            blobs.get(ONE, Sha256("0" * 64)),
            blobs.exists(ONE, Sha256("0" * 64)),
        ):
            with pytest.raises(Unavailable, match="object store"):
                await call


async def test_ensure_bucket_is_idempotent(s3_url: str) -> None:
    with blobs_at(s3_url.replace("/rewind", "/another")) as blobs:
        blobs.ensure_bucket()
        blobs.ensure_bucket()
        await blobs.put(ONE, digest(b"1"), b"1")
