"""`POST /v1/runs/{run}/fork`: refusals, what a fork begins with, lineage; its plan is the double's."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox.journal.canonical import value_of
from sandbox.journal.entries import ScheduleToolCall, ScriptError, ToolPolicy
from sandbox.journal.errors import Unavailable
from sandbox.store.postgres.connection import acquired
from tests.fixtures.api import SCRIPT, Api

OTHER = SCRIPT + "// corrected"
PLAN = {
    "reused": {"calls": 1, "signals": 0, "timers": 0},
    "dropped": [{"seq": 4, "type": "signal_received", "name": "go", "id": "s"}],
    "diverged_at": None,
}


@pytest.fixture
async def failed(api: Api) -> AsyncIterator[dict[str, Any]]:
    """A run that has ended, with labels."""
    run = await api.start(input={"n": 1}, labels={"team": "a"})
    puppet = await api.puppet(run["id"])
    await puppet.append_log("x")
    await puppet.fail(ScriptError("Error", "no"))
    api.desk.plan = {"report": PLAN, "gone": None}
    yield run


async def fork(api: Api, run: str, secret: str | None = None, key: str | None = None, **body: Any) -> Any:
    headers = {} if key is None else {"idempotency-key": key}
    return await api.call(
        "POST", f"/v1/runs/{run}/fork?namespace=acme", secret=secret, json=body, headers=headers
    )


async def journal(api: Api, run: str) -> list[dict[str, Any]]:
    answer = await api.call("GET", f"/v1/runs/{run}/journal?namespace=acme")
    return list(answer.json()["data"])


async def get(api: Api, run: str) -> dict[str, Any]:
    return dict((await api.call("GET", f"/v1/runs/{run}?namespace=acme")).json())


async def test_a_fork_begins_with_the_parents_input_seed_and_time(api: Api, failed: dict[str, Any]) -> None:
    answer = await fork(api, failed["id"], script=OTHER, ttl="1h")
    assert answer.status_code == 201, answer.text
    view = answer.json()
    assert view["fork"] == PLAN
    assert view["parent"] == {"run": failed["id"], "kind": "fork"}
    assert view["script"] != failed["script"]
    assert view["labels"] == {"team": "a"}
    [before], [first] = [
        entries[:1] for entries in (await journal(api, failed["id"]), await journal(api, view["id"]))
    ]
    for field in ("input", "toolset", "seed", "epoch", "time", "limits"):
        assert first[field] == before[field], field
    assert first["parent"] == {"run": failed["id"], "kind": "fork"}
    assert first["deadline"] - first["forked_at"] == 3_600_000
    assert first["forked_at"] > before["time"]
    assert first["origin"] == {
        "run": failed["id"],
        "labels": {"team": "a"},
        "deadline": before["deadline"],
        "parent": None,
    }


async def test_a_fork_of_a_fork_keeps_the_origin_of_its_line(api: Api, failed: dict[str, Any]) -> None:
    first = (await fork(api, failed["id"], labels={"mine": "1"})).json()
    puppet = await api.puppet(first["id"])
    await puppet.finish_fork()
    await puppet.fail(ScriptError("Error", "no"))
    second = (await fork(api, first["id"])).json()
    [entry] = (await journal(api, second["id"]))[:1]
    assert entry["origin"]["run"] == failed["id"]
    assert entry["origin"]["labels"] == {"team": "a"}
    assert entry["parent"]["run"] == first["id"]
    assert second["labels"] == {"mine": "1"}


async def test_lineage_is_seen_from_both_sides(api: Api, failed: dict[str, Any]) -> None:
    forks = [(await fork(api, failed["id"])).json()["id"] for _ in range(2)]
    assert (await get(api, failed["id"]))["forks"] == forks
    listed = await api.call("GET", f"/v1/runs?namespace=acme&parent={failed['id']}")
    assert [run["id"] for run in listed.json()["data"]] == forks[::-1]
    assert "fork" not in await get(api, failed["id"])
    assert (await get(api, forks[0]))["fork"] == PLAN


async def test_a_dry_run_stores_nothing(api: Api, failed: dict[str, Any]) -> None:
    async def counted() -> list[int]:
        async with acquired(api.store.pool) as connection:
            tables = ("runs", "entries", "scripts", "compiled_scripts", "idempotency")
            return [await connection.fetchval(f"select count(*) from {table}") for table in tables]

    before = await counted()
    answer = await fork(api, failed["id"], script=OTHER, dry_run=True, key="k")
    assert (answer.status_code, answer.json()) == (200, {"fork": PLAN})
    assert await counted() == before


async def test_a_plan_that_is_not_ready_leaves_it_to_the_worker(api: Api, failed: dict[str, Any]) -> None:
    api.desk.plan = Unavailable("no worker")
    answer = await fork(api, failed["id"])
    assert (answer.status_code, answer.json()["fork"]) == (201, None)
    assert (await fork(api, failed["id"], dry_run=True)).status_code == 503
    puppet = await api.puppet(answer.json()["id"])
    await puppet.finish_fork(report=PLAN)
    assert (await get(api, answer.json()["id"]))["fork"] == PLAN


async def test_the_same_key_answers_the_same_fork(api: Api, failed: dict[str, Any]) -> None:
    first = await fork(api, failed["id"], key="fork-1", at=1)
    again = await fork(api, failed["id"], key="fork-1", at=1, wait=1)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert again.headers["idempotent-replayed"] == "true"
    other = await fork(api, failed["id"], key="fork-1")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    of_another = await fork(api, first.json()["id"], key="fork-1", at=1)
    assert (of_another.status_code, of_another.json()["code"]) == (409, "idempotency_conflict")


async def test_refusals(api: Api, failed: dict[str, Any]) -> None:
    active = await api.start()
    expected: list[tuple[str, dict[str, Any], int, str]] = [
        (active["id"], {}, 409, "run_active"),
        (failed["id"], {"at": 3}, 400, "invalid_request"),
        (failed["id"], {"at": -1}, 400, "invalid_request"),
        (failed["id"], {"at": "1"}, 400, "invalid_request"),
        (failed["id"], {"at": 1.5}, 400, "invalid_request"),
        (failed["id"], {"input": 1}, 400, "invalid_request"),
        (failed["id"], {"ttl": "31d"}, 429, "quota_exceeded"),
        (failed["id"], {"script": "const x = 1;"}, 422, "script_refused"),
        (failed["id"], {"script": "sha256:" + "0" * 64}, 404, "not_found"),
        ("00000000-0000-7000-8000-000000000000", {}, 404, "not_found"),
    ]
    for run, body, status, code in expected:
        answer = await fork(api, run, **body)
        assert (answer.status_code, answer.json().get("code")) == (status, code), (body, answer.text)
    api.desk.plan = {"report": None, "gone": "a value was redacted"}
    answer = await fork(api, failed["id"])
    assert (answer.status_code, answer.json()["code"]) == (409, "history_unavailable")
    assert (await get(api, failed["id"]))["forks"] == []


async def test_a_quarantined_run_and_one_of_an_epoch_that_is_gone_are_refused(
    own_api: Api,
) -> None:
    run = await own_api.start()
    for sql, code in (
        ("update runs set status = 5", "run_quarantined"),
        ("update runs set status = 2, epoch = 99", "epoch_unavailable"),
    ):
        async with acquired(own_api.store.pool) as connection:
            await connection.execute(sql)
        answer = await fork(own_api, run["id"])
        assert (answer.status_code, answer.json()["code"]) == (409, code)


async def test_signals_and_cancels_wait_until_everything_reused_is_recorded(
    api: Api, failed: dict[str, Any]
) -> None:
    run = (await fork(api, failed["id"])).json()["id"]
    path = f"/v1/runs/{run}"
    sent = [
        await api.call("POST", f"{path}/signals?namespace=acme", json={"name": "go", "id": "s1"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in sent] == [202, 202]
    assert [answer.json()["duplicate"] for answer in sent] == [False, True]
    cancelled = await api.call("POST", f"{path}/cancel?namespace=acme", json={})
    assert (cancelled.status_code, cancelled.json()["cancelling"]) == (202, True)
    assert [entry["type"] for entry in await journal(api, run)] == ["run_started"]
    puppet = await api.puppet(run)
    await puppet.finish_fork()
    assert [entry["type"] for entry in await journal(api, run)] == [
        "run_started",
        "log",
        "signal_received",
        "cancel_requested",
    ]
    assert (await get(api, run))["cancelling"] is True


async def test_the_new_script_must_take_the_parents_input(api: Api, failed: dict[str, Any]) -> None:
    api.desk.schema = {"type": "object", "properties": {"n": {"type": "string"}}}
    answer = await fork(api, failed["id"], script=OTHER + "// strict")
    assert (answer.status_code, answer.json()["code"]) == (422, "input_refused")
    assert answer.json()["errors"][0]["path"] == "input.n"


async def test_a_call_that_an_earlier_run_may_have_made_goes_out_with_its_key_there(api: Api) -> None:
    await api.toolset("support", "echo")
    run = await api.start(toolset="support")
    puppet = await api.puppet(run["id"])
    kept = ScheduleToolCall(1, "echo", value_of({}), ToolPolicy(), "earlier/7")
    await puppet.append(kept, n=1, name="echo")
    own = ScheduleToolCall(2, "echo", value_of({}), ToolPolicy())
    await puppet.append(own, n=2, name="echo")
    claim = {"max": 2, "toolset": "support", "namespace": "acme"}
    tasks = (await api.call("POST", "/v1/tasks/claim", json=claim)).json()["tasks"]
    assert [task["idempotency_key"] for task in tasks] == ["earlier/7", f"{run['id']}/2"]


async def test_a_token_for_one_run_forks_nothing(api: Api, failed: dict[str, Any]) -> None:
    token = await api.token("acme", narrow={"run": failed["id"]})
    answer = await fork(api, failed["id"], secret=token)
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
