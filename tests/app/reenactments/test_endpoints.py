"""Tests, replays and cassettes over HTTP: what is asked of the sandbox, and how its answers are told."""

import asyncio
from typing import Any

import pytest

from sandbox.journal.canonical import value_of
from sandbox.journal.entries import CompleteRun, FailRun, ScriptError
from sandbox.journal.errors import Unavailable
from tests.fixtures.api import SCRIPT, Api
from tests.fixtures.turns import until

NAMESPACE = "?namespace=acme"


async def test_a_test_asks_with_the_pinned_tools_and_stores_nothing(api: Api) -> None:
    toolset = await api.toolset("support", "pay", approval=True)
    api.desk.reenacted = {"status": "completed", "output": 1}
    body = {"script": SCRIPT, "toolset": "support", "input": {"n": 1}, "mocks": {"pay": [{"result": 2}]}}
    answer = await api.call("POST", f"/v1/scripts/test{NAMESPACE}", json=body)
    assert (answer.status_code, answer.json()) == (200, {"status": "completed", "output": 1})
    [asked] = api.desk.questions
    assert (asked["source"], asked["input"], asked["mocks"]) == (SCRIPT, {"n": 1}, {"pay": [{"result": 2}]})
    assert asked["toolset"] == f"support@{toolset['digest']}"
    assert [(tool["name"], tool["approval"]) for tool in asked["tools"]] == [("pay", True)]
    for path in ("runs", "scripts"):
        assert (await api.call("GET", f"/v1/{path}{NAMESPACE}")).json()["data"] == []


