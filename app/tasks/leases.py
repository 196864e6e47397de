"""What settling a task needs: remembered by the process that handed it out, looked up by any other."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.tasks.repository import TaskRepository
from app.toolsets.definition import PinnedTool
from app.toolsets.service import ToolsetRef, Toolsets
from sandbox.journal.codec import decode_body
from sandbox.journal.entries import EntryType, ScheduleToolCall
from sandbox.journal.ids import Digest, NamespaceId, OrganizationId, RunId, TimeMs
from sandbox.store.interface import Task
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.tasks import TaskKey, key_of

CACHE_MAX = 100_000
RunKey = tuple[NamespaceId, RunId]
ToolsByName = dict[str, PinnedTool]


@dataclass(frozen=True, slots=True)
class RunTools:
    """What a run was started with; no toolset: no tools."""

    toolset: str | None
    tools: ToolsByName


@dataclass(frozen=True, slots=True)
class Lease:
    """`tool` None: the toolset version does not have it. `begun_at` None: the call has its outcome already."""

    tool: PinnedTool | None
    begun_at: TimeMs | None


class Leases:
    def __init__(self, store: PostgresEdge, repository: TaskRepository, toolsets: Toolsets) -> None:
        self._store = store
        self._repository = repository
        self._toolsets = toolsets
        self._leases: dict[TaskKey, Lease] = {}
        self._tools: dict[RunKey, RunTools] = {}

    async def hand_out(self, tasks: Sequence[Task]) -> list[PinnedTool | None]:
        """Remember these tasks; return the pinned tool of each."""
        await self._load_tools([(task.namespace, task.run) for task in tasks])
        found = []
        for task in tasks:
            known = self._tools.get((task.namespace, task.run))
            tool = None if known is None else known.tools.get(task.tool)
            key = key_of(task)
            if len(self._leases) >= CACHE_MAX:
                self._leases.clear()
            self._leases[key] = Lease(tool, task.begun_at)
            found.append(tool)
        return found

    def forget(self, key: TaskKey) -> None:
        self._leases.pop(key, None)

    async def find(self, key: TaskKey) -> Lease | None:
        """The lease that a token stands for; None when there is no such call."""
        known = self._leases.get(key)
        if known is not None:
            return known
        namespace, run, call, *_ = key
        await self._load_tools([(namespace, run)])
        known_tools = self._tools.get((namespace, run))
        if known_tools is None:
            return None
        tools = known_tools.tools
        pending = await self._repository.pending_call(namespace, run, call)
        if pending is not None:
            return Lease(tools.get(pending["name"]), pending["begun_at"])
        scheduled = await self._store.find_entry(namespace, run, EntryType.SCHEDULE_TOOL_CALL, call)
        if scheduled is None:
            return None
        body, _ = decode_body(scheduled.type, scheduled.body)
        return Lease(tools.get(body.tool), None) if isinstance(body, ScheduleToolCall) else None

    async def toolset_of(self, key: TaskKey) -> str | None:
        """The name of the toolset that the task's run was started with."""
        await self._load_tools([key[:2]])
        known = self._tools.get(key[:2])
        return None if known is None else known.toolset

    async def _load_tools(self, runs: Sequence[RunKey]) -> None:
        unknown = list({run for run in runs if run not in self._tools})
        if not unknown:
            return
        if len(self._tools) + len(unknown) >= CACHE_MAX:
            self._tools.clear()
        for row in await self._repository.toolsets_of(unknown):
            tools: ToolsByName = {}
            if row["toolset"] is not None:
                tools = await self._toolsets.tools(
                    OrganizationId(str(row["organization_id"])),
                    ToolsetRef(row["toolset"], Digest(row["toolset_digest"])),
                )
            self._tools[NamespaceId(str(row["namespace_id"])), RunId(str(row["run_id"]))] = RunTools(
                row["toolset"], tools
            )
