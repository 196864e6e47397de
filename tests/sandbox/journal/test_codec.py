"""What is written is read back, and the wire form says the same as the stored one."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.journal import entries as e
from sandbox.journal.canonical import canonical_text, parse_json, value_of
from sandbox.journal.codec import (
    TYPE_NAMES,
    TYPE_OF,
    decode_body,
    encode_body,
    entry_from_row,
    value_in,
    wire_json,
)
from sandbox.journal.entries import EntryType
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import Seq, TimeMs
from tests.fixtures.entries import ALL_CLASSES, bodies, call, callsites, failure, result, run_started, timer

# SPEC §3, the table of entries: fields in wire names, `?` where a field may be absent.
DOCUMENTED = {
    "run_started": "input script toolset seed epoch deadline labels limits started_by parent? forked_at? origin?",
    "schedule_tool_call": "call tool args policy idempotency_key?",
    "tool_call_cancelled": "call",
    "approval_decided": "call decision by actor reason",
    "tool_call_completed": "call result? error? attempts begun_at? reused?",
    "start_timer": "timer delay fire_at why",
    "timer_fired": "timer reused?",
    "timer_cleared": "timer",
    "signal_awaited": "wait name timer? from?",
    "signal_wait_cleared": "wait",
    "signal_received": "name payload id by actor reused?",
    "log": "level values truncated?",
    "cancel_requested": "reason by detail? limit? allowed? used? cause?",
    "complete_run": "output",
    "fail_run": "error",
    "cancel_run": "reason",
    "run_aborted": "limit allowed used",
}


def test_union_is_the_documented_table() -> None:
    assert {TYPE_NAMES[TYPE_OF[cls]] for cls in ALL_CLASSES} == set(DOCUMENTED)
    assert set(TYPE_NAMES.values()) == set(DOCUMENTED)
    assert len(set(EntryType)) == len(ALL_CLASSES)
    commands = {TYPE_OF[cls] for cls in ALL_CLASSES if cls in e.Command.__args__}
    assert commands == e.COMMAND_TYPES
    assert e.DELIVERED_TYPES.isdisjoint(e.COMMAND_TYPES)
    assert set(EntryType) - e.COMMAND_TYPES - e.DELIVERED_TYPES == {
        EntryType.APPROVAL_DECIDED,
        EntryType.RUN_ABORTED,
    }


@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_round_trip(cls: type[Any], data: st.DataObject) -> None:
    body = data.draw(bodies(cls))
    type_ = TYPE_OF[cls]
    callsite = data.draw(callsites) if type_ in e.COMMAND_TYPES else None
    fire_at = body.fire_at if isinstance(body, e.StartTimer) else None
    stored = encode_body(body, callsite)
    assert stored == canonical_text(parse_json(stored, depth_max=250), depth_max=250)
    assert decode_body(type_, stored, fire_at) == (body, callsite)

    cause = Seq(3) if type_ in e.COMMAND_TYPES else None
    wire = json.loads(wire_json(Seq(7), type_, TimeMs(9), cause=cause, fire_at=fire_at, body=stored))
    assert wire == {
        "seq": 7,
        "type": TYPE_NAMES[type_],
        "time": 9,
        **({"cause": 3} if cause is not None else {}),
        **({"fire_at": fire_at} if fire_at is not None else {}),
        **json.loads(stored),
    }
    documented = DOCUMENTED[TYPE_NAMES[type_]].split()
    fields = set(wire) - {"seq", "type", "time", "callsite"} - ({"cause"} if cause is not None else set())
    assert fields <= {name.removesuffix("?") for name in documented}
    assert fields >= {name for name in documented if not name.endswith("?")}
    entry = entry_from_row(Seq(7), type_, TimeMs(9), cause=cause, fire_at=fire_at, body=stored)
    assert entry == e.Entry(Seq(7), TimeMs(9), body, cause, callsite)


def test_bodies_as_the_contract_spells_them() -> None:
    policy = '"policy":{"approval":null,"idempotent":true,"retry":null,"timeout_ms":null}'
    args = '"args":{"bytes":7,"sha256":"015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862","value":{"a":1}}'
    stored = encode_body(call(1, "g.t", {"a": 1.0}, idempotent=True), e.Callsite(line=12, column=5))
    assert stored.decode() == f'{{{args},"call":1,"callsite":{{"column":5,"line":12}},{policy},"tool":"g.t"}}'
    assert encode_body(timer(2, 1e21)) == b'{"delay":1e+21,"timer":2,"why":"sleep"}'
    assert (
        encode_body(e.SignalAwaited(1, "go", from_="harness")) == b'{"from":"harness","name":"go","wait":1}'
    )
    assert encode_body(e.CancelRequested("limit", None, None, "cpu", 5000, 5001, Seq(4))) == (
        b'{"allowed":5000,"by":null,"cause":4,"limit":"cpu","reason":"limit","used":5001}'
    )
    assert encode_body(e.FailRun(e.ScriptError("E", "m"))) == (
        b'{"error":{"column":null,"frame":null,"line":null,"message":"m","name":"E","stack":null}}'
    )


def test_large_and_redacted_values_are_not_inline() -> None:
    large = value_of("x" * 70_000)
    stored = encode_body(e.CompleteRun(large))
    assert json.loads(stored)["output"] == {"bytes": 70_002, "sha256": large.sha256}
    assert value_in(stored) == large
    redacted = e.Value(large.sha256, 5, None, redacted=True)
    assert value_in(encode_body(e.CompleteRun(redacted))) == redacted
    assert value_in(encode_body(result(1, {"output": {"bytes": 1}}))) == value_of({"output": {"bytes": 1}})
    assert value_in(encode_body(failure(1))) is None


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        (EntryType.TIMER_FIRED, b"{}"),
        (EntryType.TIMER_FIRED, b"{"),
        (EntryType.TIMER_FIRED, b"[]"),
        (EntryType.LOG, b'{"callsite":3,"level":"log","values":[]}'),
        (EntryType.COMPLETE_RUN, encode_body(e.CompleteRun(value_of("abc")))[:-3]),
        (EntryType.RUN_STARTED, encode_body(run_started()).replace(b'"seed"', b'"sede"')),
    ],
)
def test_bytes_that_no_build_wrote_are_impossible(type_: EntryType, body: bytes) -> None:
    with pytest.raises(ImpossibleEntry):
        decode_body(type_, body)
