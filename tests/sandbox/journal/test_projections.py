"""The Run object and its parts."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.journal import entries as e
from sandbox.journal.canonical import canonical_text, value_of
from sandbox.journal.ids import Digest, Epoch, NamespaceId, RunId, Seq, TimeMs
from sandbox.journal.projections import (
    OUTPUT_MAX_BYTES,
    PREVIEW_BYTES,
    iso_time,
    preview,
    run_view,
    waiting_for,
)
from sandbox.store.interface import PendingKind, PendingRow, RunRecord, RunStatus
from tests.fixtures.entries import SCRIPT

# API.md §2, the Run object.
FIELDS = [
    "id",
    "namespace",
    "status",
    "cancelling",
    "waiting_for",
    "waiting_count",
    "input",
    "output",
    "output_bytes",
    "output_truncated",
    "output_preview",
    "error",
    "reason",
    "progress",
    "labels",
    "script",
    "workflow",
    "toolset",
    "parent",
    "forks",
    "children",
    "epoch",
    "warnings",
    "created_by",
    "started_at",
    "ended_at",
    "deadline",
    "usage",
]

RECORD = RunRecord(
    namespace=NamespaceId("n"),
    namespace_name="user-1",
    run=RunId("r"),
    status=RunStatus.ACTIVE,
    cancelling=False,
    epoch=Epoch(1),
    next_seq=Seq(7),
    delivered=Seq(3),
    last_event=Seq(3),
    cpu_us=12_345,
    activations=3,
    script=SCRIPT,
    toolset="gh",
    toolset_digest=Digest("sha256:" + "ab" * 32),
    workflow=None,
    labels={"team": "a"},
    created_by=("key", "k1"),
    parent=None,
    started_at=TimeMs(1_700_000_000_123),
    ended_at=None,
    end_seq=None,
    deadline=TimeMs(1_702_592_000_123),
    calls=2,
    progress=b'{"done":1}',
    pending=(),
    pending_count=0,
)
ENDED = replace(RECORD, status=RunStatus.COMPLETED, ended_at=TimeMs(1_700_000_001_000), end_seq=Seq(6))


def row(kind: PendingKind, n: int, **changes: Any) -> PendingRow:
    fields: dict[str, Any] = {
        "seq": Seq(n),
        "since": TimeMs(0),
        "line": 12,
        "name": None,
        "due": None,
        "gated": False,
        "deferred": False,
        "attempt": 0,
    }
    return PendingRow(kind=kind, n=n, **(fields | changes))


def test_an_active_run() -> None:
    view = run_view(RECORD, input_text=b'{"repo":"a/b"}')
    assert list(view) == FIELDS
    assert view == {
        **dict.fromkeys(["output", "output_bytes", "output_preview", "error", "reason", "workflow", "parent", "ended_at"]),
        "id": "r", "namespace": "user-1", "status": "active", "cancelling": False,
        "waiting_for": [], "waiting_count": 0, "input": {"repo": "a/b"}, "output_truncated": False,
        "progress": {"done": 1}, "labels": {"team": "a"}, "script": SCRIPT,
        "toolset": "gh@sha256:" + "ab" * 32, "forks": [], "children": [], "epoch": 1, "warnings": [],
        "created_by": {"kind": "key", "id": "k1"}, "started_at": "2023-11-14T22:13:20.123Z",
        "deadline": "2023-12-14T22:13:20.123Z",
        "usage": {"cpu_ms": 12, "calls": 2, "entries": 7, "activations": 3},
    }  # fmt: skip
    json.dumps(view)


def test_a_completed_run_and_its_output() -> None:
    view = run_view(ENDED, input_text=None, end=e.CompleteRun(value_of([1])))
    assert (view["status"], view["output"], view["output_bytes"], view["output_truncated"]) == (
        "completed",
        [1],
        3,
        False,
    )
    assert view["ended_at"] == "2023-11-14T22:13:21.000Z"


@pytest.mark.parametrize(("size", "whole"), [(OUTPUT_MAX_BYTES, True), (OUTPUT_MAX_BYTES + 1, False)])
def test_an_output_beyond_the_limit_is_cut_to_a_preview(size: int, *, whole: bool) -> None:
    text = canonical_text("x" * (size - 2))
    assert len(text) == size
    view = run_view(ENDED, input_text=None, end=e.CompleteRun(value_of("x" * (size - 2))), output_text=text)
    assert (view["output"] is not None, view["output_truncated"], view["output_bytes"]) == (
        whole,
        not whole,
        size,
    )
    assert view["output_preview"] == (None if whole else text[:PREVIEW_BYTES].decode())


def test_an_output_that_was_redacted_is_absent() -> None:
    redacted = e.Value(value_of(1).sha256, 1, None, redacted=True)
    view = run_view(ENDED, input_text=None, end=e.CompleteRun(redacted))
    assert (view["output"], view["output_bytes"], view["output_truncated"]) == (None, 1, False)


def test_a_preview_ends_at_a_character() -> None:
    assert preview("aé😀".encode(), 4) == "aé"


def test_the_errors_of_runs() -> None:
    failed = e.FailRun(e.ScriptError("TypeError", "no", None, 3, 4, "frame", "stack"))
    view = run_view(replace(ENDED, status=RunStatus.FAILED), input_text=None, end=failed)
    assert view["error"] == {
        "name": "TypeError", "message": "no", "line": 3, "column": 4, "frame": "frame", "stack": "stack",
    }  # fmt: skip
    coded = e.FailRun(e.ScriptError("ToolError", "no", "timeout", cause={"name": "E"}))
    error = run_view(ENDED, input_text=None, end=coded)["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["cause"], error["line"]) == ("timeout", {"name": "E"}, None)
    aborted = run_view(ENDED, input_text=None, end=e.RunAborted("cpu", 5000, 5001))["error"]
    assert isinstance(aborted, dict)
    assert (aborted["name"], aborted["limit"], aborted["allowed"], aborted["used"]) == (
        "LimitError",
        "cpu",
        5000,
        5001,
    )
    cancelled = run_view(replace(ENDED, status=RunStatus.CANCELLED), input_text=None, end=e.CancelRun("user"))
    assert (cancelled["reason"], cancelled["error"]) == ("user", None)


def test_what_a_run_waits_for() -> None:
    pending = [
        row(PendingKind.CALL, 1, name="gh.list", deferred=True),
        row(PendingKind.CALL, 2, name="gh.close", gated=True),
        row(PendingKind.CALL, 3, name="workflows.onboard"),
        row(PendingKind.TIMER, 4, due=TimeMs(60_000)),
        row(PendingKind.WAIT, 5, name="go"),
        row(PendingKind.DEADLINE, 6, due=TimeMs(1)),
    ]
    since = {"since": "1970-01-01T00:00:00.000Z", "line": 12}
    assert waiting_for(pending) == [
        {"kind": "tool_call", "call": 1, "tool": "gh.list", **since, "deferred": True},
        {"kind": "approval", "call": 2, "tool": "gh.close", **since},
        {"kind": "child_run", "call": 3, "tool": "workflows.onboard", **since},
        {"kind": "timer", **since, "until": "1970-01-01T00:01:00.000Z"},
        {"kind": "signal", "name": "go", **since},
    ]


def test_a_signal_with_a_timeout_is_one_thing() -> None:
    timeout = row(PendingKind.TIMER, 1, seq=Seq(8), name="signal_timeout", due=TimeMs(60_000))
    waits = [
        timeout,
        row(PendingKind.WAIT, 1, seq=Seq(9), name="go"),
        row(PendingKind.WAIT, 2, seq=Seq(12), name="no"),
    ]
    shown = waiting_for(waits)
    assert [item["kind"] for item in shown] == ["signal", "signal"]
    assert [item.get("until") for item in shown] == ["1970-01-01T00:01:00.000Z", None]
    assert [item["kind"] for item in waiting_for([timeout])] == ["timer"]


@given(st.datetimes(datetime(1600, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001
def test_iso_time_agrees_with_the_standard_library(moment: datetime) -> None:
    aware = moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000)
    ms = round((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    assert iso_time(TimeMs(ms)) == aware.isoformat(timespec="milliseconds").replace("+00:00", "Z")
