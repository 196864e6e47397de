"""Toolsets of an organization: pinned versions, and which of them `latest` is."""

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.errors import UnknownToolset
from app.toolsets.declared import DeclaredCache, DeclaredToolset, Format
from app.toolsets.definition import (
    Definition,
    Pinned,
    PinnedTool,
    changes_between,
    check,
    merged,
    pin,
    refuse,
    tool_view,
    tools_of,
)
from app.toolsets.names import is_identifier
from app.toolsets.repository import ToolsetRepository
from app.toolsets.schemas import ToolsetBody
from app.toolsets.servers import ToolServers
from app.toolsets.workflow_tools import KIND, both_of, pin_of, workflow_tools
from app.workflows.repository import WorkflowRepository
from sandbox.journal.errors import FieldError
from sandbox.journal.ids import Digest, OrganizationId
from tenancy.errors import IdempotencyConflict, NotFound
from tenancy.ids import new_id
from tenancy.principals import Principal, Role

ROUTE = "POST /v1/toolsets"
CACHE_MAX = 1_000
_GONE = "Its server does not list it any more: calls of it fail with `tool_removed`."
REFERENCE = re.compile(r"([a-z][a-z0-9_-]{0,63})(?:@(sha256:[0-9a-f]{64}))?")


@dataclass(frozen=True, slots=True)
class ToolsetRef:
    """A toolset at a version."""

    name: str
    digest: Digest

    @property
    def text(self) -> str:
        return f"{self.name}@{self.digest}"


