"""Namespaces as a whole: suspended and resumed, exported, deleted; the chain of seals."""

import hashlib
import json
from typing import Any

import pytest

from sandbox.journal.ids import RunId, Sha256
from sandbox.store.postgres.connection import acquired
from sandbox.store.seal import link
from tests.fixtures.api import SCRIPT, Api
from tests.fixtures.database import Clock

LEFT = (
    "entries",
    "runs",
    "run_facts",
    "scripts",
    "compiled_scripts",
    "checked_scripts",
    "pending",
    "value_refs",
)
LEFT += ("idempotency", "seals", "tokens", "secrets", "events")


async def post(api: Api, path: str, **options: Any) -> Any:
    return await api.call("POST", f"/v1/namespaces/{path}", **options)


async def test_a_suspended_namespace_is_frozen(own_api: Api) -> None:
    await own_api.toolset("support", "echo")
    run = await own_api.start(toolset="support")
    puppet = await own_api.puppet(run["id"])
    await puppet.call_tool("echo", {"x": 1})
    token = await own_api.token("acme")
    suspended = await post(own_api, "acme/suspend")
    assert (suspended.status_code, suspended.json()["status"]) == (200, "suspended")
    assert (await post(own_api, "acme/suspend")).json() == suspended.json()
    for secret in (own_api.key, token):
        for path, body in [
            ("", {"script": run["script"], "namespace": "acme"}),
            (f"/{run['id']}/signals?namespace=acme", {"name": "go"}),
            (f"/{run['id']}/cancel?namespace=acme", {}),
            ("/cancel?namespace=acme", {"filter": {}}),
        ]:
            answer = await own_api.call("POST", f"/v1/runs{path}", secret=secret, json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "namespace_suspended")
        shown = await own_api.call("GET", f"/v1/runs/{run['id']}?namespace=acme", secret=secret)
        assert shown.json()["status"] == "active"
    with pytest.raises(AssertionError):  # its owner has lost it
        await puppet.append_log("late")
    claim = {"max": 1}
    assert (await own_api.call("POST", "/v1/tasks/claim", json=claim)).json() == {"tasks": []}
    assert (await post(own_api, "acme/resume")).json()["status"] == "active"
    tasks = (await own_api.call("POST", "/v1/tasks/claim", json=claim)).json()["tasks"]
    assert [task["run"] for task in tasks] == [run["id"]]


async def test_outcomes_are_recorded_while_suspended_and_runs_claimed_only_after_it(own_api: Api) -> None:
    await own_api.toolset("support", "echo")
    run = await own_api.start(toolset="support")
    puppet = await own_api.puppet(run["id"])
    await puppet.call_tool("echo", {"x": 1})
    tasks = (await own_api.call("POST", "/v1/tasks/claim", json={"max": 1})).json()["tasks"]
    await post(own_api, "acme/suspend")
    items = {"items": [{"token": tasks[0]["token"], "result": 1}]}
    assert (await own_api.call("POST", "/v1/tasks/complete", json=items)).json()["results"][0]["ok"] is True
    owner = puppet._owner
    assert await owner.claim_runs(owner.worker, [1], 10) == []  # type: ignore[list-item]
    await post(own_api, "acme/resume")
    claimed = await owner.claim_runs(owner.worker, [1], 10)  # type: ignore[list-item]
    assert [found.run for found in claimed] == [run["id"]]


async def test_a_namespace_that_nobody_used_yet_is_empty(own_api: Api) -> None:
    for path in ("runs", "scripts", "approvals", "tokens", "secrets", "usage"):
        answer = await own_api.call("GET", f"/v1/{path}?namespace=new")
        assert (answer.status_code, answer.json()["data"]) == (200, []), path
    run = "01890000-0000-7000-8000-000000000000"
    for tail in ("", "/journal", "/approvals", "/output"):
        assert (await own_api.call("GET", f"/v1/runs/{run}{tail}?namespace=new")).status_code == 404
    for call in ("signals", "cancel", "fork", "replay"):
        answer = await own_api.call("POST", f"/v1/runs/{run}/{call}", json={"namespace": "new2", "name": "x"})
        assert answer.status_code in {400, 404}, call
    assert (await own_api.call("GET", "/v1/namespaces/new")).status_code == 404, "reading makes none"
    quotas = (await own_api.call("GET", "/v1/namespaces/new/quotas")).json()
    assert (quotas["active_runs"]["used"], quotas["active_runs"]["source"]) == (0, "plan")
    assert (await own_api.call("GET", "/v1/namespaces/new")).status_code == 404


async def test_limits_may_come_before_the_first_run(own_api: Api) -> None:
    changed = await own_api.call("PATCH", "/v1/namespaces/early/quotas", json={"active_runs": 0})
    assert (changed.status_code, changed.json()["active_runs"]["limit"]) == (200, 0)
    body = {"script": SCRIPT, "namespace": "early"}
    assert (await own_api.call("POST", "/v1/runs", json=body)).json()["code"] == "quota_exceeded"
    cancelled = await own_api.call("POST", "/v1/runs/cancel", json={"filter": {}, "namespace": "none-yet"})
    assert (cancelled.status_code, cancelled.json()["matched"]) == (202, 0)


