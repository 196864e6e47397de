"""What a fork would reuse: its script executed against the parent's journal, nothing appended."""

from dataclasses import replace
from typing import Any

import orjson

from sandbox.activation.forking import matching_of
from sandbox.activation.loading import run_setup, started_of
from sandbox.activation.prefix import ForkTask, HistoryGone, make_prefix
from sandbox.activation.setup import pinned_tools
from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Json, RunId, Seq
from sandbox.store.interface import ForkOrder, StoredEntry
from sandbox.store.postgres.requests import SandboxRequest
from sandbox.worker.answers.bench import Bench


async def fork_plan(bench: Bench, request: SandboxRequest) -> bytes:
    """`{parent, run, time, at, started, compiled}` → `{report, gone}`: one of them is null."""
    question = orjson.loads(request.payload)
    try:
        report, gone = await _report(bench, request, question), None
    except HistoryGone as error:
        report, gone = None, str(error)
    return orjson.dumps({"report": report, "gone": gone})


async def _report(bench: Bench, request: SandboxRequest, question: dict[str, Any]) -> dict[str, Json]:
    parent = RunId(question["parent"])
    facts = await bench.store.load_facts(request.namespace, parent)
    if facts is None:
        raise HistoryGone("its script or its toolset is not there any more")
    body = question["started"].encode()
    first = StoredEntry(Seq(0), EntryType.RUN_STARTED, question["time"], None, None, body)
    started = started_of([first])
    asked = replace(facts, run=RunId(question["run"]), script=started.script, compiled=question["compiled"])
    at = question["at"]
    task = ForkTask(
        namespace=request.namespace,
        setup=run_setup(asked, started),
        started=first,
        limits=started.limits,
        tools=pinned_tools(facts.tools),
        matching=await matching_of(
            bench.store, request.namespace, ForkOrder(parent, None if at is None else Seq(at))
        ),
    )
    return (await make_prefix(task, isolates=bench.children, blobs=bench.blobs)).report
