"""The double's limits of tools: the rules of `0022_pace.sql`."""

from dataclasses import replace
from typing import Any

import orjson

from sandbox.journal.ids import TimeMs
from sandbox.store.interface import DueWhy
from sandbox.store.memory_runs import Journals, MemoryRow, MemoryRun


def pace_of(row: MemoryRow) -> dict[str, Any]:
    return {} if row.pace is None else dict(orjson.loads(row.pace))


def paced(row: MemoryRow, now: TimeMs) -> MemoryRow:
    """The row with the time that it may wait on offer, or without it once it has begun."""
    queue_ms = pace_of(row).get("queue_ms")
    if queue_ms is None:
        return row
    if row.why is DueWhy.QUEUE and (row.claim_id is not None or row.attempt > 0):
        if row.timeout_ms is None or row.begun_at is None:
            return replace(row, due=None, why=None)
        return replace(row, due=TimeMs(row.begun_at + row.timeout_ms), why=DueWhy.TIMEOUT)
    waits = row.offered and row.attempt == 0 and row.due is None
    return replace(row, due=TimeMs(now + queue_ms), why=DueWhy.QUEUE) if waits else row


def may_begin(journals: Journals, run: MemoryRun, row: MemoryRow) -> bool:
    """Whether the limits have room for one more; if so, it counts as begun."""
    pace = pace_of(row)
    if not pace:
        return True
    start = run.start
    slot = (start.organization, start.toolset, pace["slot"])
    if "slots" in pace:
        begun = sum(
            (other.start.organization, other.start.toolset, pace_of(call).get("slot")) == slot
            for other in journals.runs.values()
            for call in other.calls_pending()
            if call.claim_id is not None or call.deferred
        )
        if begun >= pace["slots"]:
            return False
    if "rate" in pace:
        width = max(1, (pace["per_ms"] + 19) // 20)
        marks = journals.rates.setdefault((start.organization, start.toolset, pace["rate"]), [])
        if sum(mark >= journals.time // width - 20 for mark in marks) >= pace["rate_limit"]:
            return False
        marks.append(journals.time // width)
    return True