async def test_a_deleted_namespace_is_gone_at_once_and_its_name_is_free(own_api: Api, clock: Clock) -> None:
    await own_api.toolset("support", "echo")
    run = await own_api.start(toolset="support", input="x" * 100_000, labels={"who": "ada"})
    await (await own_api.puppet(run["id"])).call_tool("echo", {})
    done = await own_api.start()
    await (await own_api.puppet(done["id"])).complete(1)
    await own_api.call("GET", f"/v1/runs/{done['id']}/seal?namespace=acme")
    await own_api.call("PUT", "/v1/secrets/key", json={"value": "v", "namespace": "acme"})
    token = await own_api.token("acme")
    before = (await own_api.call("GET", "/v1/namespaces/acme")).json()
    assert (await own_api.call("DELETE", "/v1/namespaces/acme")).status_code == 204
    for path in ("/v1/namespaces/acme", f"/v1/runs/{run['id']}?namespace=acme"):
        assert (await own_api.call("GET", path)).status_code == 404
    assert (await own_api.call("GET", "/v1/runs?namespace=acme")).json() == {"data": [], "next": None}
    assert (await own_api.call("DELETE", "/v1/namespaces/acme")).status_code == 404
    assert (await own_api.call("GET", "/v1/runs", secret=token)).status_code == 401
    assert (await own_api.call("POST", "/v1/tasks/claim", json={"max": 1})).json() == {"tasks": []}
    anew = await own_api.start()
    assert anew["namespace"] == "acme"
    assert (await own_api.call("GET", "/v1/namespaces/acme")).json()["id"] != before["id"]
    assert len((await own_api.call("GET", "/v1/runs?namespace=acme")).json()["data"]) == 1
    assert await own_api.retention.erase_some() == 1
    assert await own_api.retention.erase_some() == 1  # processes may still know its name
    clock.advance(121_000)
    assert await own_api.retention.erase_some() == 0
    async with acquired(own_api.store.pool) as connection:
        for table in LEFT:
            count = await connection.fetchval(
                f"select count(*) from {table} where namespace_id = $1", before["id"]
            )
            assert count == 0, table
        row = await connection.fetchrow("select * from namespaces where id = $1", before["id"])
        assert (row["name"], row["labels"], row["erased_at"] is None) == ("~" + before["id"], "{}", False)
        said = await connection.fetchval("select count(*) from audit_log where action = 'namespace.delete'")
    assert said == 1


async def test_namespaces_are_listed_by_name(own_api: Api) -> None:
    for name in ("b", "c", "a"):
        await own_api.call("PUT", f"/v1/namespaces/{name}", json={"labels": {"n": name}})
    first = (await own_api.call("GET", "/v1/namespaces?limit=2")).json()
    assert [row["name"] for row in first["data"]] == ["a", "b"]
    rest = (await own_api.call("GET", f"/v1/namespaces?limit=2&after={first['next']}")).json()
    assert ([row["name"] for row in rest["data"]], rest["next"]) == (["c"], None)
    assert rest["data"][0]["retention_days"] == 30
    assert (await own_api.call("GET", "/v1/namespaces?after=!")).status_code == 400


async def test_an_export_holds_everything_and_says_when_it_is_whole(own_api: Api) -> None:
    await own_api.toolset("support", "echo")
    big = "b" * 100_000
    run = await own_api.start(toolset="support", input=big)
    await (await own_api.puppet(run["id"])).complete({"done": True})
    gone = await own_api.start()
    await (await own_api.puppet(gone["id"])).complete(1)
    await own_api.call("DELETE", f"/v1/runs/{gone['id']}?namespace=acme")
    await own_api.call("GET", f"/v1/runs/{run['id']}/seal?namespace=acme")
    await own_api.start("other")
    answer = await post(own_api, "acme/export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds == [
        "export",
        "script",
        "toolset",
        "run",
        "entry",
        "value",
        "entry",
        "cassette",
        "seal",
        "seal",
        "end",
    ]
    assert {line.get("run", {}) if line["type"] == "entry" else run["id"] for line in lines} == {run["id"]}
    value = next(line for line in lines if line["type"] == "value")
    text = json.dumps(value["value"]).encode()
    assert (hashlib.sha256(text).hexdigest(), len(text)) == (value["sha256"], value["bytes"])
    assert lines[kinds.index("cassette")]["cassette"]["input"] == big
    assert lines[-1] == {"type": "end", "runs": 1, "lines": len(lines) - 1}


async def test_the_chain_of_seals_is_readable_in_pages(own_api: Api) -> None:
    runs = []
    for number in range(3):
        run = await own_api.start()
        await (await own_api.puppet(run["id"])).complete(number)
        await own_api.call("GET", f"/v1/runs/{run['id']}/seal?namespace=acme")
        runs.append(run["id"])
    token = await own_api.token("acme", ["runs:read"])
    first = (await own_api.call("GET", "/v1/namespaces/acme/seals?limit=2", secret=token)).json()
    path = f"/v1/namespaces/acme/seals?after={first['next']}"
    rest = (await own_api.call("GET", path, secret=token)).json()
    seals = first["data"] + rest["data"]
    assert ([seal["run"] for seal in seals], rest["next"]) == (runs, None)
    previous = None
    for position, seal in enumerate(seals, start=1):
        assert (seal["position"], seal["previous"]) == (position, previous)
        previous = link(previous, RunId(seal["run"]), Sha256(seal["root"]))
