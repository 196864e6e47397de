"""Values by digest: small ones from the entries, big ones from the object store, only those that the run names."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import orjson

from app.scheduler.collector import collect_all
from infra.object_store import EmbeddedObjectStore
from sandbox.config import S3Location
from sandbox.journal.canonical import canonical_text, sha256_hex
from sandbox.journal.ids import NamespaceId, Sha256
from sandbox.store.blobs import BlobLost, BlobStore
from sandbox.store.postgres.values import RecordedBlobs
from tests.fixtures.api import SCRIPT, Api, running_api
from tests.fixtures.database import Clock

INLINE = 65_536
DAY_MS = 86_400_000


def text_of(size: int) -> str:
    """A string whose canonical text has this many bytes."""
    return "x" * (size - 2)


def digest(value: Any) -> Sha256:
    return sha256_hex(canonical_text(value))


async def value(api: Api, run: str, sha256: str) -> httpx2.Response:
    return await api.call("GET", f"/v1/runs/{run}/values/{sha256}?namespace=acme")


async def namespace_id(api: Api, name: str = "acme") -> NamespaceId:
    async with api.store.pool.system.acquire() as connection:
        found = await connection.fetchval(
            "select id from namespaces where organization_id = $1 and name = $2", api.organization, name
        )
    return NamespaceId(str(found))


async def refs(api: Api) -> set[tuple[str, str]]:
    """(sha256, run) of the namespace."""
    async with api.store.pool.system.acquire() as connection:
        rows = await connection.fetch(
            "select sha256, run_id from value_refs where namespace_id = $1", await namespace_id(api)
        )
    return {(row["sha256"].hex(), str(row["run_id"])) for row in rows}


async def test_values_around_the_inline_limit(api: Api) -> None:
    for size in (INLINE - 1, INLINE, INLINE + 1, 1_000_000):
        given = text_of(size)
        run = await api.start(input=given)
        answer = await value(api, run["id"], digest(given))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.content == orjson.dumps(given)
        named = (digest(given), run["id"]) in await refs(api)
        assert named == (size > INLINE), size


async def test_every_kind_of_entry_names_its_value(api: Api) -> None:
    await api.toolset("support", "echo")
    kinds = ("input", "args", "result", "payload", "output")
    values = {name: {"text": name + text_of(70_000)} for name in kinds}
    run = await api.start(toolset="support", input=values["input"])
    puppet = await api.puppet(run["id"])
    namespace = await namespace_id(api)
    for name in ("args", "output"):  # what a worker does before it appends
        await api.services.runs.values.store(namespace, canonical_text(values[name]))
    await puppet.call_tool("echo", values["args"])
    claimed = (await api.call("POST", "/v1/tasks/claim", json={"max": 1})).json()["tasks"][0]
    assert claimed["args"] == values["args"]
    done = await api.call(
        "POST",
        "/v1/tasks/complete",
        json={"items": [{"token": claimed["token"], "result": values["result"]}]},
    )
    assert done.json()["results"][0]["ok"]
    await api.call(
        "POST",
        f"/v1/runs/{run['id']}/signals?namespace=acme",
        json={"name": "go", "payload": values["payload"]},
    )
    await puppet.complete(values["output"], delivered=3)
    assert await refs(api) == {(digest(text), run["id"]) for text in values.values()}
    for text in values.values():
        assert (await value(api, run["id"], digest(text))).json() == text


async def test_what_the_journal_does_not_name_is_not_found(api: Api) -> None:
    big, small = text_of(70_000), "small"
    other = await api.start(input=big)
    another = await api.start(input=small)
    run = await api.start(input="mine")
    puppet = await api.puppet(run["id"])
    lookalike = {"args": {"bytes": 7, "sha256": digest(small), "value": small}}
    await puppet.append_log(lookalike)
    for sha256 in (
        digest(big),
        digest(small),
        "0" * 64,
        "x",
        digest("mine").upper(),
        "sha256:sha256:" + digest("mine"),
    ):
        assert (await value(api, run["id"], sha256)).status_code == 404
    assert (await value(api, run["id"], "sha256:" + digest("mine"))).json() == "mine"
    assert (await value(api, other["id"], digest(big))).status_code == 200
    assert (await value(api, another["id"], digest(small))).json() == small


async def test_a_refused_append_names_nothing(api: Api) -> None:
    run = await api.start()
    path = f"/v1/runs/{run['id']}/signals?namespace=acme"
    await api.call("POST", path, json={"name": "go", "payload": 1, "id": "s"})
    payload = text_of(80_000)
    again = await api.call("POST", path, json={"name": "go", "payload": payload, "id": "s"})
    assert again.json()["duplicate"]
    assert await refs(api) == set()
    assert (await value(api, run["id"], digest(payload))).status_code == 404


# -- Collecting


async def test_only_what_no_run_names_and_nobody_put_for_a_day_is_deleted(
    own_api: Api, blobs: BlobStore, clock: Clock
) -> None:
    named, unnamed, fresh = (name + text_of(70_000) for name in ("named", "unnamed", "fresh"))
    run = await own_api.start(input=named)
    namespace = await namespace_id(own_api)
    recorded = RecordedBlobs(own_api.store.pool, blobs, own_api.store.keys)
    await recorded.put(namespace, digest(unnamed), canonical_text(unnamed))
    clock.advance(DAY_MS - 60_000)
    await recorded.put(namespace, digest(fresh), canonical_text(fresh))
    pool, stop = own_api.store.pool, asyncio.Event()
    assert await collect_all(pool, blobs, stop) == 0
    clock.advance(120_000)
    assert await collect_all(pool, blobs, stop) == 1
    assert await collect_all(pool, blobs, stop) == 0
    exist = [await blobs.exists(namespace, digest(text)) for text in (named, unnamed, fresh)]
    assert exist == [True, False, True]
    assert (await value(own_api, run["id"], digest(named))).json() == named


async def test_a_value_put_while_it_is_collected_is_there_afterwards(
    own_api: Api, blobs: BlobStore, clock: Clock
) -> None:
    """The collector holds the row until the object is gone; whoever puts the value comes after that."""
    text = text_of(70_000)
    namespace = await namespace_id(own_api, "acme") if (await own_api.start()) else NamespaceId("")
    recorded = RecordedBlobs(own_api.store.pool, blobs, own_api.store.keys)
    await recorded.put(namespace, digest(text), canonical_text(text))
    clock.advance(DAY_MS + 1)
    deleting, go_on = asyncio.Event(), asyncio.Event()

    class Slow(BlobStore):
        async def delete(self, namespace: NamespaceId, sha256: Sha256) -> None:
            deleting.set()
            await go_on.wait()
            await blobs.delete(namespace, sha256)

    collecting = asyncio.create_task(
        collect_all(own_api.store.pool, Slow(S3Location("b", None, None, None, "r")), asyncio.Event())
    )
    await deleting.wait()
    putting = asyncio.create_task(recorded.put(namespace, digest(text), canonical_text(text)))
    done, _ = await asyncio.wait({putting}, timeout=0.2)
    assert not done, "it waits for the row"
    go_on.set()
    assert await collecting == 1
    await putting
    assert await recorded.get(namespace, digest(text)) == canonical_text(text)


# -- The object store is away


async def test_a_stopped_object_store_refuses_what_needs_it_and_loses_nothing(
    database_url: str, tmp_path: Path
) -> None:
    objects = EmbeddedObjectStore(tmp_path / "objects")
    objects.start()
    blobs = BlobStore(S3Location.parse(objects.url))
    big = text_of(70_000)
    try:
        async with running_api(database_url, blobs, tmp_path / "h") as api:
            await api.toolset("support", "echo")
            run = await api.start(toolset="support")
            puppet = await api.puppet(run["id"])
            await puppet.call_tool("echo", {})
            task = (await api.call("POST", "/v1/tasks/claim", json={"max": 1})).json()["tasks"][0]["token"]
            objects.stop()

            start = {"script": SCRIPT, "namespace": "acme", "input": big}
            complete = {"items": [{"token": task, "result": big}]}
            refused = await api.call("POST", "/v1/runs", json=start, headers={"Idempotency-Key": "k"})
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
            assert refused.headers["retry-after"]
            signalled = await api.call(
                "POST", f"/v1/runs/{run['id']}/signals?namespace=acme", json={"name": "s", "payload": big}
            )
            assert signalled.status_code == 503
            completed = await api.call("POST", "/v1/tasks/complete", json=complete)
            assert completed.status_code == 503
            assert (await api.call("GET", f"/v1/runs/{run['id']}/journal?namespace=acme")).json()["data"][-1][
                "type"
            ] == "schedule_tool_call"
            small = await api.start(input="small values need no object store")

            objects.start()
            again = await api.call("POST", "/v1/runs", json=start, headers={"Idempotency-Key": "k"})
            assert again.status_code == 201
            assert again.json()["id"] != small["id"]
            assert again.json()["input"] == big
            completed = await api.call("POST", "/v1/tasks/complete", json=complete)
            assert completed.json()["results"][0]["ok"]
            assert (await value(api, run["id"], digest(big))).json() == big
    finally:
        blobs.close()
        objects.stop()


async def test_a_lost_object_is_said_to_be_lost(own_api: Api, blobs: BlobStore) -> None:
    big = text_of(70_000)
    run = await own_api.start(input=big)
    await blobs.delete(await namespace_id(own_api), digest(big))
    try:
        answer = await value(own_api, run["id"], digest(big))
    except BlobLost:  # the transport of this test raises what the server logs
        return
    assert answer.status_code == 500
