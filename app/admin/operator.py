"""What an operator does to organizations, namespaces and workers; each change with its line in the audit log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import asyncpg
import orjson

from app.admin import repository
from app.responses import iso
from billing.plans import PLANS
from sandbox.journal.entries import Actor
from sandbox.journal.errors import ApiError, FieldError, Unavailable
from sandbox.journal.ids import Json, NamespaceId, OrganizationId, TimeMs, WorkerId
from sandbox.store.postgres.connection import LOST, connect
from sandbox.store.postgres.owner import STALE_MS
from tenancy import tokens
from tenancy.audit import Act, audit
from tenancy.errors import NotFound
from tenancy.ids import new_id, parse_id
from tenancy.quotas.repository import set_plan
from tenancy.repository import now_ms

DEPLOYMENT = OrganizationId("00000000-0000-0000-0000-000000000000")
"""Whose audit log has what concerns no organization."""
REASON_MAX = 1_000
NAME_MAX = 100
MINUTES_DEFAULT, MINUTES_MAX = 15, 60
SAME_NAME_SHOWN = 10
UPGRADE = "`rewind db upgrade` brings it up to this build."


class NotNow(ApiError):
    """It is so already, or cannot be so now."""

    code = "conflict"
    status = 409


@dataclass(frozen=True, slots=True)
class Operator:
    connection: asyncpg.Connection
    actor: Actor

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str, name: str) -> AsyncIterator[Self]:
        """Errors: ApiError for a name that is none, NotNow for a database that is not upgraded; Unavailable."""
        if not 1 <= len(name) <= NAME_MAX or not name.isprintable():
            raise ApiError(f"--by takes the operator's name, of 1 to {NAME_MAX} printable characters.")
        try:
            connection = await connect(url, role="rewind_api", name="admin", planner=False)
        except asyncpg.InvalidParameterValueError as error:  # our roles are not there
            raise NotNow(f"This database has no Rewind in it ({error}): {UPGRADE}") from error
        except LOST as error:
            raise Unavailable(f"the database is not reachable: {error or type(error).__name__}") from error
        try:
            await repository.name_operator(connection, name)
            yield cls(connection, Actor("operator", name))
        except (
            asyncpg.UndefinedTableError,
            asyncpg.UndefinedColumnError,
            asyncpg.UndefinedFunctionError,
        ) as error:
            raise NotNow(f"This database is older than this build ({error}): {UPGRADE}") from error
        except LOST as error:
            raise Unavailable(f"the database is not reachable: {error or type(error).__name__}") from error
        finally:
            await connection.close()

    # -- Organizations

    async def organization(self, named: str) -> OrganizationId:
        """By its id, or by its name where only one has it. Errors: NotFound; ApiError listing those of that name."""
        if (id_ := parse_id(named)) is not None:
            return OrganizationId(id_)
        found = [] if "\0" in named else await repository.ids_of_name(self.connection, named, SAME_NAME_SHOWN)
        if not found:
            raise _no_organization(named)
        if len(found) > 1:
            raise ApiError(f"Several organizations have this name; use an id: {', '.join(found)}")
        return found[0]

    async def organizations(
        self, search: str | None, before: str | None, limit: int
    ) -> tuple[list[dict[str, Any]], str | None]:
        """(those whose names have this text, newest first; where the next ones begin)."""
        start = None
        if before is not None and (start := parse_id(before)) is None:
            raise ApiError("--after takes the id of an organization: the last one of the list before.")
        since = None if start is None else OrganizationId(start)
        rows = await repository.list_organizations(self.connection, search, since, limit + 1)
        page = [_organization(row) for row in rows[:limit]]
        return page, page[-1]["id"] if len(rows) > limit else None

    async def show(self, named: str) -> dict[str, Any]:
        row = await repository.show_organization(self.connection, await self.organization(named))
        if row is None:
            raise _no_organization(named)
        return {
            **_organization(row),
            "limits": orjson.loads(row["limits"]),
            "owners": list(row["owners"]),
            "keys": row["keys"],
            "webhooks": row["webhooks"],
            "webhooks_switched_off": row["webhooks_off"],
            "quarantined_runs": row["quarantined"],
            "this_month": {"runs": row["runs"], "cpu_ms": row["cpu_ms"]},
        }

    async def suspend(self, named: str, reason: str) -> dict[str, Any]:
        """Freeze it: its callers and members are refused and told why, its runs stay where they are."""
        checked_reason(reason)
        shown = await self.show(named)
        async with self.connection.transaction():
            done = await repository.suspend_organization(self.connection, OrganizationId(shown["id"]), reason)
        if not done:
            raise NotNow("This organization is suspended already: resume it first to change the reason.")
        return await self.show(shown["id"])

    async def resume(self, named: str) -> dict[str, Any]:
        """Let it go on where it was, but for what its own people had suspended."""
        shown = await self.show(named)
        async with self.connection.transaction():
            done = await repository.resume_organization(self.connection, OrganizationId(shown["id"]))
        if not done:
            raise NotNow("This organization is not suspended.")
        return await self.show(shown["id"])

    async def set_plan(self, named: str, plan: str) -> dict[str, Any]:
        if plan not in PLANS:
            raise ApiError(
                f"There is no plan {plan[:40]!r}; these are: {', '.join(PLANS)}.",
                errors=[FieldError("plan", "invalid_value", f"One of {', '.join(PLANS)}.")],
            )
        organization = await self.organization(named)
        if await set_plan(self.connection, organization, plan, dict(PLANS[plan])) is None:
            raise _no_organization(named)
        return await self.show(organization)

    # -- Namespaces

    async def namespaces(
        self, named: str, after: str | None, limit: int
    ) -> tuple[list[dict[str, Any]], str | None]:
        organization = OrganizationId((await self.show(named))["id"])
        rows = await repository.list_namespaces(self.connection, organization, after, limit + 1)
        page = [
            {
                "name": row["name"],
                "id": str(row["id"]),
                "status": "active" if row["suspended_at"] is None else "suspended",
                "suspended_at": iso(row["suspended_at"]),
                "with_organization": row["suspended_with_organization"],
                "created_at": iso(row["created_at"]),
            }
            for row in rows[:limit]
        ]
        return page, page[-1]["name"] if len(rows) > limit else None

    async def suspend_namespace(self, named: str, name: str, reason: str) -> dict[str, Any]:
        checked_reason(reason)
        organization, namespace = await self._namespace(named, name)
        async with self.connection.transaction():
            if not await repository.suspend_namespace(self.connection, namespace):
                raise NotNow(f"The namespace {name!r} is suspended already.")
            await self._note(
                organization,
                Act(
                    "namespace.suspend",
                    f"namespace:{name}",
                    {"status": "active"},
                    {"status": "suspended", "reason": reason},
                ),
            )
        return {"organization": organization, "namespace": name, "status": "suspended"}

    async def resume_namespace(self, named: str, name: str) -> dict[str, Any]:
        organization, namespace = await self._namespace(named, name)
        async with self.connection.transaction():
            if not await repository.resume_namespace(self.connection, namespace):
                raise NotNow(
                    f"The namespace {name!r} is not suspended, or only with its organization: resume that."
                )
            act = Act("namespace.resume", f"namespace:{name}", {"status": "suspended"}, {"status": "active"})
            await self._note(organization, act)
        return {"organization": organization, "namespace": name, "status": "active"}

    async def _namespace(self, named: str, name: str) -> tuple[OrganizationId, NamespaceId]:
        organization = OrganizationId((await self.show(named))["id"])
        found = None if "\0" in name else await repository.find_namespace(self.connection, organization, name)
        if found is None:
            raise NotFound(f"There is no namespace {name[:140]!r} in this organization.")
        return organization, found

    # -- Workers

    async def workers(self) -> list[dict[str, Any]]:
        """Registered ones, oldest first: what each serves, how much it has, and whether it still says so."""
        return [
            {
                "id": str(row["worker_id"]),
                "host": row["host"],
                "pid": row["pid"],
                "version": row["version"],
                "epochs": list(row["epochs"]),
                "since": iso(row["started_at"]),
                "silent_ms": row["silent_ms"],
                "status": _worker_status(row),
                "runs": row["runs"],
                "runs_behind": row["behind"],
                "questions": row["questions"],
            }
            for row in await repository.list_workers(self.connection)
        ]

    async def drain(self, worker: str) -> dict[str, Any]:
        """Ask it to finish what it is at, to release its runs, and to leave. Errors: NotFound."""
        known = {one["id"]: one for one in await self.workers()}
        if worker not in known:
            raise NotFound(f"There is no worker {worker[:40]!r}: `rewind admin workers list` names them.")
        async with self.connection.transaction():
            if not await repository.ask_to_drain(self.connection, WorkerId(int(worker))):
                raise NotFound("This worker has just left.")
            was = known[worker]
            act = Act(
                "worker.drain",
                f"worker:{worker}",
                {"status": was["status"], "runs": was["runs"]},
                {"status": "draining"},
            )
            await self._note(DEPLOYMENT, act)
        return {**was, "status": "draining"}

    # -- Looking into an organization

    async def impersonate(self, named: str, reason: str, minutes: int) -> dict[str, Any]:
        """A key that reads what a viewer sees, for some minutes. The customer sees who has it, why, until when,
        and everything that is asked with it; and may revoke it like any other key.
        """
        checked_reason(reason)
        if not 1 <= minutes <= MINUTES_MAX:
            raise ApiError(f"--minutes: From 1 to {MINUTES_MAX}.")
        shown = await self.show(named)
        organization = OrganizationId(shown["id"])
        if shown["status"] == "closed":
            raise NotNow("This organization is closed: nobody gets in.")
        secret = tokens.mint("key")
        async with self.connection.transaction():
            now = await now_ms(self.connection)
            until = TimeMs(now + minutes * 60_000)
            id_ = new_id(now)
            await repository.insert_operators_key(
                self.connection,
                organization,
                id_=id_,
                name=f"operator {self.actor.id}: {reason}"[:200],
                operator=self.actor.id,
                prefix=secret[: tokens.SHOWN],
                sha256=tokens.digest(secret),
                at=now,
                expires_at=until,
            )
            after: dict[str, Json] = {
                "reason": reason,
                "until": iso(until),
                "key": id_,
                "may": "read what a viewer sees",
            }
            await self._note(
                organization, Act("operator.impersonate", f"organization:{organization}", None, after)
            )
        return {"organization": organization, "key": secret, "id": id_, "until": iso(until)}

    async def note(self, act: Act) -> None:
        """What concerns no organization."""
        await self._note(DEPLOYMENT, act)

    async def audited(self, named: str | None, limit: int) -> list[dict[str, Any]]:
        organization = None if named is None else await self.organization(named)
        rows = await repository.list_audit(self.connection, organization, limit)
        return [
            {
                "at": iso(row["at"]),
                "organization": None
                if str(row["organization_id"]) == DEPLOYMENT
                else str(row["organization_id"]),
                "actor": {"kind": row["actor_kind"], "id": row["actor_id"]},
                "action": row["action"],
                "target": row["target"],
                "before": None if row["before"] is None else orjson.loads(row["before"]),
                "after": None if row["after"] is None else orjson.loads(row["after"]),
            }
            for row in rows
        ]

    async def _note(self, organization: OrganizationId, act: Act) -> None:
        await audit(self.connection, organization, self.actor, act)


def checked_reason(reason: str) -> str:
    """What stands in the customer's audit log. ApiError when it says nothing."""
    if not 1 <= len(reason.strip()) <= REASON_MAX or "\0" in reason:
        raise ApiError(f"--reason: 1 to {REASON_MAX:,} characters that the customer will read.")
    return reason


def _organization(row: Any) -> dict[str, Any]:
    closed, suspended = row["deleted_at"] is not None, row["suspended_at"] is not None
    return {
        "id": str(row["id"]),
        "name": row["name"],
        "plan": row["plan"],
        "status": "closed" if closed else "suspended" if suspended else "active",
        "suspended_at": iso(row["suspended_at"]),
        "suspended_reason": row["suspended_reason"],
        "closed_at": iso(row["deleted_at"]),
        "erased_at": iso(row["purged_at"]),
        "created_at": iso(row["created_at"]),
        "members": row["members"],
        "namespaces": row["namespaces"],
        "active_runs": row["active_runs"],
    }


def _worker_status(row: Any) -> str:
    if row["silent_ms"] > STALE_MS:
        return "silent"
    return "working" if row["drain_asked_at"] is None else "draining"


def _no_organization(named: str) -> NotFound:
    return NotFound(f"There is no organization {named[:80]!r}: `rewind admin organizations list` names them.")
