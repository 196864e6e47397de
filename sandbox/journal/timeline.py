"""Journals for human eyes: one line per entry."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from sandbox.journal import entries as e
from sandbox.journal.canonical import canonical_text
from sandbox.journal.entries import Entry

_TEXT_SHOWN_MAX = 120


def timeline(entries: Iterable[Entry]) -> Iterator[str]:
    """Tell a journal: sequence, time since the start, line of the script, what happened.

    Like `  3  +0.412s  L12  github.list_issues({"repo":"a/b"})`.
    """
    start = None
    tools: dict[int, str] = {}
    for entry in entries:
        start = entry.time if start is None else start
        if isinstance(entry.body, e.ScheduleToolCall):
            tools[entry.body.call] = entry.body.tool
        line = f"L{entry.callsite.line}" if entry.callsite else ""
        yield f"{entry.seq:>3}  {elapsed(entry.time - start):>9}  {line:<4}  {_told(entry.body, tools)}"


def elapsed(ms: int) -> str:
    """Spell a span: `+0.412s`, `+3m20s`, `+2d4h`."""
    if ms < 60_000:
        return f"+{ms / 1000:.3f}s"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"+{days}d{hours}h" if days else f"+{hours}h{minutes}m" if hours else f"+{minutes}m{seconds}s"


def _told(body: e.Body, tools: dict[int, str]) -> str:
    match body:
        case e.RunStarted():
            return f"started with {_value(body.input)}"
        case e.ScheduleToolCall():
            return f"{body.tool}({_value(body.args)}) #{body.call}"
        case e.ToolCallCompleted():
            tool = f"{tools.get(body.call, 'call')} #{body.call}"
            if body.error is not None:
                return f"{tool} failed: {body.error.name}: {_cut(body.error.message)}"
            return f"{tool} returned {_value(body.result)}"
        case e.ToolCallCancelled():
            return f"{tools.get(body.call, 'call')} #{body.call} cancelled"
        case e.ApprovalDecided():
            by = f" by {body.by}" if body.by else ""
            return f"{tools.get(body.call, 'call')} #{body.call} {body.decision}{by}"
        case e.StartTimer():
            return f"timer {body.timer} ({body.why}) for {max(0, int(body.delay))} ms"
        case e.TimerFired():
            return f"timer {body.timer} fired"
        case e.TimerCleared():
            return f"timer {body.timer} cleared"
        case e.SignalAwaited():
            return f"waits for signal {body.name}" + (" from the harness" if body.from_ else "")
        case e.SignalWaitCleared():
            return f"wait {body.wait} cleared"
        case e.SignalReceived():
            return f"signal {body.name} {_value(body.payload)}" + (f" by {body.by}" if body.by else "")
        case e.Log():
            return f"{body.level}: {_cut(' '.join(_logged(value) for value in body.values))}"
        case e.CancelRequested():
            detail = body.detail or body.limit
            return f"cancel requested ({body.reason})" + (f": {detail}" if detail else "")
        case e.CompleteRun():
            return f"completed with {_value(body.output)}"
        case e.FailRun():
            where = f" at line {body.error.line}" if body.error.line else ""
            return f"failed{where}: {body.error.name}: {_cut(body.error.message)}"
        case e.CancelRun():
            return f"cancelled: {body.reason}"
        case e.RunAborted():
            return f"aborted: limit {body.limit}, used {body.used} of {body.allowed}"
        case _:
            assert_never(body)


def _value(value: e.Value | None) -> str:
    if value is None or value.text is None:
        return "nothing" if value is None else f"<{value.bytes} bytes, {value.sha256[:12]}>"
    return _cut(value.text[: 4 * _TEXT_SHOWN_MAX + 4].decode(errors="ignore"))


def _logged(value: object) -> str:
    return value if isinstance(value, str) else canonical_text(value).decode()


def _cut(text: str) -> str:
    line = text[: _TEXT_SHOWN_MAX + 1].replace("\n", "\\n")
    return line if len(line) <= _TEXT_SHOWN_MAX else line[:_TEXT_SHOWN_MAX] + "…"
