"""Starting, waiting for, listing, reading and cancelling runs."""

import asyncio
import hashlib
from typing import Any

import httpx2
import orjson
import pytest

from sandbox.journal.entries import ScriptError
from tests.fixtures.api import SCRIPT, Api
from tests.fixtures.database import Clock

RUN_FIELDS = {
    "id", "namespace", "status", "cancelling", "waiting_for", "waiting_count", "input", "output", "output_bytes",
    "output_truncated", "output_preview", "error", "reason", "progress", "labels", "script", "workflow", "toolset",
    "parent", "forks", "children", "epoch", "warnings", "created_by", "started_at", "ended_at", "deadline", "usage",
}  # fmt: skip


async def get(api: Api, run: str, tail: str = "", query: str = "") -> httpx2.Response:
    return await api.call("GET", f"/v1/runs/{run}{tail}?namespace=acme{query}")


async def post(api: Api, body: dict[str, Any], **headers: str) -> httpx2.Response:
    return await api.call("POST", "/v1/runs?namespace=acme", json=body, headers=headers)


# -- The Run object


async def test_a_started_run(api: Api) -> None:
    pinned = await api.toolset("support", "echo")
    run = await api.start(toolset="support", input={"n": 1.0}, labels={"team": "ops"}, ttl="2h")
    assert set(run) == RUN_FIELDS
    assert run["status"] == "active"
    assert run["namespace"] == "acme"
    assert run["script"] == "sha256:" + hashlib.sha256(SCRIPT.encode()).hexdigest()
    assert run["toolset"] == f"support@{pinned['digest']}"
    assert run["labels"] == {"team": "ops"}
    assert run["input"] == {"n": 1}
    assert run["created_by"]["kind"] == "key"
    assert run["started_at"].endswith("Z") and run["deadline"] > run["started_at"]
    assert run["usage"] == {"cpu_ms": 0.0, "calls": 0, "entries": 1, "activations": 0}
    started = (await get(api, run["id"], "/journal")).json()["data"][0]
    assert started["deadline"] - started["time"] == 2 * 3_600_000
    assert started["toolset"] == run["toolset"]
    assert started["seq"] == 0 and started["type"] == "run_started"


async def test_what_a_run_waits_for(api: Api) -> None:
    await api.toolset("support", "echo")
    run = await api.start(toolset="support")
    puppet = await api.puppet(run["id"])
    await puppet.call_tool("echo", {})
    await puppet.wait_for_signal("go")
    await puppet.sleep(60_000)
    await puppet.call_tool("gated", {}, gated=True)
    found = (await get(api, run["id"])).json()
    assert [waiting["kind"] for waiting in found["waiting_for"]] == [
        "tool_call",
        "signal",
        "timer",
        "approval",
    ]
    call, signal, timer, approval = found["waiting_for"]
    assert (call["call"], call["tool"], call["line"]) == (1, "echo", 3)
    assert signal["name"] == "go"
    assert timer["until"] > timer["since"]
    assert approval["call"] == 2
    assert found["waiting_count"] == 4
    assert found["usage"]["calls"] == 2


@pytest.mark.parametrize(
    ("end", "status", "error", "reason"),
    [
        ("complete", "completed", None, None),
        ("fail", "failed", {"name": "TypeError", "message": "boom", "line": 2, "column": 5}, None),
        ("cancel", "cancelled", None, "no longer needed"),
    ],
)
async def test_how_a_run_ends(api: Api, end: str, status: str, error: Any, reason: Any) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    if end == "complete":
        await puppet.complete({"done": True})
    elif end == "fail":
        await puppet.fail(ScriptError("TypeError", "boom", line=2, column=5))
    else:
        answer = await api.call(
            "POST", f"/v1/runs/{run['id']}/cancel?namespace=acme", json={"reason": "no longer needed"}
        )
        assert answer.status_code == 202 and answer.json()["cancelling"]
        await puppet.cancelled("no longer needed", delivered=1)
    found = (await get(api, run["id"])).json()
    assert found["status"] == status
    assert not found["cancelling"]
    assert found["ended_at"] is not None
    assert found["reason"] == reason
    assert (found["output"], found["output_bytes"]) == (
        ({"done": True}, 13) if end == "complete" else (None, None)
    )
    if error is None:
        assert found["error"] is None
    else:
        assert error.items() <= found["error"].items()


