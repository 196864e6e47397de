"""Who calls, and what they may do. Decisions here are pure; `service.py` finds the principal of a secret."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Literal

from sandbox.journal.entries import Actor
from sandbox.journal.ids import Json, NamespaceId, OrganizationId, RunId
from tenancy.errors import InsufficientScope, NotFound


class Scope(StrEnum):
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    SIGNALS_WRITE = "signals:write"
    APPROVALS_WRITE = "approvals:write"
    TASKS_WORK = "tasks:work"
    SCRIPTS_CHECK = "scripts:check"
    MANAGE = "manage"


class Role(IntEnum):
    VIEWER = 0
    """Reads runs, journals, toolsets, events, usage."""
    DEVELOPER = 1
    """Runs, toolsets, workflows, approvals, secrets (written)."""
    ADMIN = 2
    """Members, keys, tokens, webhooks, quotas, release and abandon, audit log."""
    OWNER = 3
    """Billing, deletion, transfer."""

    @property
    def label(self) -> str:
        return self.name.lower()

    @classmethod
    def named(cls, label: str) -> "Role | None":
        return next((role for role in cls if role.label == label), None)


KEY_SCOPES = tuple(Scope)
TOKEN_SCOPES = tuple(scope for scope in Scope if scope is not Scope.MANAGE)
"""What a token may be given; `manage` concerns the organization and is for keys only."""
TOKEN_SCOPES_DEFAULT = (Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.SIGNALS_WRITE, Scope.SCRIPTS_CHECK)
"""Without approvals and tasks: an agent must not approve its own calls or answer them."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """What a token is limited to within its namespace; None: no limit of that kind."""

    toolset: str | None = None
    workflows: tuple[str, ...] | None = None
    run: RunId | None = None
    signals: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Json]:
        given: dict[str, Json] = {}
        if self.toolset is not None:
            given["toolset"] = self.toolset
        if self.workflows is not None:
            given["workflows"] = list(self.workflows)
        if self.run is not None:
            given["run"] = self.run
        if self.signals is not None:
            given["signals"] = list(self.signals)
        return given

    @classmethod
    def from_json(cls, value: dict[str, Json]) -> "Narrow":
        run = value.get("run")
        toolset = value.get("toolset")
        return cls(
            toolset=None if toolset is None else str(toolset),
            workflows=_texts(value.get("workflows")),
            run=None if run is None else RunId(str(run)),
            signals=_texts(value.get("signals")),
        )


UNUSED = NamespaceId("ffffffff-ffff-8fff-bfff-ffffffffffff")
"""Stands for a namespace that is not there: no row has this id."""


@dataclass(frozen=True, slots=True)
class NamespaceRef:
    """A namespace that the caller may use."""

    id: NamespaceId
    name: str
    suspended: bool = False

    @property
    def exists(self) -> bool:
        """False of a name that nobody has used yet: there is nothing in it."""
        return self.id != UNUSED


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. Keys and members have no namespace of their own: they name one with each call."""

    kind: Literal["key", "token", "member", "operator"]
    id: str
    organization: OrganizationId
    scopes: frozenset[str]
    namespace: NamespaceRef | None = None
    narrow: Narrow = field(default_factory=Narrow)
    role: Role | None = None
    """Of a member, or of an operator (who is a viewer); decides what `manage` decides for a key."""
    allow_ips: tuple[str, ...] = ()
    """Networks that a key may be used from; none: all."""

    @property
    def actor(self) -> Actor:
        return Actor(kind=self.kind, id=self.id)

    def require(self, scope: Scope) -> None:
        if scope in self.scopes:
            return
        whose = "API keys with the scope" if scope is Scope.MANAGE else "the scope"
        raise InsufficientScope(
            f"This call needs {whose} `{scope}`; this {self.kind} has: {' '.join(sorted(self.scopes)) or 'none'}."
        )

    def may_manage(self, at_least: Role) -> bool:
        """Whether a key has the scope `manage`, or a member this role."""
        return Scope.MANAGE in self.scopes if self.role is None else self.role >= at_least

    def require_role(self, at_least: Role) -> None:
        """What a member may do; for others scopes decide."""
        if self.role is not None and self.role < at_least:
            raise InsufficientScope(
                f"This needs the role {at_least.label} in the organization; yours is {self.role.label}."
            )

    def require_run(self, run: RunId) -> None:
        """A token for one run does not learn whether others exist."""
        if self.narrow.run is not None and self.narrow.run != run:
            raise NotFound(f"There is no run {run} in this namespace.")

    def require_start(self, *, toolset: str | None, workflow: str | None) -> None:
        """Refuse to start what lies outside the token's narrowing."""
        narrow = self.narrow
        if narrow.run is not None:
            raise InsufficientScope("This token is for one run and cannot start others.")
        if narrow.workflows is not None and workflow not in narrow.workflows:
            raise InsufficientScope(
                f"This token may only start the workflows: {', '.join(narrow.workflows)}."
            )
        if narrow.toolset is not None and workflow is None and toolset != narrow.toolset:
            raise InsufficientScope(f"This token may only use the toolset `{narrow.toolset}`.")

    def require_toolset_of(self, workflow: str, toolset: str | None) -> None:
        """Refuse to start a workflow with another toolset than the token's, unless the token names the workflow."""
        narrow = self.narrow
        if narrow.toolset is None or toolset == narrow.toolset or workflow in (narrow.workflows or ()):
            return
        raise InsufficientScope(
            f"This token may only use the toolset `{narrow.toolset}`, and the workflow `{workflow}` has "
            f"{'none' if toolset is None else f'`{toolset}`'}: name the workflow in the token's `narrow.workflows`."
        )

    def require_toolset(self, name: str) -> None:
        if self.narrow.toolset is not None and self.narrow.toolset != name:
            raise InsufficientScope(f"This token may only use the toolset `{self.narrow.toolset}`.")

    def require_workflow(self, name: str) -> None:
        if self.narrow.workflows is not None and name not in self.narrow.workflows:
            raise InsufficientScope(
                f"This token may only use the workflows: {', '.join(self.narrow.workflows) or 'none'}."
            )

    def require_signal(self, name: str) -> None:
        if self.narrow.signals is not None and name not in self.narrow.signals:
            raise InsufficientScope(
                f"This token may only send the signals: {', '.join(self.narrow.signals) or 'none'}."
            )


def _texts(value: Json) -> tuple[str, ...] | None:
    return tuple(str(item) for item in value) if isinstance(value, list) else None
