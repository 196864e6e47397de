"""Tests of scripts in virtual time: what answers calls, in which order, and what becomes of what nothing answers."""

import time
from typing import Any

import pytest

from sandbox.activation import virtual
from tests.sandbox.activation.conftest import Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")
START = 1_767_225_600_000
ECHO = """import { g } from "rewind:tools";
export default async function main(input) { return await g.echo(input); }"""


async def test_ten_days_take_milliseconds(stage: Stage) -> None:
    source = """import { sleep, waitForSignal } from "rewind";
export default async function main() {
  const before = Date.now();
  for (let day = 0; day < 10; day++) await sleep("1d");
  const said = await waitForSignal("go", { timeout: "3d" });
  return { days: (Date.now() - before) / 86_400_000, said };
}"""
    await stage.tried(source)
    began = time.process_time()
    report = await stage.tried(source)
    assert time.process_time() - began < 1
    assert (report["status"], report["output"]) == ("completed", {"days": 13, "said": None})
    fired = [entry["time"] for entry in report["journal"] if entry["type"] == "timer_fired"]
    assert fired == [START + day * 86_400_000 for day in (*range(1, 11), 13)]
    assert (await stage.replayed(source, report["journal"]))["matches"] is True


async def test_rows_answer_once_in_order_mocks_before_the_cassette(stage: Stage) -> None:
    source = """import { g } from "rewind:tools";
export default async function main() {
  const seen = [];
  for (const n of [1, 1, 1, 2, 2, 1]) seen.push(await g.echo({ n }).catch((e) => e.code));
  return seen;
}"""
    mocks = {
        "g.echo": [
            {"args": {"n": 1}, "result": "first"},
            {"args": {"n": 2}, "result": "two", "repeat": True},
            {"args": "*", "error": {"message": "down", "code": "sorry"}},
            {"args": {"n": 9}, "result": "never"},
        ]
    }
    call = {"call": 1, "tool": "g.echo", "args": {"n": 1}, "result": "recorded", "after": 5}
    unused = {"call": 2, "tool": "g.other", "args": {}, "result": 0, "after": 0}
    report = await stage.tried(
        source, "g.echo", mocks=mocks, cassette={"cassette": 1, "calls": [call, unused]}
    )
    assert report["output"] == ["first", "sorry", "recorded", "two", "two", "no_answer"]
    assert report["missing"] == [{"tool": "g.echo", "args": {"n": 1}, "line": 4}]
    assert report["unused"] == [
        {"tool": "g.echo", "args": {"n": 9}, "from": "mocks"},
        {"tool": "g.other", "args": {}, "from": "cassette"},
    ]
    assert [call["after"] for call in report["calls"]] == [0, 0, 5, 0, 0, 0]
    assert report["calls"][1]["error"] == {
        "name": "ToolError",
        "code": "sorry",
        "message": "down",
        "data": None,
        "retryable": False,
    }


async def test_completions_come_by_time_then_as_scheduled_or_recorded(stage: Stage) -> None:
    source = """import { g } from "rewind:tools";
export default async function main() {
  const seen = [];
  await Promise.all(["a", "b", "c", "d"].map((x) => g.echo(x).then(() => seen.push(x))));
  return seen;
}"""
    mocks = {
        "g.echo": [
            {"args": x, "result": x, "after": a} for x, a in zip("abcd", ["2s", 1, 1, "1s"], strict=True)
        ]
    }
    assert (await stage.tried(source, "g.echo", mocks=mocks))["output"] == ["b", "c", "d", "a"]

    calls = [
        {"call": n, "tool": "g.echo", "args": x, "result": x, "after": 7, "order": order}
        for n, (x, order) in enumerate(zip("abcd", [8, 6, 7, 5], strict=True), 1)
    ]
    report = await stage.tried(source, "g.echo", cassette={"cassette": 1, "calls": calls})
    assert report["output"] == ["d", "b", "c", "a"]


