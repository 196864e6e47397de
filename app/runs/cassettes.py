"""A run's journal as a cassette: what answers a test in place of the world."""

import asyncio
from typing import Any

from app.body import BATCH_BODY_BYTES_MAX
from app.errors import HistoryUnavailable, TooLarge
from app.responses import iso, spliced
from app.runs.service import Runs
from sandbox.journal.cassette import Cassette, RecordedCall, RecordedSignal, cassette_of
from sandbox.journal.codec import entry_from_row, value_in
from sandbox.journal.entries import CompleteRun, Entry, FailRun, RunAborted, Value
from sandbox.journal.ids import NamespaceId, Seq
from sandbox.store.interface import FROM_START, RunRecord
from sandbox.store.postgres.values import VALUE_TYPES

CASSETTE_BYTES_MAX = BATCH_BODY_BYTES_MAX
"""Of its values: a test takes no larger one."""
ENTRIES_AT_ONCE = 500
TEXTS_AT_ONCE = 8


async def cassette_of_run(runs: Runs, record: RunRecord) -> dict[str, Any]:
    """The cassette of a run as it is now, for orjson.

    Errors: TooLarge; HistoryUnavailable when a value was redacted; Unavailable.
    """
    cassette = cassette_of(await _entries(runs, record))
    return await _Writer(runs, record.namespace).cassette(record, cassette)


async def _entries(runs: Runs, record: RunRecord) -> list[Entry]:
    entries: list[Entry] = []
    size, after = 0, FROM_START
    while after < record.next_seq - 1:
        page = await runs.store.read_entries(record.namespace, record.run, after=after, limit=ENTRIES_AT_ONCE)
        for row in page:
            value = value_in(row.body) if row.type in VALUE_TYPES else None
            if value is not None and value.redacted:
                raise HistoryUnavailable("A value of this run was redacted: it cannot answer a test.")
            size += 0 if value is None else value.bytes
        if size > CASSETTE_BYTES_MAX:
            raise TooLarge(
                f"The run's values are more than the {CASSETTE_BYTES_MAX:,} bytes of a cassette: "
                "read its journal, and mock the calls that the test needs."
            )
        entries += [
            entry_from_row(n.seq, n.type, n.time, cause=n.cause, fire_at=n.fire_at, body=n.body)
            for n in page
            if n.seq < record.next_seq
        ]
        after = Seq(page[-1].seq) if page else record.next_seq
    return entries


class _Writer:
    def __init__(self, runs: Runs, namespace: NamespaceId) -> None:
        self._runs = runs
        self._namespace = namespace
        self._at_once = asyncio.Semaphore(TEXTS_AT_ONCE)

    async def cassette(self, record: RunRecord, cassette: Cassette) -> dict[str, Any]:
        answered = [call for call in cassette.calls if call.after is not None]
        return {
            "cassette": 1,
            "run": record.run,
            "script": cassette.started.script,
            "toolset": cassette.started.toolset,
            "epoch": cassette.started.epoch,
            "seed": cassette.started.seed,
            "started_at": iso(cassette.started_at),
            "input": await self._text(cassette.started.input),
            "calls": await asyncio.gather(*(self._call(call) for call in answered)),
            "signals": await asyncio.gather(*(self._signal(signal) for signal in cassette.signals)),
            "ended": await self._end(cassette),
        }

    async def _call(self, call: RecordedCall) -> dict[str, Any]:
        view: dict[str, Any] = {"call": call.call, "tool": call.tool, "args": await self._text(call.args)}
        if call.result is not None:
            view["result"] = await self._text(call.result)
        if call.error is not None:
            error = call.error
            view["error"] = {
                "name": error.name,
                "code": error.code,
                "message": error.message,
                "data": None if error.data is None else await self._text(error.data),
                "retryable": error.retryable,
            }
        view["after"] = call.after
        return view if call.order is None else view | {"order": call.order}

    async def _signal(self, signal: RecordedSignal) -> dict[str, Any]:
        view = {"name": signal.name, "payload": await self._text(signal.payload), "id": signal.id}
        view["at"] = signal.at
        return view if signal.order is None else view | {"order": signal.order}

    async def _end(self, cassette: Cassette) -> dict[str, Any] | None:
        end = cassette.end
        if end is None:
            return None
        if isinstance(end, CompleteRun):
            return {"status": cassette.status, "output": await self._text(end.output)}
        error = None
        if isinstance(end, FailRun):
            error = {"name": end.error.name, "message": end.error.message, "code": end.error.code}
        elif isinstance(end, RunAborted):
            error = {"name": "LimitError", "message": f"limit {end.limit}", "code": end.limit}
        return {"status": cassette.status, "error": error}

    async def _text(self, value: Value) -> Any:
        if value.text is not None:
            return spliced(value.text)
        async with self._at_once:
            return spliced(await self._runs.values.text(self._namespace, value))