async def test_a_cassette_has_the_input_where_the_test_gives_none(api: Api) -> None:
    api.desk.reenacted = {"status": "completed"}
    body = {"script": SCRIPT, "cassette": {"cassette": 1, "input": {"n": 7}}}
    for given in ({}, {"input": {"n": 8}}, {"input": None}):
        answer = await api.call("POST", f"/v1/scripts/test{NAMESPACE}", json={**body, **given})
        assert answer.status_code == 200, answer.text
    assert [asked.get("input") for asked in api.desk.questions] == [{"n": 7}, {"n": 8}, None]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_request"),
        ({"script": SCRIPT, "mocks": []}, 400, "invalid_request"),
        ({"script": SCRIPT, "signals": [{"at": 1}]}, 400, "invalid_request"),
        ({"script": SCRIPT, "approvals": {"pay": "maybe"}}, 400, "invalid_request"),
        ({"script": SCRIPT, "toolset": "none"}, 422, "unknown_toolset"),
        ({"script": "export const x = 1"}, 422, "script_refused"),
        ({"script": "x" * 300_000}, 413, "too_large"),
        ({"script": "sha256:" + "0" * 64}, 404, "not_found"),
    ],
)
async def test_what_cannot_be_tried_is_refused(api: Api, body: Any, status: int, code: str) -> None:
    answer = await api.call("POST", "/v1/scripts/test?namespace=wrong", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert api.desk.questions == []


async def test_what_the_sandbox_refuses_is_the_callers(api: Api) -> None:
    api.desk.reenacted = {
        "refused": {"path": "cassette.calls[0].tool", "message": "the name of a tool is expected"}
    }
    answer = await api.call("POST", f"/v1/scripts/test{NAMESPACE}", json={"script": SCRIPT, "cassette": {}})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert [error["path"] for error in answer.json()["errors"]] == ["cassette.calls[0].tool"]


async def test_a_replay_is_answered_when_it_is_ready(api: Api) -> None:
    run = (await api.start())["id"]
    path = f"/v1/runs/{run}/replay{NAMESPACE}"
    assert (await api.call("POST", path)).json()["matches"] is True
    assert (
        await api.call("POST", path, json={"script": SCRIPT, "overrides": {"1": {"result": 2}}})
    ).status_code == 200
    assert api.desk.questions == [
        {"run": run},
        {"run": run, "source": SCRIPT, "overrides": {"1": {"result": 2}}},
    ]
    api.desk.reenacted = {"unavailable": "redacted"}
    assert (await api.call("POST", path)).json()["code"] == "history_unavailable"
    api.desk.reenacted = {
        "diagnostics": [{"severity": "error", "code": "x", "message": "no", "line": 1, "column": 1}]
    }
    assert (await api.call("POST", path)).json()["code"] == "script_refused"


async def test_a_long_replay_has_an_id_and_its_result_is_kept(api: Api) -> None:
    run = (await api.start())["id"]
    api.services.reenactments._ready_s = 0.01
    api.desk.reenacted = asyncio.get_running_loop().create_future()
    began = await api.call("POST", f"/v1/runs/{run}/replay{NAMESPACE}", json={})
    assert (began.status_code, list(began.json())) == (202, ["id"])
    path = f"/v1/runs/{run}/replays/{began.json()['id']}{NAMESPACE}"
    pending = await api.call("GET", path)
    assert (pending.status_code, pending.json()) == (202, began.json())
    api.desk.reenacted.set_result({"matches": True, "output": "late"})
    await until(lambda: not api.services.reenactments._going_on)
    kept = await api.call("GET", path)
    assert (kept.status_code, kept.json()) == (200, {"matches": True, "output": "late"})
    async with api.store.pool.system.acquire() as connection:
        sealed = await connection.fetchval("select answer from replays where run_id = $1", run)
    assert b"late" not in sealed
    other = (await api.start())["id"]
    unknown = f"/v1/runs/{other}/replays/{began.json()['id']}{NAMESPACE}"
    assert (await api.call("GET", unknown)).status_code == 404
    assert (await api.call("GET", f"/v1/runs/{run}/replays/x{NAMESPACE}")).status_code == 404


async def test_a_replay_that_was_lost_says_so(api: Api) -> None:
    run = (await api.start())["id"]
    api.services.reenactments._ready_s = 0.01
    api.desk.reenacted = asyncio.get_running_loop().create_future()
    began = await api.call("POST", f"/v1/runs/{run}/replay{NAMESPACE}", json={})
    api.desk.reenacted.set_exception(Unavailable("the worker left"))
    await until(lambda: not api.services.reenactments._going_on)
    lost = await api.call("GET", f"/v1/runs/{run}/replays/{began.json()['id']}{NAMESPACE}")
    assert (lost.status_code, lost.json()["code"]) == (503, "unavailable")


async def test_a_journal_as_a_cassette(api: Api) -> None:
    await api.toolset("support", "echo")
    big = "x" * 100_000
    run = await api.start(toolset="support", input={"big": big})
    puppet = await api.puppet(run["id"])
    await puppet.call_tool("echo", {"n": 1})
    await puppet.call_tool("echo", {"n": 2})
    [one, _] = (await api.call("POST", "/v1/tasks/claim", json={"max": 2})).json()["tasks"]
    await api.call("POST", "/v1/tasks/complete", json={"items": [{"token": one["token"], "result": big}]})
    await api.call(
        "POST", f"/v1/runs/{run['id']}/signals{NAMESPACE}", json={"name": "go", "payload": 1, "id": "s"}
    )
    path = f"/v1/runs/{run['id']}/journal{NAMESPACE}&as=cassette"
    cassette = (await api.call("GET", path)).json()
    entries = (await api.call("GET", f"/v1/runs/{run['id']}/journal{NAMESPACE}")).json()["data"]
    assert set(cassette) == {
        "cassette", "run", "script", "toolset", "epoch", "seed", "started_at", "input", "calls", "signals", "ended",
    }  # fmt: skip
    assert (cassette["cassette"], cassette["run"], cassette["ended"]) == (1, run["id"], None)
    assert (cassette["started_at"], cassette["input"]) == (run["started_at"], {"big": big})
    [call] = cassette["calls"]
    assert (call["call"], call["tool"], call["args"], call["result"]) == (1, "echo", {"n": 1}, big)
    assert call["after"] == entries[3]["time"] - entries[1]["time"]
    [signal] = cassette["signals"]
    assert (signal["name"], signal["payload"], signal["id"]) == ("go", 1, "s")
    assert signal["at"] == entries[-1]["time"] - entries[0]["time"]


@pytest.mark.parametrize(
    ("end", "ended"),
    [
        (CompleteRun(value_of({"n": 1})), {"status": "completed", "output": {"n": 1}}),
        (
            FailRun(ScriptError("RangeError", "no", line=1, column=1)),
            {"status": "failed", "error": {"name": "RangeError", "message": "no", "code": None}},
        ),
    ],
)
async def test_a_cassette_says_how_the_run_ended(api: Api, end: Any, ended: Any) -> None:
    run = (await api.start())["id"]
    await (await api.puppet(run)).append(end)
    cassette = (await api.call("GET", f"/v1/runs/{run}/journal{NAMESPACE}&as=cassette")).json()
    assert cassette["ended"] == ended
    assert (await api.call("GET", f"/v1/runs/{run}/journal{NAMESPACE}&as=tape")).status_code == 400