async def test_a_cassette_says_when_time_begins_and_what_is_random(stage: Stage) -> None:
    source = "export default async function main() { return [Date.now(), Math.random()]; }"
    cassette = {
        "cassette": 1,
        "seed": "00112233445566778899aabbccddeeff",
        "started_at": "2026-03-01T12:00:00.250Z",
    }
    recorded = await stage.tried(source, cassette=cassette)
    assert recorded["output"][0] == 1_772_366_400_250
    assert (await stage.tried(source))["output"][0] == START
    assert recorded["output"][1] != (await stage.tried(source))["output"][1]
    assert recorded["output"] == (await stage.tried(source, cassette=cassette))["output"]


GATED = """import { pay } from "rewind:tools";
import { waitForSignal } from "rewind";
export default async function main() {
  try { return await pay({ amount: 5 }); } catch (e) { return { name: e.name, tool: e.tool, expired: e.expired }; }
}"""


async def test_an_undecided_call_waits(stage: Stage) -> None:
    report = await stage.tried(GATED, gated=("pay",), mocks={"pay": [{"result": "paid"}]})
    assert (report["status"], report["output"], report["error"]) == ("active", None, None)
    assert report["waiting_for"] == [
        {"kind": "approval", "call": 1, "tool": "pay", "since": "2026-01-01T00:00:00.000Z", "line": 4}
    ]
    assert report["unused"] == [{"tool": "pay", "args": "*", "from": "mocks"}]
    assert report["calls"] == [{"call": 1, "tool": "pay", "args": {"amount": 5}}]


async def test_decisions_are_given_by_tool(stage: Stage) -> None:
    mocks = {"pay": [{"result": "paid", "after": "1h"}]}
    approved = await stage.tried(GATED, gated=("pay",), mocks=mocks, approvals={"pay": "approved"})
    assert approved["output"] == "paid"
    types = [entry["type"] for entry in approved["journal"]]
    assert types == [
        "run_started",
        "schedule_tool_call",
        "approval_decided",
        "tool_call_completed",
        "complete_run",
    ]
    denied = await stage.tried(GATED, gated=("pay",), mocks=mocks, approvals={"pay": "denied"})
    assert denied["output"] == {"name": "ApprovalDeniedError", "tool": "pay", "expired": False}
    for report in (approved, denied):
        assert (await stage.replayed(GATED, report["journal"], gated=("pay",)))["matches"] is True


async def test_a_what_if_stops_at_a_gated_call_that_nothing_answers(stage: Stage) -> None:
    source = """import { pay, price } from "rewind:tools";
export default async function main() { return await pay({ cents: await price({}) }); }"""
    mocks = {"price": [{"result": 5}], "pay": [{"result": "paid"}]}
    report = await stage.tried(source, "price", gated=("pay",), mocks=mocks, approvals={"pay": "approved"})
    journal, told = report["journal"], {"1": {"result": 7}}
    played = await stage.replayed(source, journal, "price", gated=("pay",), overrides=told)
    assert played["stopped_at"] == {"call": 2, "tool": "pay", "args": {"cents": 7}, "line": 2}
    assert (played["matches"], played["output"]) == (False, None)


async def test_what_can_go_on_no_further_says_what_it_waits_for(stage: Stage) -> None:
    source = """import { waitForSignal } from "rewind";
export default async function main() { return await waitForSignal("approval"); }"""
    report = await stage.tried(source)
    assert report["status"] == "active"
    assert report["waiting_for"] == [
        {"kind": "signal", "name": "approval", "since": "2026-01-01T00:00:00.000Z", "line": 2}
    ]
    sent = await stage.tried(source, signals=[{"name": "approval", "payload": {"yes": True}, "at": "2d"}])
    assert sent["output"] == {"yes": True}
    assert sent["journal"][-2]["time"] == START + 2 * 86_400_000


async def test_a_run_beyond_its_ttl_is_cancelled(stage: Stage) -> None:
    source = """import { sleep } from "rewind";
export default async function main() { try { await sleep("40d"); } finally { console.log("bye"); } }"""
    report = await stage.tried(source)
    assert (report["status"], [log["values"] for log in report["logs"]]) == ("cancelled", [["bye"]])
    assert report["journal"][-1]["type"] == "cancel_run"
    assert (await stage.replayed(source, report["journal"]))["matches"] is True


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ("export default async function main() { console.log(1); while (true) {} }", "cpu"),
        (
            "export default async function main() { for (let i = 0; i < 51_000; i++) setTimeout(() => {}, 1e9); }",
            "history",
        ),
    ],
    ids=["cpu", "history"],
)
async def test_endless_scripts_are_aborted(stage: Stage, source: str, limit: str) -> None:
    report = await stage.tried(source)
    assert (report["status"], report["error"]["limit"]) == ("aborted", limit)
    assert report["journal"][-1]["type"] == "run_aborted"


