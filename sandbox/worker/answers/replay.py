"""Execute a recorded run again, with its own script or another one."""

from typing import Any

import orjson

from sandbox.activation.reenact import replay_run
from sandbox.activation.reenacted import Play
from sandbox.activation.setup import pinned_tools
from sandbox.isolate.compiled import Compiled
from sandbox.journal.codec import decode_body
from sandbox.journal.entries import RunStarted
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import NamespaceId, RunId, Seq
from sandbox.store.interface import StoredEntry
from sandbox.store.postgres.requests import SandboxRequest
from sandbox.worker.answers.bench import Bench

PAGE = 2_000


async def replay(bench: Bench, request: SandboxRequest) -> bytes:
    """`{run, source?, overrides?}` → the body of `POST /runs/{id}/replay`, `{refused}`, `{diagnostics}` or `{unavailable}`."""
    question: dict[str, Any] = orjson.loads(request.payload)
    run, source = RunId(question["run"]), question.get("source")
    facts = await bench.store.load_facts(request.namespace, run)
    if facts is None:
        return orjson.dumps({"unavailable": "The script or the toolset of this run is gone."})
    compiled: Any = Compiled.from_json(facts.compiled)
    if source is not None:
        compiled = await bench.children.strip(source, facts.epoch, tenant=request.namespace)
    if not isinstance(compiled, Compiled):
        return orjson.dumps({"diagnostics": [item.to_json() for item in compiled]})
    entries = await read_journal(bench, request.namespace, run)
    started, _ = decode_body(entries[0].type, entries[0].body)
    if not isinstance(started, RunStarted):
        raise ImpossibleEntry("the journal does not begin with run_started")
    play = Play(
        run=run,
        namespace=request.namespace,
        namespace_name=facts.namespace_name,
        epoch=facts.epoch,
        compiled=compiled,
        tools=pinned_tools(facts.tools),
        limits=started.limits,
        source=source or await bench.store.get_script(request.namespace, facts.script),
    )
    answer = await replay_run(
        bench.children,
        play,
        entries,
        bench.blobs,
        overrides=question.get("overrides"),
        own_script=source is None,
    )
    return orjson.dumps(answer)


async def read_journal(bench: Bench, namespace: NamespaceId, run: RunId) -> list[StoredEntry]:
    """The whole journal as it is now. Errors: ImpossibleEntry when it has gaps."""
    entries: list[StoredEntry] = []
    while True:
        page = await bench.store.read_entries(namespace, run, after=Seq(len(entries) - 1), limit=PAGE)
        entries += page
        if len(page) < PAGE:
            break
    if not entries or entries[-1].seq != len(entries) - 1:
        raise ImpossibleEntry(f"the journal of run {run} has gaps")
    return entries
