"""A journal as lines that a person reads: sequence, time since the start, line of the script, what happened."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from rewind._style import Style, clip, without_escapes

VALUE_CHARS_MIN = 24
PREFIX_WIDTH = 24
"""Columns before the text: sequence, time, line and the gaps between them."""
_TIMER_WORDS = {
    "sleep": "sleep",
    "timeout": "setTimeout",
    "interval": "setInterval",
    "signal_timeout": "signal timeout",
    "abort_timeout": "abort timeout",
}
_DECISIONS = {"approved": "✓ approved", "denied": "✗ denied", "expired": "✗ expired"}


@dataclass(slots=True)
class _Call:
    tool: str
    time: int
    line: int | None


class JournalText:
    """Renders entries one by one; remembers calls, timers and waits so that an outcome says whose it is."""

    @classmethod
    def of(cls, stream: TextIO) -> "JournalText":
        """For this stream: its width, and colour if it is a terminal."""
        return cls(Style.of(stream))

    def __init__(self, style: Style) -> None:
        self._style = style
        self._start: int | None = None
        self._calls: dict[int, _Call] = {}
        self._timers: dict[int, str] = {}
        self._waits: dict[int, str] = {}
        self._renderers: dict[str, Callable[[Mapping[str, Any]], str]] = {
            "run_started": self._run_started,
            "schedule_tool_call": self._schedule_tool_call,
            "tool_call_cancelled": self._tool_call_cancelled,
            "approval_decided": self._approval_decided,
            "tool_call_completed": self._tool_call_completed,
            "start_timer": self._start_timer,
            "timer_fired": self._timer_fired,
            "timer_cleared": self._timer_cleared,
            "signal_awaited": self._signal_awaited,
            "signal_wait_cleared": self._signal_wait_cleared,
            "signal_received": self._signal_received,
            "log": self._log,
            "cancel_requested": self._cancel_requested,
            "complete_run": self._complete_run,
            "fail_run": self._fail_run,
            "cancel_run": self._cancel_run,
            "run_aborted": self._run_aborted,
        }

    def header(self) -> str:
        return self._style.dim("  seq      time   line  what happened")

    def line(self, entry: Mapping[str, Any]) -> str:
        """One entry; further lines (a code frame) are indented below it. An unknown type shows its fields."""
        entry = without_escapes(entry)
        if self._start is None:
            self._start = entry["time"]
        render = self._renderers.get(entry["type"], self._unknown)
        place = entry.get("callsite")
        line = f"L{place['line']}" if place else ""
        time = relative_time(entry["time"] - self._start)
        prefix = f"{entry['seq']:5d} {time:>9}  {line:>5}  "
        first, *rest = render(entry).split("\n")
        lines = [self._style.dim(prefix) + self._style.plain(first)]
        lines.extend(" " * PREFIX_WIDTH + self._style.dim(self._style.plain(text)) for text in rest)
        return "\n".join(lines)

    # -- the parts of a line

    def _value(self, value: Any, used: int = 0) -> str:
        """A value object as JSON, cut to what is left of the line, with its size when something was cut."""
        if not isinstance(value, Mapping):
            return ""
        size = size_text(value.get("bytes", 0))
        if value.get("redacted"):
            return f"(redacted, {size})"
        if "value" not in value:
            return f"({size}, sha256 {str(value.get('sha256', ''))[:12]}…)"
        room = max(VALUE_CHARS_MIN, self._style.width - PREFIX_WIDTH - used - 1)
        return clip(compact(value["value"]), room, size)

    def _with_value(self, text: str, value: Any) -> str:
        shown = self._value(value, len(text) + 1)
        return f"{text} {shown}" if shown else text

    def _call_name(self, call: int) -> str:
        known = self._calls.get(call)
        return f"{known.tool if known else 'call'} #{call}"

    # -- events

    def _run_started(self, e: Mapping[str, Any]) -> str:
        parent = e.get("parent")
        how = ""
        if parent:
            how = f" as a {'fork' if parent.get('kind') == 'fork' else 'child'} of {parent.get('run')}"
        return self._with_value(self._style.bold(f"run started{how}") + "  input", e.get("input"))

    def _tool_call_completed(self, e: Mapping[str, Any]) -> str:
        known = self._calls.get(e["call"])
        name = self._call_name(e["call"])
        attempts = e.get("attempts", 1)
        notes = [f"{attempts} attempts"] if attempts > 1 else []
        if e.get("reused") is not None:
            notes.append(f"reused from entry {e['reused']} of the parent")
        note = f" ({', '.join(notes)})" if notes else ""
        took = f" in {took_text(e['time'] - known.time)}" if known else ""
        error = e.get("error")
        if error is None:
            return self._with_value(f"← {name} {self._style.green('ok')}{took}{note}", e.get("result"))
        if attempts == 0:
            return f"← {name} {self._style.yellow('withdrawn')}: {error.get('message', '')}{note}"
        code = f" {error['code']}" if error.get("code") else ""
        failed = self._style.red(f"{error.get('name', 'error')}{code}")
        return self._with_value(
            f"← {name} {failed}{took}: {error.get('message', '')}{note}", error.get("data")
        )

    def _approval_decided(self, e: Mapping[str, Any]) -> str:
        by = f" by {e['by']}" if e.get("by") else ""
        reason = f": {e['reason']}" if e.get("reason") else ""
        return f"{_DECISIONS.get(e['decision'], e['decision'])} {self._call_name(e['call'])}{by}{reason}"

    def _timer_fired(self, e: Mapping[str, Any]) -> str:
        reused = " (reused)" if e.get("reused") is not None else ""
        return f"{self._timers.get(e['timer'], 'timer')} #{e['timer']} is over{reused}"

    def _signal_received(self, e: Mapping[str, Any]) -> str:
        by = f" by {e['by']}" if e.get("by") else ""
        return self._with_value(f"← signal {compact(e['name'])}{by}", e.get("payload"))

    def _cancel_requested(self, e: Mapping[str, Any]) -> str:
        by = f" by {e['by']}" if e.get("by") else ""
        if e.get("reason") == "limit":
            return self._style.red(f"limit {e.get('limit')} exceeded: {limit_text(e)}")
        detail = f": {e['detail']}" if e.get("detail") else ""
        return self._style.yellow(f"cancel requested ({e.get('reason')}){by}{detail}")

    def _run_aborted(self, e: Mapping[str, Any]) -> str:
        return self._style.red(f"run aborted: {e.get('limit')}{limit_text(e, before=', ')}")

    # -- commands

    def _schedule_tool_call(self, e: Mapping[str, Any]) -> str:
        place = e.get("callsite")
        self._calls[e["call"]] = _Call(e["tool"], e["time"], place["line"] if place else None)
        gate = " (waits for approval)" if (e.get("policy") or {}).get("approval") else ""
        return self._with_value(f"→ {self._style.bold(e['tool'])} #{e['call']}{gate}", e.get("args"))

    def _tool_call_cancelled(self, e: Mapping[str, Any]) -> str:
        return f"✗ {self._call_name(e['call'])} aborted by the script"

    def _start_timer(self, e: Mapping[str, Any]) -> str:
        why = _TIMER_WORDS.get(e["why"], str(e["why"]))
        self._timers[e["timer"]] = why
        return f"{why} #{e['timer']} {took_text(e['delay'])}, until {clock_text(e['fire_at'])}"

    def _timer_cleared(self, e: Mapping[str, Any]) -> str:
        return f"{self._timers.get(e['timer'], 'timer')} #{e['timer']} cleared"

    def _signal_awaited(self, e: Mapping[str, Any]) -> str:
        self._waits[e["wait"]] = e["name"]
        limit = " with a timeout" if e.get("timer") is not None else ""
        source = " from the harness" if e.get("from") == "harness" else ""
        return f"waits for signal {self._style.bold(compact(e['name']))}{source}{limit}"

    def _signal_wait_cleared(self, e: Mapping[str, Any]) -> str:
        return f"no longer waits for signal {compact(self._waits.get(e['wait'], '?'))}"

    def _log(self, e: Mapping[str, Any]) -> str:
        text = " ".join(
            value if isinstance(value, str) else compact(value) for value in e.get("values") or []
        )
        cut = " …" if e.get("truncated") else ""
        level = e["level"]
        shown = f"{level}: {clip(text.replace(chr(10), ' ⏎ '), max(VALUE_CHARS_MIN, self._style.width - 34))}{cut}"
        if level == "error":
            return self._style.red(shown)
        return self._style.yellow(shown) if level == "warn" else self._style.cyan(shown)

    def _complete_run(self, e: Mapping[str, Any]) -> str:
        return self._with_value(self._style.green("run completed") + "  output", e.get("output"))

    def _fail_run(self, e: Mapping[str, Any]) -> str:
        return self._style.red("run failed") + f"  {error_text(e.get('error') or {})}"

    def _cancel_run(self, e: Mapping[str, Any]) -> str:
        return self._style.yellow(f"run cancelled ({e.get('reason')})")

    def _unknown(self, e: Mapping[str, Any]) -> str:
        fields = {
            key: value for key, value in e.items() if key not in {"seq", "type", "time", "cause", "callsite"}
        }
        return f"{e['type']} {clip(compact(fields), max(VALUE_CHARS_MIN, self._style.width - 40))}"


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def error_text(error: Mapping[str, Any]) -> str:
    """Name and message, the place, and the code frame below."""
    code = f" {error['code']}" if error.get("code") else ""
    where = f" (line {error['line']}, column {error.get('column', 1)})" if error.get("line") else ""
    text = f"{error.get('name', 'Error')}{code}: {error.get('message', '')}{where}"
    if error.get("frame"):
        text += "\n" + str(error["frame"]).rstrip("\n")
    return text


def limit_text(e: Mapping[str, Any], before: str = "") -> str:
    if e.get("used") is None or e.get("allowed") is None:
        return ""
    return f"{before}{e['used']} of {e['allowed']} allowed"


def relative_time(ms: int) -> str:
    """Time since the run's start, at most 9 characters: `0.004s`, `2m 04.2s`, `3h 02m`, `10d 04h`."""
    if ms < 60_000:
        return f"{ms / 1000:.3f}s"
    if ms < 3_600_000:
        return f"{ms // 60_000}m {ms % 60_000 / 1000:04.1f}s"
    if ms < 86_400_000:
        return f"{ms // 3_600_000}h {ms % 3_600_000 // 60_000:02d}m"
    return f"{ms // 86_400_000}d {ms % 86_400_000 // 3_600_000:02d}h"


def took_text(ms: float) -> str:
    """A duration: `17ms`, `2.5s`, `3m 20s`, `10d`."""
    if ms < 1000:
        return f"{ms:g}ms"
    if ms < 60_000:
        return f"{round(ms / 1000, 2):g}s"
    parts: list[str] = []
    rest = int(ms // 1000)
    for name, unit in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        if rest >= unit:
            parts.append(f"{rest // unit}{name}")
        rest %= unit
    return " ".join(parts[:2])


def clock_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def size_text(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.1f} KiB" if size < 1024 * 1024 else f"{size / (1024 * 1024):.1f} MiB"