# -- Idempotency


async def test_the_same_key_and_body_start_one_run(api: Api) -> None:
    body = {"script": SCRIPT, "input": {"a": 1, "b": [1.0]}}
    first = await post(api, body, **{"Idempotency-Key": "k 1"})
    again = await post(
        api, {"wait": "1ms", "input": {"b": [1], "a": 1}, "script": SCRIPT}, **{"Idempotency-Key": "k 1"}
    )
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers


async def test_the_same_key_for_another_body_is_a_conflict(api: Api) -> None:
    await post(api, {"script": SCRIPT}, **{"Idempotency-Key": "k"})
    other = await post(api, {"script": SCRIPT, "input": 1}, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


async def test_a_key_belongs_to_its_namespace(api: Api) -> None:
    body = {"script": SCRIPT}
    first = await post(api, body, **{"Idempotency-Key": "k"})
    elsewhere = await api.call(
        "POST", "/v1/runs?namespace=other", json=body, headers={"Idempotency-Key": "k"}
    )
    assert elsewhere.status_code == 201
    assert elsewhere.json()["id"] != first.json()["id"]


async def test_concurrent_starts_with_one_key(api: Api) -> None:
    answers = await asyncio.gather(
        *(post(api, {"script": SCRIPT}, **{"Idempotency-Key": "k"}) for _ in range(12))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 11 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len((await api.call("GET", "/v1/runs?namespace=acme")).json()["data"]) == 1


async def test_refusals_use_up_no_key(api: Api) -> None:
    refused = await post(api, {"script": "const x = 1"}, **{"Idempotency-Key": "k"})
    assert refused.status_code == 422
    assert (await post(api, {"script": SCRIPT}, **{"Idempotency-Key": "k"})).status_code == 201


async def test_a_failed_run_is_answered_and_never_started_again(api: Api) -> None:
    first = await post(api, {"script": SCRIPT}, **{"Idempotency-Key": "k"})
    puppet = await api.puppet(first.json()["id"])
    await puppet.fail(ScriptError("Error", "no"))
    again = await post(api, {"script": SCRIPT}, **{"Idempotency-Key": "k"})
    assert again.status_code == 200
    assert (again.json()["id"], again.json()["status"]) == (first.json()["id"], "failed")


# -- Scripts


async def test_a_script_is_known_by_its_digest_afterwards(api: Api) -> None:
    first = await api.start()
    asked = api.desk.asked
    second = await api.start(script=first["script"])
    assert second["script"] == first["script"]
    assert api.desk.asked == asked
    elsewhere = await api.call("POST", "/v1/runs?namespace=other", json={"script": first["script"]})
    assert elsewhere.status_code == 404  # scripts belong to a namespace


# -- Waiting


async def test_waiting_ends_when_the_run_does(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    waiting = asyncio.create_task(get(api, run["id"], query="&wait=60s"))
    await puppet.complete(42)
    found = (await asyncio.wait_for(waiting, 10)).json()
    assert (found["status"], found["output"]) == ("completed", 42)


async def test_waiting_elapses_without_error(api: Api) -> None:
    answer = await post(api, {"script": SCRIPT, "wait": "20ms"})
    assert (answer.status_code, answer.json()["status"]) == (201, "active")


async def test_waiting_until_blocked(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    waiting = asyncio.create_task(get(api, run["id"], query="&wait=30s&until=blocked"))
    await puppet.wait_for_signal("go")
    found = (await asyncio.wait_for(waiting, 10)).json()
    assert [waiting["kind"] for waiting in found["waiting_for"]] == ["signal"]
    await puppet.sleep(3_600_000)
    found = (await asyncio.wait_for(get(api, run["id"], query="&wait=30s&until=blocked"), 10)).json()
    assert found["waiting_count"] == 2
    await puppet.call_tool("echo", {})
    elapsed = (await get(api, run["id"], query="&wait=20ms&until=blocked")).json()
    assert elapsed["waiting_count"] == 3


async def test_parked_requests_are_answered_when_the_server_leaves(api: Api) -> None:
    run = await api.start()
    waiting = asyncio.create_task(get(api, run["id"], query="&wait=60s"))
    claim = asyncio.create_task(api.call("POST", "/v1/tasks/claim", json={"max": 1, "wait": "60s"}))
    api.stop.set()
    answers = await asyncio.wait_for(asyncio.gather(waiting, claim), 10)
    assert [answer.status_code for answer in answers] == [200, 200]


# -- Lists


async def test_lists_are_pages_newest_first(api: Api) -> None:
    ids = [(await api.start())["id"] for _ in range(5)]
    seen: list[str] = []
    query = ""
    while True:
        page = (await api.call("GET", f"/v1/runs?namespace=acme&limit=2{query}")).json()
        seen += [run["id"] for run in page["data"]]
        if page["next"] is None:
            break
        if len(seen) == 2:
            await api.start()  # a page is stable under inserts
        query = f"&after={page['next']}"
    assert seen == ids[::-1]


async def test_filters_are_combined(api: Api) -> None:
    await api.toolset("support", "echo")
    one = await api.start(labels={"team": "ops", "tier": "1"}, toolset="support")
    two = await api.start(labels={"team": "ops"}, script=SCRIPT + " // two")
    puppet = await api.puppet(two["id"])
    await puppet.complete(1)

    async def ids(query: str) -> list[str]:
        answer = await api.call("GET", f"/v1/runs?namespace=acme{query}")
        assert answer.status_code == 200, answer.text
        return [run["id"] for run in answer.json()["data"]]

    assert await ids("&label.team=ops") == [two["id"], one["id"]]
    assert await ids("&label.team=ops&label.tier=1") == [one["id"]]
    assert await ids("&label.team=dev") == []
    assert await ids("&status=completed") == [two["id"]]
    assert await ids("&status=active&label.team=ops") == [one["id"]]
    assert await ids("&status=completed&status=active") == await ids("")
    assert await ids("&status=completed&status=failed") == [two["id"]]
    assert (await api.call("GET", "/v1/runs?namespace=acme&status=completed&status=done")).status_code == 400
    assert await ids(f"&script={two['script']}") == [two["id"]]
    assert await ids("&toolset=support") == [one["id"]]
    assert await ids(f"&toolset={one['toolset']}") == [one["id"]]
    assert await ids(f"&toolset=support@sha256:{'0' * 64}") == []
    assert await ids("&workflow=onboard") == []
    assert await ids(f"&parent={one['id']}") == []
    assert await ids("&from=2000-01-01T00:00:00Z&to=2001-01-01T00:00:00%2B01:00") == []
    assert await ids("&from=2000-01-01T00:00:00Z") == [two["id"], one["id"]]


# -- Journal and output


async def test_the_journal_comes_in_pages(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    for _ in range(4):
        await puppet.call_tool("echo", {"text": 'quote " and ☃'})
    whole = (await get(api, run["id"], "/journal")).json()
    assert [entry["seq"] for entry in whole["data"]] == [0, 1, 2, 3, 4]
    assert whole["next"] is None
    first = (await get(api, run["id"], "/journal", "&limit=2")).json()
    assert (len(first["data"]), first["next"]) == (2, 1)
    rest = (await get(api, run["id"], "/journal", f"&after={first['next']}")).json()
    assert first["data"] + rest["data"] == whole["data"]
    assert (await get(api, run["id"], "/journal", "&after=4")).json() == {"data": [], "next": None}
    assert whole["data"][1]["args"]["value"] == {"text": 'quote " and ☃'}


async def test_a_long_journal_is_streamed_in_order(api: Api) -> None:
    run = await api.start()
    for number in range(250):
        answer = await api.call(
            "POST", f"/v1/runs/{run['id']}/signals?namespace=acme", json={"name": "s", "payload": number}
        )
        assert answer.status_code == 202
    page = (await get(api, run["id"], "/journal", "&limit=240")).json()
    assert [entry["seq"] for entry in page["data"]] == list(range(240))
    assert page["next"] == 239


async def test_output_is_read_in_pieces(api: Api) -> None:
    run = await api.start()
    assert (await get(api, run["id"], "/output")).json()["code"] == "run_active"
    puppet = await api.puppet(run["id"])
    output = {"text": "añ☃𝄞" * 20}
    await puppet.complete(output)
    text = ""
    offset = 0
    while offset is not None:
        piece = (await get(api, run["id"], "/output", f"&offset={offset}&limit=7")).json()
        assert piece["bytes"] == len(piece["text"].encode()) <= 7
        assert piece["offset"] == offset
        text += piece["text"]
        offset = piece["next"]
    assert orjson.loads(text) == output
    tiny = (await get(api, run["id"], "/output", "&offset=12&limit=1")).json()
    assert len(tiny["text"]) == 1  # a character is never cut, however small the limit
    assert (await get(api, run["id"], "/output", "&offset=100000")).status_code == 400


async def test_a_big_output_is_shown_by_its_head(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    text = orjson.dumps({"big": "☃" * 100_000})
    namespace = (await api.call("GET", "/v1/namespaces/acme")).json()["id"]
    from sandbox.journal.canonical import value_of_text
    from sandbox.journal.entries import CompleteRun

    value = value_of_text(text)
    await api.services.runs.values.store(namespace, text)
    await puppet.append(CompleteRun(value))
    found = (await get(api, run["id"])).json()
    assert found["output"] is None and found["output_truncated"]
    assert found["output_bytes"] == len(text)
    assert text.decode().startswith(found["output_preview"]) and found["output_preview"]
    piece = (await get(api, run["id"], "/output")).json()
    assert 262_140 < piece["bytes"] <= 262_144
    rest = (await get(api, run["id"], "/output", f"&offset={piece['next']}")).json()
    assert (piece["text"] + rest["text"]).encode() == text
    assert rest["next"] is None


async def test_a_big_input_is_kept(api: Api) -> None:
    given = {"big": "x" * 100_000}
    run = await api.start(input=given)
    assert run["input"] == given
    entry = (await get(api, run["id"], "/journal")).json()["data"][0]
    assert set(entry["input"]) == {"bytes", "sha256"}


# -- Cancelling


async def test_cancelling_twice_changes_nothing(api: Api) -> None:
    run = await api.start()
    for _ in range(2):
        answer = await api.call("POST", f"/v1/runs/{run['id']}/cancel?namespace=acme")
        assert (answer.status_code, answer.json()["cancelling"]) == (202, True)
    entries = (await get(api, run["id"], "/journal")).json()["data"]
    assert [entry["type"] for entry in entries] == ["run_started", "cancel_requested"]


async def test_an_ended_run_cannot_be_cancelled(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    await puppet.complete(None)
    answer = await api.call("POST", f"/v1/runs/{run['id']}/cancel?namespace=acme", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "run_ended")
    assert "completed" in answer.json()["detail"]


async def test_a_token_expires_by_the_databases_clock(own_api: Api, clock: Clock) -> None:
    secret = await own_api.token("acme", ttl="1h")
    assert (await own_api.call("GET", "/v1/me", secret=secret)).status_code == 200
    own_api.services.authenticator.forget()
    clock.advance(3_600_001)
    answer = await own_api.call("GET", "/v1/me", secret=secret)
    assert (answer.status_code, "expired" in answer.json()["detail"]) == (401, True)