class Toolsets:
    def __init__(
        self, repository: ToolsetRepository, servers: ToolServers, workflows: WorkflowRepository
    ) -> None:
        self._repository = repository
        self._workflows = workflows
        self.servers = servers
        self._tools: dict[tuple[OrganizationId, str, str], dict[str, PinnedTool]] = {}
        self._declared = DeclaredCache()

    async def put(
        self, principal: Principal, body: ToolsetBody, *, key: str | None, request_sha256: bytes
    ) -> tuple[Definition, bool, bool]:
        """Pin what the body declares; answer the view, whether it changed anything, whether it is a replay.

        Servers are asked for their tools first. Errors: ToolsetInvalid, also for a server that does not answer.
        """
        if key is not None:
            before = await self._repository.used_key(principal.organization, ROUTE, key)
            if before is not None:  # answered from here: a server may be away by now
                return await self._replayed(principal, before, request_sha256), False, True
        # In threads: checking and compiling the schemas of a large toolset takes seconds.
        warnings = await asyncio.to_thread(check, body)
        listed = await self.servers.list_tools(principal, body)
        workflows = await self._workflow_tools(principal.organization, body.workflows or ())
        pinned = await asyncio.to_thread(pin, body, listed, warnings, workflows=workflows)
        changed, before = await self._repository.put(
            principal.organization,
            name=body.name,
            digest=pinned.digest,
            definition=pinned.definition,
            servers=self.servers.seal(principal.organization, body, pinned.digest, pinned.servers),
            new_id=new_id,
            idempotency=None if key is None else (ROUTE, key, request_sha256),
        )
        if before is not None:
            return await self._replayed(principal, before, request_sha256), False, True
        row = await self._repository.find(principal.organization, body.name, pinned.digest)
        if row is None:
            raise NotFound(f"The toolset {body.name!r} was deleted.")
        return toolset_view(row, pinned.warnings), changed, False

    async def refresh(self, principal: Principal, name: str, *, accept: bool | Sequence[str]) -> Definition:
        """Ask the servers again, and for workflows: what differs from the latest version, and pin what is accepted.

        Tools that a server has no more, and whose removal is not accepted, are shown as disabled. A workflow that was
        deleted stays as it is pinned. What is accepted of a workflow's two tools is accepted of both.

        Errors: NotFound; ToolsetInvalid for a server that does not answer, or a name that is no change.
        """
        row = await self._repository.find(principal.organization, name, None) if _plain(name) else None
        if row is None:
            raise NotFound(f"There is no toolset {name!r}.")
        before: Definition = orjson.loads(row["definition"])
        digest = Digest(row["digest"])
        body = await self.servers.declared(principal.organization, name, digest)
        after = await self._as_it_is_now(principal, before, body)
        changes = changes_between(before, after.definition)
        named = {change["tool"] for change in changes}
        refuse(_no_changes(named, accept=accept))
        accepted = (
            set(named) if accept is True else named & {one for tool in accept or () for one in both_of(tool)}
        )
        removed = {change["tool"]: _GONE for change in changes if change["change"] == "removed"}
        if accepted:
            pinned = merged(before, after, accepted)
            digest = pinned.digest
            kept = None
            if body is not None:
                kept = self.servers.seal(principal.organization, body, digest, pinned.servers)
            await self._repository.put(
                principal.organization,
                name=name,
                digest=digest,
                definition=pinned.definition,
                servers=kept,
                new_id=new_id,
                idempotency=None,
            )
        disabled = {tool: why for tool, why in removed.items() if tool not in accepted}
        await self._repository.disable(principal.organization, name, digest, disabled)
        return {"changes": changes, "digest": digest}

    async def _as_it_is_now(
        self, principal: Principal, before: Definition, body: ToolsetBody | None
    ) -> Pinned:
        """The toolset as it would be pinned now; `body`: what was declared, of one that has servers."""
        workflows: list[Definition] = []
        for tool in before["tools"]:
            pin_ = pin_of(tool)
            if pin_ is None or not pin_.awaited:
                continue
            known = await self._workflows.find(principal.organization, pin_.name, None)
            pair = {*both_of(tool["name"])}
            kept = [one for one in before["tools"] if one["name"] in pair]
            workflows += kept if known is None else workflow_tools(known.version)
        if body is None:
            own = [tool for tool in before["tools"] if tool["kind"] != KIND]
            return Pinned({**before, "tools": own + workflows}, {}, Digest(""), [])
        warnings = await asyncio.to_thread(check, body)
        listed = await self.servers.list_tools(principal, body)
        return await asyncio.to_thread(pin, body, listed, warnings, workflows=workflows, all_named=False)

    async def _workflow_tools(self, organization: OrganizationId, names: Sequence[str]) -> list[Definition]:
        """Workflows, each at its latest version now. ToolsetInvalid names every one that there is not."""
        errors: list[FieldError] = []
        found: list[Definition] = []
        for index, name in enumerate(names):
            workflow = None
            if is_identifier(name):
                workflow = await self._workflows.find(organization, name, None)
            if name in names[:index]:
                errors.append(
                    FieldError(f"workflows[{index}]", "duplicate_name", f"`{name[:80]}` is listed twice.")
                )
            elif workflow is None:
                message = (
                    f"There is no workflow {name[:80]!r}: register it first, with PUT /v1/workflows/{{name}}."
                )
                errors.append(FieldError(f"workflows[{index}]", "unknown_workflow", message))
            else:
                found += workflow_tools(workflow.version)
        refuse(errors)
        return found

    async def _replayed(self, principal: Principal, before: Any, request_sha256: bytes) -> Definition:
        """The toolset that an idempotency key made, as it is now."""
        if before["request_sha256"] != request_sha256:
            raise IdempotencyConflict("This Idempotency-Key was used for another toolset.")
        row = await self._repository.find(principal.organization, before["object_id"], None)
        if row is None:
            raise NotFound(f"The toolset {before['object_id']!r} was deleted.")
        return toolset_view(row, [])

    async def get(self, principal: Principal, reference: str) -> Definition:
        """The tools; for who may register toolsets also the servers as they were declared, with names of secrets."""
        row = await self._find(principal, reference)
        view = toolset_view(row, [])
        if not principal.may_manage(Role.DEVELOPER):
            return view
        declared = await self.servers.declared(principal.organization, row["name"], Digest(row["digest"]))
        if declared is None:
            return view
        return view | declared.model_dump(mode="json", include={"mcp", "http", "secrets"}, exclude_unset=True)

    async def _find(self, principal: Principal, reference: str) -> Any:
        found = REFERENCE.fullmatch(reference)
        row = None
        if found is not None:
            principal.require_toolset(found[1])
            row = await self._repository.find(principal.organization, found[1], found[2])
        if row is None:
            raise NotFound(f"There is no toolset {reference!r}.")
        return row

    async def declarations(
        self,
        principal: Principal,
        reference: str,
        form: Format,
        *,
        only: Sequence[str] | None,
        budget: int | None,
    ) -> str:
        """The toolset as TypeScript, or as a prompt. ApiError for a tool in `only` that it has not."""
        declared = await self._load_declared(principal, reference)
        return await asyncio.to_thread(declared.declarations, form, only=only, budget=budget)

    async def search(
        self, principal: Principal, reference: str, query: str, limit: int
    ) -> list[dict[str, Any]]:
        """Tools that fit the words of the query, the best first."""
        declared = await self._load_declared(principal, reference)
        return await asyncio.to_thread(declared.search, query, limit)

    async def _load_declared(self, principal: Principal, reference: str) -> DeclaredToolset:
        row = await self._find(principal, reference)
        key = (str(principal.organization), row["name"], row["digest"])
        return await asyncio.to_thread(
            self._declared.get, key, lambda: DeclaredToolset(orjson.loads(row["definition"]))
        )

    async def page(self, principal: Principal, *, before: str | None, limit: int) -> list[Definition]:
        rows = await self._repository.page(
            principal.organization, name=principal.narrow.toolset, before=before, limit=limit
        )
        return [toolset_view(row, []) for row in rows]

    async def delete(self, principal: Principal, name: str) -> None:
        known = REFERENCE.fullmatch(name) is not None
        if not known or not await self._repository.delete(principal.organization, name):
            raise NotFound(f"There is no toolset {name!r}.")

    async def resolve(self, organization: OrganizationId, reference: str) -> ToolsetRef:
        """Fix the version that a new run gets. UnknownToolset when there is none."""
        found = REFERENCE.fullmatch(reference)
        digest = None
        if found is not None and found[2] is None:
            digest = await self._repository.latest_digest(organization, found[1])
        elif found is not None:
            row = await self._repository.find(organization, found[1], found[2])
            digest = None if row is None else row["digest"]
        if found is None or digest is None:
            raise UnknownToolset(
                f"There is no toolset {reference!r}: name one as `name` or `name@sha256:…`, "
                "or register it with POST /v1/toolsets."
            )
        return ToolsetRef(found[1], Digest(digest))

    async def tools(self, organization: OrganizationId, toolset: ToolsetRef) -> dict[str, PinnedTool]:
        """The pinned tools by their names in scripts; cached, since versions never change."""
        key = (organization, toolset.name, toolset.digest)
        known = self._tools.get(key)
        if known is None:
            definition = await self._repository.find_definition(*key)
            known = {} if definition is None else tools_of(definition)
            if len(self._tools) >= CACHE_MAX:
                self._tools.clear()
            self._tools[key] = known
        return known

    async def definitions(self, organization: OrganizationId, toolset: ToolsetRef) -> list[Any]:
        """The tools as they were pinned, in the order of their registration."""
        found = await self._repository.find_definition(organization, toolset.name, toolset.digest)
        return [] if found is None else list(found["tools"])

    async def script_names(self, organization: OrganizationId, originals: list[str]) -> list[tuple[str, str]]:
        return await self._repository.script_names(organization, originals)


def toolset_view(row: Any, warnings: list[str]) -> Definition:
    definition, disabled = orjson.loads(row["definition"]), orjson.loads(row["disabled"])
    return {
        "id": str(row["id"]),
        "name": row["name"],
        "digest": row["digest"],
        "tools": [tool_view(tool, disabled.get(tool["name"])) for tool in definition["tools"]],
        "warnings": warnings,
    }


def _plain(name: str) -> bool:
    found = REFERENCE.fullmatch(name)
    return found is not None and found[2] is None


def _no_changes(named: Collection[str], *, accept: bool | Sequence[str]) -> list[FieldError]:
    """Say which accepted names are no change: what was meant to be pinned has changed again."""
    if isinstance(accept, bool):
        return []
    return [
        FieldError(f"accept[{index}]", "unknown_change", f"The tool {name[:80]!r} is not among the changes.")
        for index, name in enumerate(accept)
        if name not in named
    ]
