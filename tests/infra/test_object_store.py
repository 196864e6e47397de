"""The local object store keeps its data, address and keys through stops and kills."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from infra.object_store import EmbeddedObjectStore, ObjectStoreFailed
from infra.processes import AlreadyRunning, wait_until
from sandbox.config import S3Location
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, Sha256
from sandbox.store.blobs import BlobStore
from tests.fixtures.blobs import blobs_at, digest

NAMESPACE = NamespaceId("00000000-0000-7000-8000-000000000001")


async def test_data_and_url_survive_a_stop_and_a_kill(tmp_path: Path) -> None:
    value = b'"kept"'
    with EmbeddedObjectStore(tmp_path) as store, blobs_at(store.url) as blobs:
        url = store.url
        await blobs.put(NAMESPACE, digest(value), value)
    with EmbeddedObjectStore(tmp_path) as store, blobs_at(store.url) as blobs:
        assert store.url == url
        assert await blobs.get(NAMESPACE, digest(value)) == value
        os.kill(store.pid, signal.SIGKILL)
        assert wait_until(lambda: not store.is_running(), timeout_s=10)
        with pytest.raises(Unavailable):
            await blobs.get(NAMESPACE, digest(value))
        store.start()
        assert store.url == url
        assert await blobs.get(NAMESPACE, digest(value)) == value


async def test_half_written_file_of_a_killed_store_does_not_block_its_key(tmp_path: Path) -> None:
    value = b'"again"'
    with EmbeddedObjectStore(tmp_path) as store, blobs_at(store.url) as blobs:
        await blobs.put(NAMESPACE, digest(value), value)
        sidecar = next(path for path in (tmp_path / "objects").rglob("*.json") if digest(value) in path.name)
        os.kill(store.pid, signal.SIGKILL)
        assert wait_until(lambda: not store.is_running(), timeout_s=10)
        sidecar.with_suffix(".json.tmp").write_text("{")
        store.start()
        await blobs.put(NAMESPACE, digest(value), value)


def test_second_start_is_refused(tmp_path: Path) -> None:
    with EmbeddedObjectStore(tmp_path), pytest.raises(AlreadyRunning):
        EmbeddedObjectStore(tmp_path).start()


def test_credentials_are_random_and_private(tmp_path: Path) -> None:
    with EmbeddedObjectStore(tmp_path / "a") as one, EmbeddedObjectStore(tmp_path / "b") as other:
        assert S3Location.parse(one.url).secret_key != S3Location.parse(other.url).secret_key
    assert stat.S_IMODE((tmp_path / "a/access.json").stat().st_mode) == 0o600


async def test_wrong_secret_is_refused(tmp_path: Path) -> None:
    with EmbeddedObjectStore(tmp_path) as store:
        right = S3Location.parse(store.url)
        wrong = store.url.replace(right.secret_key or "", "wrong")
        with blobs_at(wrong) as blobs, pytest.raises(Unavailable, match="SignatureDoesNotMatch"):
            await blobs.put(NAMESPACE, Sha256("0" * 64), b"1")


def test_port_taken_by_another_program_is_replaced(tmp_path: Path) -> None:
    with EmbeddedObjectStore(tmp_path / "a") as one:
        port = S3Location.parse(one.url).endpoint
        (tmp_path / "b").mkdir()
        (tmp_path / "b/access.json").write_text(
            json.dumps({"port": int(str(port).rsplit(":", 1)[1]), "access_key": "k", "secret_key": "s"})
        )
        with EmbeddedObjectStore(tmp_path / "b") as other:
            assert S3Location.parse(other.url).endpoint != port


def test_failed_start_shows_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.object_store.sys.executable", "/bin/false")
    with pytest.raises(ObjectStoreFailed, match="did not start"):
        EmbeddedObjectStore(tmp_path).start()


def test_location_hides_its_secret() -> None:
    location = S3Location.parse("s3+http://KEY:SECRET@127.0.0.1:9/bucket")
    assert "SECRET" not in repr(location)
    assert isinstance(BlobStore(location), BlobStore)
