"""Workflows of an organization: checked scripts under a name, which version is the latest, and starting them."""

from collections import OrderedDict
from typing import Any

from app.errors import UnknownWorkflow, invalid
from app.responses import iso
from app.scripts.service import CHECKER, DIGEST, CheckedSource, Scripts, digest_of, script_refused, shown
from app.toolsets.names import group_problem
from app.toolsets.service import ToolsetRef, Toolsets
from app.workflows.repository import Workflow, WorkflowRepository, WorkflowVersion
from app.workflows.schemas import WorkflowBody
from sandbox.compiler.client import SandboxClient
from sandbox.journal.canonical import canonical_text, sha256_hex
from sandbox.journal.ids import Digest, Epoch, NamespaceId, OrganizationId, TimeMs
from tenancy.errors import NotFound
from tenancy.principals import Principal

KNOWN_MAX = 200
"""Versions that a process keeps: a source has up to 256 KiB."""


class Workflows:
    def __init__(
        self,
        repository: WorkflowRepository,
        scripts: Scripts,
        toolsets: Toolsets,
        sandbox: SandboxClient,
        epoch: Epoch,
    ) -> None:
        self._repository = repository
        self._scripts = scripts
        self._toolsets = toolsets
        self._sandbox = sandbox
        self._epoch = epoch
        self._known: OrderedDict[tuple[OrganizationId, str, str], WorkflowVersion] = OrderedDict()

    async def put(
        self, principal: Principal, name: str, body: WorkflowBody, namespace: NamespaceId | None
    ) -> Workflow:
        """Register a script under a name; the same again changes nothing. Runs that live are not touched.

        Errors: ApiError for the name, UnknownToolset, TooLarge, NotFound, ScriptRefused, Unavailable.
        """
        problem = group_problem(name)
        if problem is not None:
            raise invalid("name", "invalid_name", f"{problem}.")
        organization = principal.organization
        toolset = None
        if body.toolset is not None:
            toolset = await self._toolsets.resolve(organization, body.toolset)
        source = await self._source(body.script, namespace)
        script = digest_of(source)
        fixed = {
            "script": script,
            "toolset": None if toolset is None else toolset.text,
            "description": body.description,
        }
        digest = Digest(f"sha256:{sha256_hex(canonical_text(fixed))}")
        version = await self._repository.find_version(organization, name, digest)
        if version is None:
            pinned = None if toolset is None else (toolset.name, toolset.digest)
            # The organization's own question: it has a turn of its own beside those of its namespaces.
            checked = await self._sandbox.check(
                NamespaceId(organization),
                source,
                self._epoch,
                organization=organization,
                toolset=pinned,
                output=True,
            )
            if checked.compiled is None:
                raise script_refused([shown(found) for found in checked.diagnostics])
            version = WorkflowVersion(
                name,
                digest,
                script,
                source,
                pinned,
                body.description,
                self._epoch,
                CHECKER,
                checked,
                created_at=TimeMs(0),
            )
        await self._repository.put(organization, version)
        return await self.get(principal, name)

    async def _source(self, script: str, namespace: NamespaceId | None) -> str:
        if not DIGEST.fullmatch(script):
            return script
        if namespace is None:
            raise NotFound(
                f"Scripts belong to namespaces: send the source of {script}, or say with ?namespace= which knows it."
            )
        return await self._scripts.source(namespace, script)

    async def get(self, principal: Principal, reference: str) -> Workflow:
        """By its name, or at a version, `name@sha256:…`. Errors: NotFound, InsufficientScope."""
        name, at, digest = reference.partition("@")
        principal.require_workflow(name)
        found = None
        if group_problem(name) is None and (not at or DIGEST.fullmatch(digest)):
            found = await self._repository.find(principal.organization, name, digest if at else None)
        if found is None:
            raise NotFound(f"There is no workflow {reference[:160]!r}.")
        return found

    async def page(self, principal: Principal, *, before: str | None, limit: int) -> list[Workflow]:
        allowed = principal.narrow.workflows
        names = None if allowed is None else list(allowed)
        return await self._repository.page(principal.organization, names=names, before=before, limit=limit)

    async def versions(
        self, principal: Principal, name: str, *, before: tuple[TimeMs, str] | None, limit: int
    ) -> list[WorkflowVersion]:
        """Errors: NotFound, InsufficientScope."""
        await self.get(principal, name)
        return await self._repository.versions(principal.organization, name, before=before, limit=limit)

    async def delete(self, principal: Principal, name: str) -> None:
        known = group_problem(name) is None
        if not known or not await self._repository.delete(principal.organization, name):
            raise NotFound(f"There is no workflow {name[:80]!r}.")

    async def latest(self, organization: OrganizationId, name: str) -> WorkflowVersion:
        """What a new run of it is started with. Errors: UnknownWorkflow."""
        found = (
            None if group_problem(name) is not None else await self._repository.find(organization, name, None)
        )
        if found is None:
            raise UnknownWorkflow(
                f"There is no workflow {name[:80]!r}: register it with PUT /v1/workflows/{{name}}."
            )
        return found.version

    async def version(self, organization: OrganizationId, name: str, digest: str) -> WorkflowVersion | None:
        """A version that something is pinned to; cached, since versions never change."""
        key = (organization, name, digest)
        known = self._known.get(key)
        if known is None:
            known = await self._repository.find_version(*key)
            if known is None:
                return None
            self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return known


def program_of(version: WorkflowVersion) -> CheckedSource:
    """What a run of this version executes."""
    return CheckedSource(
        digest=version.script,
        source=version.source,
        toolset=None if version.toolset is None else ToolsetRef(*version.toolset),
        epoch=version.epoch,
        checker=version.checker,
        checked=version.checked,
    )


def version_view(version: WorkflowVersion) -> dict[str, Any]:
    return {
        "name": version.name,
        "digest": version.digest,
        "script": version.script,
        "toolset": None if version.toolset is None else "@".join(version.toolset),
        "description": version.description,
        "input_type": version.checked.input_type,
        "output_type": version.checked.output_type,
        "warnings": [shown(found) for found in version.checked.diagnostics],
        "created_at": iso(version.created_at),
    }


def workflow_view(found: Workflow) -> dict[str, Any]:
    return {**version_view(found.version), "id": found.id, "updated_at": iso(found.updated_at)}
