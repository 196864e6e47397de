"""Deletion, retention and redaction: what goes, what stays, and that the seal still holds."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from app.scheduler.collector import collect_all
from app.scheduler.retention import sweep
from app.scheduler.seals import Sealer
from app.scripts.service import Scripts
from sandbox.activation.verify import is_redacted
from sandbox.journal.entries import Actor
from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.blobs import BlobLost, BlobStore
from sandbox.store.postgres import retention
from sandbox.store.postgres.connection import acquired
from sandbox.store.seal import Root
from tests.fixtures.api import Api
from tests.fixtures.database import Clock

DAY_MS = 86_400_000
BIG = "secret " * 20_000
TABLES = ("entries", "runs", "run_facts", "value_refs", "pending", "signal_ids", "quarantines", "replays")


async def ended(api: Api, output: Any = None, namespace: str = "acme", **fields: Any) -> dict[str, Any]:
    run = await api.start(namespace, **fields)
    puppet = await api.puppet(run["id"])
    await puppet.append_log({"card": "4111"})
    await puppet.complete(output)
    return run


async def call(api: Api, method: str, path: str, **options: Any) -> Any:
    return await api.call(method, f"/v1/runs/{path}?namespace=acme", **options)


async def rows_of(api: Api, run: str) -> dict[str, int]:
    async with acquired(api.store.pool) as connection:
        return {
            table: await connection.fetchval(f"select count(*) from {table} where run_id = $1", run)
            for table in TABLES
        }


async def audited(api: Api, run: str) -> list[tuple[str, Any]]:
    async with acquired(api.store.pool) as connection:
        rows = await connection.fetch(
            "select action, after from audit_log where target = $1 order by id", f"run:{run}"
        )
    return [(row["action"], row["after"] and json.loads(row["after"])) for row in rows]


async def namespace_of(api: Api, run: str) -> NamespaceId:
    async with acquired(api.store.pool) as connection:
        return NamespaceId(
            str(await connection.fetchval("select namespace_id from seals where run_id = $1", run))
        )


async def test_a_deleted_run_is_gone_and_its_key_starts_no_second_one(own_api: Api) -> None:
    headers = {"Idempotency-Key": "once"}
    body = {"script": "export function main() {}", "namespace": "acme", "input": BIG}
    run = (await own_api.call("POST", "/v1/runs", json=body, headers=headers)).json()
    refused = await call(own_api, "DELETE", run["id"])
    assert (refused.status_code, refused.json()["code"]) == (409, "run_active")
    puppet = await own_api.puppet(run["id"])
    await puppet.complete(1)
    assert (await call(own_api, "DELETE", run["id"])).status_code == 204
    assert await rows_of(own_api, run["id"]) == dict.fromkeys(TABLES, 0)
    for path in ("", "/journal", "/seal", "/output"):
        assert (await call(own_api, "GET", run["id"] + path)).status_code == 404
    assert (await call(own_api, "DELETE", run["id"])).status_code == 404
    again = await own_api.call("POST", "/v1/runs", json=body, headers=headers)
    assert (again.status_code, again.json()["code"]) == (404, "not_found")
    listed = await own_api.call("GET", "/v1/runs?namespace=acme")
    assert listed.json()["data"] == []
    seals = (await own_api.call("GET", "/v1/namespaces/acme/seals")).json()["data"]
    assert [seal["run"] for seal in seals] == [run["id"]]
    assert await audited(own_api, run["id"]) == [("run.delete", None)]


async def test_ended_runs_are_kept_as_long_as_their_namespace_says(own_api: Api, clock: Clock) -> None:
    old, other = await ended(own_api), await ended(own_api, namespace="longer")
    waiting = await own_api.start()
    put = await own_api.call("PUT", "/v1/namespaces/longer", json={"retention_days": 60})
    assert put.json()["retention_days"] == 60
    stop = asyncio.Event()
    clock.advance(29 * DAY_MS)
    await Sealer(own_api.store).seal_ended()
    assert await sweep(own_api.retention, stop) == 0
    recent = await ended(own_api)
    clock.advance(2 * DAY_MS)
    await Sealer(own_api.store).seal_ended()
    assert await sweep(own_api.retention, stop) == 1
    left = (await own_api.call("GET", "/v1/runs?namespace=acme")).json()["data"]
    assert [run["id"] for run in left] == [recent["id"], waiting["id"]]
    assert await rows_of(own_api, old["id"]) == dict.fromkeys(TABLES, 0)
    clock.advance(30 * DAY_MS)
    assert await sweep(own_api.retention, stop) == 2
    assert (await own_api.call("GET", f"/v1/runs/{other['id']}?namespace=longer")).status_code == 404


KEPT = {"seals", "events", "audit_log"}
"""The chain of digests, and what was told of the run: for thirty days of its own, and for good."""


async def test_nothing_else_of_an_expired_run_stays(own_api: Api, clock: Clock) -> None:
    """Every table that names runs is looked at, those that come later too."""
    run = (await own_api.start(labels={"of": "acme"}))["id"]
    puppet = await own_api.puppet(run)
    await puppet.call_tool("pay", {"cents": 5}, gated=True, expires_ms=60_000)
    await puppet.wait_for_signal("go")
    signalled = await own_api.call(
        "POST", f"/v1/runs/{run}/signals?namespace=acme", json={"name": "go", "id": "s", "payload": BIG}
    )
    assert signalled.status_code == 202
    decided = await own_api.call(
        "POST", f"/v1/runs/{run}/approvals/1?namespace=acme", json={"decision": "denied", "reason": "no"}
    )
    assert decided.status_code == 200, decided.text
    await puppet.complete(BIG, delivered=5)
    async with acquired(own_api.store.pool) as connection:
        tables = await connection.fetch(
            "select table_name as name from information_schema.columns where column_name = 'run_id'"
            " and table_schema = 'public'"
        )
        counts = {
            table["name"]: await connection.fetchval(
                f"select count(*) from {table['name']} where run_id = $1", run
            )
            for table in tables
        }
        assert {"approvals", "entries", "value_refs"} <= {name for name, n in counts.items() if n}
        await Sealer(own_api.store).seal_ended()
        clock.advance(31 * DAY_MS)
        assert await sweep(own_api.retention, asyncio.Event()) == 1
        for name in counts.keys() - KEPT:
            left = await connection.fetchval(f"select count(*) from {name} where run_id = $1", run)
            assert left == 0, name


@pytest.mark.parametrize(("runs", "entries", "batches"), [(2, 1_000, [2, 2, 1]), (50, 7, [2, 2, 1])])
async def test_runs_are_deleted_in_batches(
    own_api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch, runs: int, entries: int, batches: list[int]
) -> None:
    """Bounded by the number of runs, and by that of their entries: three each here."""
    monkeypatch.setattr(retention, "RUNS_AT_ONCE", runs)
    monkeypatch.setattr(retention, "ENTRIES_AT_ONCE", entries)
    for _ in range(5):
        await ended(own_api)
    await Sealer(own_api.store).seal_ended()
    clock.advance(31 * DAY_MS)
    done: list[int] = []
    delete = own_api.retention.delete_runs

    async def noting(namespace: NamespaceId, expired: Sequence[RunId]) -> int:
        done.append(await delete(namespace, expired))
        return done[-1]

    monkeypatch.setattr(own_api.retention, "delete_runs", noting)
    assert await sweep(own_api.retention, asyncio.Event()) == 5
    assert done == batches


async def test_runs_that_are_not_sealed_stay(own_api: Api, clock: Clock) -> None:
    run = await ended(own_api)
    clock.advance(40 * DAY_MS)
    assert await sweep(own_api.retention, asyncio.Event()) == 0
    await Sealer(own_api.store).seal_ended()
    assert await sweep(own_api.retention, asyncio.Event()) == 1
    assert (await call(own_api, "GET", run["id"])).status_code == 404


async def test_idempotency_keys_outlive_thirty_days(own_api: Api, clock: Clock) -> None:
    headers = {"Idempotency-Key": "kept"}
    body = {"script": "export function main() {}", "namespace": "acme"}
    first = await own_api.call("POST", "/v1/runs", json=body, headers=headers)
    clock.advance(30 * DAY_MS)
    await sweep(own_api.retention, asyncio.Event())
    again = await own_api.call("POST", "/v1/runs", json=body, headers=headers)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    clock.advance(2 * DAY_MS)
    await sweep(own_api.retention, asyncio.Event())
    async with acquired(own_api.store.pool) as connection:
        assert await connection.fetchval("select count(*) from idempotency") == 0


async def test_a_redacted_value_is_nowhere_and_the_root_still_holds(
    own_api: Api, blobs: BlobStore, clock: Clock
) -> None:
    run = await ended(own_api, {"iban": "DE02"}, input={"card": BIG}, labels={"a": "b"})
    sealed = (await call(own_api, "GET", f"{run['id']}/seal")).json()
    namespace = await namespace_of(own_api, run["id"])
    input_sha = (await call(own_api, "GET", f"{run['id']}/journal")).json()["data"][0]["input"]["sha256"]
    for seq, field in [(0, "input"), (1, "values"), (2, "output")]:
        body = {"seq": seq, "field": field, "reason": "asked for"}
        answer = await call(own_api, "POST", f"{run['id']}/redact", json=body)
        assert (answer.status_code, answer.json()["redacted"]) == (200, True), answer.text
        again = await call(own_api, "POST", f"{run['id']}/redact", json=body)
        assert again.json() == answer.json()
    entries = await own_api.store.read_entries(namespace, RunId(run["id"]))
    root = Root(RunId(run["id"]))
    root.add(entries)
    assert root.hex() == sealed["root"]
    assert is_redacted(entries)
    journal = (await call(own_api, "GET", f"{run['id']}/journal")).json()["data"]
    assert set(journal[0]["input"]) == {"sha256", "bytes", "redacted"}
    assert set(journal[1]["values"]) == {"sha256", "bytes", "redacted"}
    assert "DE02" not in json.dumps(journal)
    shown = (await call(own_api, "GET", run["id"])).json()
    assert (shown["status"], shown["input"], shown["output"]) == ("completed", None, None)
    gone = await call(own_api, "GET", f"{run['id']}/output")
    assert (gone.status_code, "was redacted" in gone.json()["detail"]) == (404, True)
    assert (await call(own_api, "GET", f"{run['id']}/values/{input_sha}")).status_code == 404
    cassette = await own_api.call("GET", f"/v1/runs/{run['id']}/journal?namespace=acme&as=cassette")
    assert (cassette.status_code, cassette.json()["code"]) == (409, "history_unavailable")
    assert [action for action, _ in await audited(own_api, run["id"])] == ["run.redact"] * 3
    clock.advance(2 * DAY_MS)
    assert await collect_all(own_api.store.pool, blobs, asyncio.Event()) == 1
    try:
        await blobs.get(namespace, input_sha)
    except BlobLost:
        return
    raise AssertionError("the object of a redacted value is still there")


async def test_a_value_that_another_entry_names_keeps_its_object(own_api: Api) -> None:
    run = await ended(own_api, BIG, input=BIG)
    sha = (await call(own_api, "GET", f"{run['id']}/journal")).json()["data"][0]["input"]["sha256"]
    async with acquired(own_api.store.pool) as connection:
        named = "select count(*) from value_refs where run_id = $1"
        before = await connection.fetchval(named, run["id"])
    body = {"seq": 0, "field": "input", "reason": "asked for"}
    assert (await call(own_api, "POST", f"{run['id']}/redact", json=body)).status_code == 200
    async with acquired(own_api.store.pool) as connection:
        assert (before, await connection.fetchval(named, run["id"])) == (1, 1)
    assert len(sha) == 64


async def test_what_cannot_be_redacted_is_said(own_api: Api) -> None:
    active = await own_api.start()
    body = {"seq": 0, "field": "input", "reason": "asked for"}
    refused = await call(own_api, "POST", f"{active['id']}/redact", json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "run_active")
    run = await ended(own_api)
    for wrong, status in [({"seq": 1, "field": "input"}, 400), ({"seq": 9, "field": "input"}, 404)]:
        answer = await call(own_api, "POST", f"{run['id']}/redact", json={**body, **wrong})
        assert answer.status_code == status, answer.text
    answer = await call(own_api, "POST", f"{run['id']}/redact", json={"seq": 0, "field": "input"})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, "reason")


async def test_messages_made_of_a_redacted_run_are_made_anew(own_api: Api) -> None:
    made = await own_api.call("POST", "/v1/webhooks", json={"url": "https://example.invalid/"})
    run = await ended(own_api, {"iban": "DE02"})
    await own_api.services.hooks.projector.project_recorded()
    before = (await own_api.call("GET", "/v1/events?namespace=acme")).text
    assert "DE02" in before
    body = {"seq": 2, "field": "output", "reason": "asked for"}
    assert (await call(own_api, "POST", f"{run['id']}/redact", json=body)).status_code == 200
    await own_api.services.hooks.projector.project_recorded()
    after = await own_api.call("GET", "/v1/events?namespace=acme")
    assert run["id"] in after.text
    assert "DE02" not in after.text
    deliveries = await own_api.call("GET", f"/v1/webhooks/{made.json()['id']}/deliveries")
    assert len(deliveries.json()["data"]) == 1


async def test_a_quarantined_run_is_neither_deleted_nor_redacted(own_api: Api) -> None:
    run = (await own_api.start())["id"]
    await own_api.services.quarantine.quarantine(run, "a drill", by=Actor("operator", "ann"))
    body = {"seq": 0, "field": "input", "reason": "asked for"}
    for answer in (
        await call(own_api, "DELETE", run),
        await call(own_api, "POST", f"{run}/redact", json=body),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "run_quarantined")


async def test_what_a_fork_is_being_made_from_is_neither_deleted_nor_redacted(own_api: Api) -> None:
    own_api.desk.plan = {"report": {}, "gone": None}
    run = await ended(own_api, {"iban": "DE02"})
    fork = (await call(own_api, "POST", f"{run['id']}/fork", json={})).json()["id"]
    body = {"seq": 2, "field": "output", "reason": "asked for"}
    for answer in (
        await call(own_api, "DELETE", run["id"]),
        await call(own_api, "POST", f"{run['id']}/redact", json=body),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "run_active")
        assert fork in answer.json()["detail"]
    await (await own_api.puppet(fork)).finish_fork()
    assert (await call(own_api, "POST", f"{run['id']}/redact", json=body)).status_code == 200
    assert (await call(own_api, "DELETE", run["id"])).status_code == 204
    assert (await call(own_api, "GET", fork)).json()["status"] == "active"


async def test_a_run_that_is_deleted_while_it_is_looked_at_is_not_forked(
    own_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_api.desk.plan = {"report": {}, "gone": None}
    run = await ended(own_api)
    keep = Scripts.keep

    async def deleting(self: Scripts, *script: Any) -> None:
        await keep(self, *script)
        assert (await call(own_api, "DELETE", run["id"])).status_code == 204

    monkeypatch.setattr(Scripts, "keep", deleting)
    answer = await call(own_api, "POST", f"{run['id']}/fork", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "history_unavailable")
    assert (await own_api.call("GET", "/v1/runs?namespace=acme")).json()["data"] == []
