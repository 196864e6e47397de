"""A simulation to be read: what each process asked of the store and was answered, who died, and the journals of its runs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.journal.codec import TYPE_NAMES
from sandbox.journal.ids import RunId
from sandbox.store.forks import ForkAppend
from sandbox.store.interface import CommandAppend, EventAppend
from sandbox.store.memory_runs import MemoryRun

SHOWN = 160


def told(request: object, answer: object) -> str:
    """One request to the store, in short."""
    match request:
        case EventAppend():
            about = f"{request.run}: {TYPE_NAMES[request.type]} {request.n or request.signal_id or ''}"
        case CommandAppend():
            about = f"{request.run}: {[TYPE_NAMES[draft.type] for draft in request.commands]}"
        case ForkAppend():
            made = "the last" if request.done is not None else "some"
            about = f"{request.run}: {made} of what it reuses, {len(request.entries)} from {request.first}"
        case _:
            return _cut(repr(answer))
    outcome = getattr(answer, "outcome", None) or (
        "appended" if getattr(answer, "appended", False) else "refused"
    )
    return f"{about} -> {outcome}"


def journals(runs: Mapping[Any, MemoryRun], scripts: Mapping[RunId, str], start_ms: int) -> Iterator[str]:
    for run in runs.values():
        yield ""
        parent = f", of {json.dumps(run.start.parent)}" if run.start.parent else ""
        yield f"{run.start.run} ({run.status.name.lower()}), script {scripts[run.start.run]}{parent}"
        for entry in run.entries:
            cause = "" if entry.cause is None else f" because of {entry.cause}"
            time = (entry.time - start_ms) / 1_000
            yield f"  {entry.seq:>3} {time:>8.3f} {TYPE_NAMES[entry.type]}{cause} {_cut(entry.body.decode())}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
