"""What a script does otherwise than a journal has it, in words: for `runs fork`, `replay` and `verify`."""

import json
from collections.abc import Mapping
from typing import Any

from rewind._style import Style, clip, counted
from rewind.journal_text import compact, took_text

VALUE_CHARS_MAX = 60
_TIMERS = {"timeout": "setTimeout", "interval": "setInterval"}
_NAMES = {
    "fail_run": "a failure",
    "complete_run": "the end of main",
    "cancel_run": "a cancellation",
    "schedule_tool_call": "a call",
    "start_timer": "a timer",
    "signal_awaited": "a wait for a signal",
    "log": "a log",
}


def fork_lines(plan: Mapping[str, Any], style: Style) -> list[str]:
    """What a fork reuses, and where it goes its own way."""
    reused = ", ".join(counted(count, kind.removesuffix("s")) for kind, count in plan["reused"].items())
    lines = [f"reuses {reused}"]
    if plan["dropped"]:
        lines.append(f"  not reused: {len(plan['dropped'])} later signals and firings")
    parted = plan["diverged_at"]
    if parted is not None:
        where = "" if parted["line"] is None else f" at line {parted['line']}"
        lines.append(f"  goes its own way{where}: {style.plain(step_text(parted['actual']))}")
        lines.append(f"  entry {parted['seq']} of the parent: {style.plain(step_text(parted['expected']))}")
    return lines


def step_text(step: Mapping[str, Any]) -> str:
    """A command as a report of a fork has it: `calls refund {"order":"A-1"}`."""
    match step.get("type"):
        case "schedule_tool_call":
            return f"calls {step['tool']} {_value(step.get('args'))}"
        case "start_timer" if step.get("why") == "sleep":
            return f"sleeps {took_text(step['delay'])}"
        case "start_timer":
            return f"{_TIMERS.get(step['why'], step['why'].replace('_', ' '))} of {took_text(step['delay'])}"
        case "signal_awaited":
            return f"waits for signal {compact(step['name'])}"
        case "fail_run":
            return f"fails: {step['name']}: {clip(str(step['message']), VALUE_CHARS_MAX)}"
        case "complete_run":
            return "main returns"
        case "cancel_requested" | "cancel_run":
            reason = step.get("reason")
            return f"is cancelled ({reason})" if reason else "is cancelled"
        case _:
            return _value(step)


def divergence_text(found: Mapping[str, Any]) -> str:
    """Where a replay parted from the journal, and in what."""
    seq, now, was = found["seq"], found.get("line"), found.get("recorded_line")
    where = "after the last entry" if seq is None else f"at entry {seq} ({found['type']})"
    places = [f"line {now}"] if now is not None else []
    if was is not None and was != now:
        places.append(f"recorded at line {was}")
    lines = f" ({', '.join(places)})" if places else ""
    if found["field"] == "type":
        return f"diverged {where}: there was {_kind(found['expected'])}, now there is {_kind(found['actual'])}{lines}"
    expected, actual = json.dumps(found["expected"]), json.dumps(found["actual"])
    return f"diverged {where}: {found['field']} was {expected}, is now {actual}{lines}"


def _kind(found: Any) -> str:
    """A type of entry, or the facts of one, as a thing."""
    type_ = found.get("type") if isinstance(found, Mapping) else found
    return "nothing more" if type_ is None else _NAMES.get(type_, f"a {type_}")


def _value(value: Any) -> str:
    return clip(compact(value), VALUE_CHARS_MAX)
