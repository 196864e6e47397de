"""Approvals as people see them, and their decisions: each call is decided once, by whoever comes first."""

import asyncio
from collections.abc import Sequence
from typing import Any

from app.approvals.repository import PENDING, WITHDRAWN, Approval, ApprovalRepository, Filter
from app.approvals.schemas import DecisionBody
from app.approvals.views import approval_view, story_of
from app.errors import ApprovalSettled, RunEnded
from app.runs.repository import RunRepository
from app.runs.service import checked_run
from app.values import Values
from sandbox.journal.codec import value_in
from sandbox.journal.entries import ApprovalDecided
from sandbox.journal.ids import Digest, NamespaceId, OrganizationId, RunId
from sandbox.store.approvals import Decision
from sandbox.store.interface import EventOutcome, StoredEntry
from sandbox.store.postgres.edge import PostgresEdge
from tenancy.errors import NamespaceSuspended, NotFound
from tenancy.principals import Principal
from tenancy.service import Tenancy

STORY_CALLS = 20
TEXTS_AT_ONCE = 8
Entries = dict[tuple[RunId, int], StoredEntry]


class Approvals:
    def __init__(
        self,
        *,
        store: PostgresEdge,
        journals: RunRepository,
        values: Values,
        tenancy: Tenancy,
    ) -> None:
        self._store = store
        self._repository = ApprovalRepository(store.pool, store.keys)
        self._journals = journals
        self._values = values
        self._tenancy = tenancy

    # -- Reading

    async def page(
        self, organization: OrganizationId, wanted: Filter, limit: int, *, story: bool
    ) -> tuple[list[dict[str, Any]], Approval | None]:
        """Approvals, newest first, and the last one if there are more."""
        found = await self._repository.find(organization, wanted, limit=limit + 1)
        page = found[:limit]
        return await self.views(page, story=story), page[-1] if len(found) > limit else None

    async def find(self, principal: Principal, run: str, call: int, named: str | None) -> Approval:
        """The approval of a request. A key need not name the namespace: the run's id says it.

        Errors: NotFound, InsufficientScope (a token for another toolset).
        """
        target = checked_run(principal, run)
        namespace = None
        if named is not None or principal.namespace is not None:
            namespace = (await self._tenancy.namespace(principal, named)).id
        wanted = Filter(namespace=namespace, run=target, call=call)
        found = await self._repository.find(principal.organization, wanted, limit=1)
        if not found:
            raise NotFound(f"The run {target} has no call {call} that waits, or waited, for an approval.")
        if principal.narrow.toolset is not None:
            principal.require_toolset(found[0].toolset or "")
        return found[0]

    async def requested(self, namespace: NamespaceId, run: RunId, call: int) -> dict[str, Any]:
        """What a message tells of. NotFound when it is gone."""
        organization = await self._tenancy.repository.organization_of(namespace)
        if organization is not None:
            found = await self._repository.find(organization, Filter(namespace, run, call), limit=1)
            if found:
                return await self.view(found[0])
        raise NotFound(f"There is no approval of call {call} of run {run}.")

    async def view(self, approval: Approval) -> dict[str, Any]:
        views = await self.views([approval], story=True)
        if not views:
            raise NotFound("The journal of this run is not there any more.")
        return views[0]

    async def views(self, approvals: Sequence[Approval], *, story: bool) -> list[dict[str, Any]]:
        """The objects; those whose journal is gone are left out."""
        entries: dict[NamespaceId, Entries] = {}
        for namespace in dict.fromkeys(approval.namespace for approval in approvals):
            own = [approval for approval in approvals if approval.namespace == namespace]
            places = [(approval.run, int(approval.seq)) for approval in own]
            places += [(approval.run, approval.decided_seq) for approval in own if approval.decided_seq]
            entries[namespace] = await self._journals.entries_at(namespace, places)
        scripts = dict.fromkeys((approval.namespace, approval.script) for approval in approvals)
        sources: dict[tuple[NamespaceId, Digest], str | None] = {
            key: await self._store.get_script(*key) for key in scripts
        }
        at_once = asyncio.Semaphore(TEXTS_AT_ONCE)

        async def view(approval: Approval, scheduled: StoredEntry) -> dict[str, Any]:
            own = entries[approval.namespace]
            async with at_once:
                args = value_in(scheduled.body)
                text = None
                if args is not None and args.text is None and not args.redacted:
                    text = await self._values.text(approval.namespace, args)
                earlier = await self._earlier(approval) if story else None
            return approval_view(
                approval,
                scheduled=scheduled,
                decided=None
                if approval.decided_seq is None
                else own.get((approval.run, approval.decided_seq)),
                source=sources[approval.namespace, approval.script],
                args_text=text,
                story=None if earlier is None else story_of(earlier),
            )

        there = [(a, entries[a.namespace].get((a.run, a.seq))) for a in approvals]
        return await asyncio.gather(*(view(a, entry) for a, entry in there if entry is not None))

    async def _earlier(self, approval: Approval) -> list[tuple[int, StoredEntry, StoredEntry | None]]:
        return await self._repository.earlier_calls(approval.namespace, approval, STORY_CALLS)

    # -- Deciding

    async def decide(
        self, principal: Principal, run: str, call: int, body: DecisionBody, named: str | None
    ) -> dict[str, Any]:
        """Record the decision: approved, the call is offered; denied, it is completed.

        Errors: NotFound, InsufficientScope, NamespaceSuspended, ApprovalSettled, RunEnded, Unavailable.
        """
        approval = await self.find(principal, run, call, named)
        within = await self._tenancy.namespace(principal, approval.namespace_name)
        if within.suspended:
            raise NamespaceSuspended(f"The namespace {within.name!r} is suspended.")
        _require_open(approval)
        decided = ApprovalDecided(call, body.decision, body.by, principal.actor, body.reason)
        verdict = await self._store.decide_approval(
            Decision(approval.namespace, approval.run, approval.tool, decided)
        )
        approval = await self.find(principal, run, call, named)
        if verdict.outcome is not EventOutcome.APPENDED:
            _require_open(approval)
            raise ApprovalSettled("The run is being cancelled: its calls are withdrawn, not approved.")
        return await self.view(approval)


def _require_open(approval: Approval) -> None:
    if approval.status == PENDING:
        return
    if approval.status != WITHDRAWN:
        word = {1: "approved", 2: "denied"}.get(approval.status, "expired")
        raise ApprovalSettled(f"This was decided before: the call is {word}. A call is decided once.")
    if approval.ended:
        raise RunEnded("The run has ended: its call was withdrawn before anybody decided.")
    raise ApprovalSettled("The call waits no more: it was withdrawn before anybody decided.")
