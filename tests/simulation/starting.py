"""How the runs of a simulation begin: by themselves, as forks of what has ended, as children of calls."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

from app.errors import RunActive, RunQuarantined
from app.runs.fork_schemas import ForkBody
from app.runs.forks import refuse_fork
from app.toolsets.workflow_tools import WorkflowPin
from app.workflows.repository import WorkflowVersion
from sandbox.activation.setup import pinned_tools
from sandbox.compiler.client import Checked
from sandbox.isolate.compiled import Compiled
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import decode_body, encode_body
from sandbox.journal.entries import Actor, Limits, Origin, Parent, RunStarted
from sandbox.journal.ids import Digest, Epoch, Json, NamespaceId, OrganizationId, RunId, TimeMs
from sandbox.store.interface import RunFacts, StartRun
from sandbox.store.memory import Journals, MemoryStore
from sandbox.store.memory_runs import MemoryRun
from sandbox.store.postgres.children import depth_of
from tests.simulation.script import TOOLS, WORKFLOWS

ORGANIZATION = OrganizationId("o1")
EPOCH = Epoch(1)
SCRIPT = Digest("sha256:" + "5" * 64)
WORKFLOW = "child"
DAY_MS = 86_400_000
Where = tuple[NamespaceId, RunId]


def _pinned(name: str) -> dict[str, Any]:
    kind = "mcp" if name.startswith("mcp") else "workflow" if name in WORKFLOWS else "host"
    idempotent = name.endswith("again") or name in WORKFLOWS
    approval = {"approval": {"expires_ms": 15_000}} if name.endswith("gated") else {}
    retry = {"retry": {"attempts": 3, "backoff_ms": 500, "max_ms": 4_000}} if name == "mcp.again" else {}
    return {"name": name, "kind": kind, "idempotent": idempotent} | approval | retry


PINNED = tuple(map(_pinned, (*TOOLS, *WORKFLOWS)))
TOOLS_PINNED = pinned_tools(PINNED)
PINS = {name: WorkflowPin(WORKFLOW, SCRIPT, awaited=not name.endswith("start")) for name in WORKFLOWS}


class Starting:
    """Which script each run has, and the requests that start them."""

    def __init__(self, seed: int, random: Random, journals: Journals, edit: str) -> None:
        self._seed = seed
        self._edit_of_all = edit
        self._random = random
        self._journals = journals
        self.scripts: dict[RunId, str] = {}
        self.forks = 0

    def root(self, number: int) -> StartRun:
        """A run that the product starts, now or later."""
        namespace, run = NamespaceId(f"n{number % 2}"), RunId(f"run{number}")
        self._facts(namespace, run, f"{self._seed}/{number}{self._edit_of_all}")
        held_s = self._random.choice((0, 0, 0, 0, 6))
        ttl_ms = self._random.choice((8_000, 60_000, DAY_MS, DAY_MS))
        now = TimeMs(self._journals.time + held_s * 1_000)
        started = RunStarted(
            input=value_of(None),
            script=SCRIPT,
            toolset=None,
            seed="0" * 32,
            epoch=EPOCH,
            deadline=TimeMs(now + ttl_ms),
            labels={},
            limits=Limits(),
            started_by=Actor("key", "k"),
        )
        return StartRun(
            namespace=namespace,
            organization=ORGANIZATION,
            run=run,
            body=encode_body(started),
            epoch=EPOCH,
            time=now,
            ttl_ms=ttl_ms,
            script=SCRIPT,
            toolset="tools",
            toolset_digest=SCRIPT,
            workflow=None,
            labels={},
            created_by=("key", "k"),
            idempotency_key=run,
            held=held_s > 0,
        )

    async def fork(self, parent: Where) -> StartRun | None:
        """A fork, unchanged or with an edited script, of all or of a part; None: the parent has not ended."""
        record = await MemoryStore(self._journals).get_run(*parent)
        assert record is not None
        ended = self._journals.runs[parent]
        at = self._random.randrange(len(ended.entries)) if self._random.random() < 0.4 else None
        try:
            refuse_fork(record, ForkBody(at=at))
        except (RunActive, RunQuarantined):
            return None
        self.forks += 1
        namespace, run = parent[0], RunId(f"fork{self.forks}")
        self._facts(namespace, run, self.scripts[parent[1]] + self._edit(ended))
        before, _ = decode_body(ended.entries[0].type, ended.entries[0].body)
        assert isinstance(before, RunStarted)
        now = self._journals.time
        deadline = TimeMs(now + self._random.choice((8_000, DAY_MS, DAY_MS)))
        first = Origin(parent[1], before.labels, before.deadline, before.parent and before.parent.run)
        started = replace(
            before,
            deadline=deadline,
            parent=Parent(parent[1], "fork"),
            forked_at=now,
            origin=before.origin or first,
        )
        asked: dict[str, Json] = {"forked_at": now} | ({} if at is None else {"at": at})
        return replace(
            ended.start,
            run=run,
            body=encode_body(started),
            time=ended.entries[0].time,
            ttl_ms=deadline - ended.entries[0].time,
            idempotency_key=run,
            held=False,
            parent={"run": parent[1], "kind": "fork", "depth": depth_of(ended.start.parent)},
            fork=asked,
        )

    def _edit(self, parent: MemoryRun) -> str:
        """What was changed of the script; often nothing."""
        call = self._random.randrange(1, parent.calls + 2)
        event = self._random.randrange(1, 8)
        return self._random.choice(("", "", "~log", f"~args{call}", f"~args{call}", f"~tail{event}"))

    def child(self, request: StartRun) -> None:
        """The data plane will find the child's script: it follows from that of the run that calls."""
        parent = request.parent or {}
        base, *edits = self.scripts[RunId(str(parent["run"]))].split("~")
        script = f"{base}>{parent['call']}" + ("~lasting" if "lasting" in edits else "")
        self._facts(request.namespace, request.run, script, child=True)

    def _facts(self, namespace: NamespaceId, run: RunId, script: str, *, child: bool = False) -> None:
        self.scripts[run] = script
        self._journals.facts[namespace, run] = RunFacts(
            namespace=namespace,
            namespace_name=namespace,
            organization=ORGANIZATION,
            run=run,
            epoch=EPOCH,
            script=SCRIPT,
            compiled=Compiled(script, [], "main").to_json(),
            toolset="tools",
            tools=PINNED,
            labels={},
            is_child=child,
        )


# -- What the control plane knows of the workflow that calls start


class Workflows:
    def __init__(self, travel: Callable[[], Awaitable[None]]) -> None:
        self._travel = travel

    async def version(self, organization: OrganizationId, name: str, digest: Digest) -> WorkflowVersion:
        await self._travel()
        checked = Checked({}, [], None, None, input_schema={"type": "object"})
        return WorkflowVersion(
            name, digest, SCRIPT, "", ("tools", SCRIPT), "", EPOCH, "sim", checked, TimeMs(0)
        )


class Accepted:
    ok = True


class Scripts:
    """Every script was checked before."""

    def __init__(self, travel: Callable[[], Awaitable[None]]) -> None:
        self._travel = travel

    async def ensure(self, *_program: object) -> Accepted:
        await self._travel()
        return Accepted()