async def test_real_time_is_limited(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "REAL_TIME_S", 0.2)
    source = """import { sleep } from "rewind";
export default async function main() { for (;;) await sleep(1); }"""
    report = await stage.tried(source)
    assert (report["status"], report["error"]["name"]) == ("active", "TimeoutError")
    assert len(report["journal"]) > 1


async def test_an_aborted_call_has_an_outcome_within_30_seconds(stage: Stage) -> None:
    source = """import { g } from "rewind:tools";
export default async function main() {
  const stop = new AbortController();
  const call = g.echo(1, { signal: stop.signal }).catch((e) => e.name);
  setTimeout(() => stop.abort(), 1000);
  return await call;
}"""
    report = await stage.tried(source, "g.echo", mocks={"g.echo": [{"result": 1, "after": "1h"}]})
    assert report["output"] == "CancelledError"
    assert report["calls"][0]["error"]["name"] == "OutcomeUnknownError"
    assert report["calls"][0]["after"] == 31_000


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ({"cassette": []}, "cassette"),
        ({"cassette": {"calls": []}}, "cassette"),
        ({"cassette": {"cassette": 1, "calls": {}}}, "cassette.calls"),
        ({"cassette": {"cassette": 1, "calls": [5]}}, "cassette.calls[0]"),
        ({"cassette": {"cassette": 1, "calls": [{"tool": 1, "result": 1}]}}, "cassette.calls[0].tool"),
        ({"cassette": {"cassette": 1, "seed": "xyz"}}, "cassette.seed"),
        ({"cassette": {"cassette": 1, "started_at": "noon"}}, "cassette.started_at"),
        ({"cassette": {"cassette": 1, "signals": [{}]}}, "cassette.signals[0]"),
        ({"mocks": []}, "mocks"),
        ({"mocks": {"g.echo": {}}}, "mocks['g.echo']"),
        ({"mocks": {"g.echo": [{}]}}, "mocks['g.echo'][0]"),
        ({"mocks": {"g.echo": [{"result": 1, "error": {"message": "x"}}]}}, "mocks['g.echo'][0]"),
        ({"mocks": {"g.echo": [{"result": 1, "aftr": 1}]}}, "mocks['g.echo'][0].aftr"),
        ({"mocks": {"g.echo": [{"result": 1, "after": "soon"}]}}, "mocks['g.echo'][0].after"),
        ({"mocks": {"g.echo": [{"error": "x"}]}}, "mocks['g.echo'][0].error"),
        ({"mocks": {"g.echo": [{"result": 1, "repeat": "yes"}]}}, "mocks['g.echo'][0].repeat"),
        ({"signals": [{"payload": 1}]}, "signals[0]"),
        ({"signals": [{"name": "go", "at": -1}]}, "signals[0].at"),
        ({"approvals": {"pay": "maybe"}}, "approvals['pay']"),
        ({"input": "x" * (16 * 1024 * 1024)}, "input"),
    ],
)
async def test_what_is_no_scenario_is_refused_with_its_place(
    stage: Stage, question: dict[str, Any], path: str
) -> None:
    report = await stage.tried(ECHO, "g.echo", **question)
    assert report["refused"]["path"] == path
    assert report["refused"]["message"]


async def test_big_values_go_through_whole(stage: Stage) -> None:
    big = "x" * 3_000_000
    report = await stage.tried(ECHO, "g.echo", input=big, mocks={"g.echo": [{"args": big, "result": big}]})
    assert (report["status"], report["output"], report["missing"]) == ("completed", big, [])
    assert report["calls"][0]["args"] == big
    assert "value" not in report["journal"][1]["args"]


async def test_a_script_that_cannot_be_run_has_diagnostics(stage: Stage) -> None:
    report = await stage.tried("enum A { B }\nexport default function main() {}")
    assert report["diagnostics"][0]["severity"] == "error"
