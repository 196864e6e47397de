"""The end of an organization: closed at once, restorable by an owner for 30 days, then gone.

What is purged is erased by destroying the data keys of its namespaces: journals, values and what else was sealed
can be read by nobody any more, backups included once theirs of the keys are gone.
"""

import datetime as dt
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg

from sandbox.journal.entries import Actor
from sandbox.journal.errors import ApiError, FieldError
from sandbox.journal.ids import Json, NamespaceId, OrganizationId
from sandbox.store.postgres.connection import acquired
from tenancy.audit import Act, audit
from tenancy.closing import repository
from tenancy.errors import NotFound
from tenancy.ids import parse_id
from tenancy.people import mail
from tenancy.people.members import Membership, require_role
from tenancy.people.service import Client, People, Session, send
from tenancy.principals import Role

GRACE_DAYS = 30
GRACE_MS = GRACE_DAYS * 86_400_000
PURGED_AT_ONCE = 20
JSON_COLUMNS = frozenset({"labels", "narrow", "disabled", "definition", "before", "after"})

Erase = Callable[[NamespaceId], Awaitable[int]]


class Closing:
    def __init__(self, pool: asyncpg.Pool, people: People, *, public_url: str) -> None:
        self._pool = pool
        self._people = people
        self._url = public_url.rstrip("/")

    async def close(
        self, client: Client, session: Session, own: Membership, *, named: str, password: str
    ) -> None:
        """Nobody gets in any more from now on. Errors: InsufficientScope, Unauthenticated, ApiError."""
        require_role(own.role, Role.OWNER)
        if named.strip() != own.organization_name:
            message = f"Type the name as it is: {own.organization_name}"
            raise ApiError(message, errors=[FieldError("named", "invalid_value", message)])
        await self._people.prove_again(client, session, password)
        async with acquired(self._pool) as connection, connection.transaction():
            if not await repository.close(connection, own.organization):
                raise NotFound("This organization is closed already.")
            actor = Actor("member", session.person)
            act = Act("organization.close", f"organization:{own.organization}")
            await audit(connection, own.organization, actor, act, ip=client.ip)
            text = mail.closed(f"{self._url}/organizations", own.organization_name, session.email, GRACE_DAYS)
            for owner in await repository.owners(connection, own.organization):
                await send(connection, owner, text)

    async def restore(self, client: Client, session: Session, organization: str) -> None:
        """As it was, keys and members included. Errors: NotFound."""
        parsed = parse_id(organization)
        async with acquired(self._pool) as connection, connection.transaction():
            id_ = OrganizationId(parsed or repository.FIRST_ID)
            if not await repository.restore(connection, id_, session.person):
                raise NotFound("There is no closed organization of yours that can be restored.")
            act = Act("organization.restore", f"organization:{id_}")
            await audit(connection, id_, Actor("member", session.person), act, ip=client.ip)

    async def note_export(self, client: Client, session: Session, own: Membership) -> None:
        async with acquired(self._pool) as connection:
            act = Act("organization.export", f"organization:{own.organization}")
            await audit(connection, own.organization, Actor("member", session.person), act, ip=client.ip)

    async def export(self, own: Membership) -> AsyncIterator[bytes]:
        """Lines of JSON (NDJSON): the organization, then all that it has, secrets excepted; `end` says that it is whole."""
        require_role(own.role, Role.ADMIN)

        async def page(sql: str, *values: object) -> list[Any]:
            async with acquired(self._pool) as connection:
                rows: list[Any] = await connection.fetch(sql, *values)
            return rows

        lines = 1
        yield _line("organization", {"id": own.organization, "name": own.organization_name})
        async for kind, row in repository.exported(page, own.organization):
            fields = {name: _value(name, value) for name, value in row.items() if name != "key"}
            if kind == "namespace":
                fields["export"] = f"{self._url}/v1/namespaces/{row['name']}/export"
            lines += 1
            yield _line(kind, {"id": str(row["key"]), **fields})
        yield _line("end", {"lines": lines})

    async def purge_due(self, erase: Erase) -> int:
        """Purge what has been closed for long enough; how many organizations that were.

        Begun anew after a death: every part of it may be done twice. What has been begun is not restored any more.
        """
        async with acquired(self._pool) as connection:
            due = await repository.due(connection, GRACE_MS, PURGED_AT_ONCE)
        done = 0
        for organization in due:
            async with acquired(self._pool) as connection:
                if not await repository.begin_purge(connection, organization, GRACE_MS):
                    continue
            while True:
                async with acquired(self._pool) as connection:
                    namespaces = await repository.readable_namespaces(connection, organization)
                if not namespaces:
                    break
                for namespace in namespaces:
                    await erase(namespace)
            async with acquired(self._pool) as connection, connection.transaction():
                if await repository.purge(connection, organization):
                    act = Act("organization.purge", f"organization:{organization}")
                    await audit(connection, organization, Actor("system", "closing"), act)
                    done += 1
        return done


def _line(kind: str, fields: dict[str, Json]) -> bytes:
    return json.dumps({"type": kind, **fields}, ensure_ascii=False).encode() + b"\n"


def _value(name: str, value: Any) -> Json:
    if name in JSON_COLUMNS and isinstance(value, str):
        found: Json = json.loads(value)
        return found
    if isinstance(value, int) and (name == "at" or name.endswith("_at")):
        at = dt.datetime.fromtimestamp(value / 1000, dt.UTC)
        return f"{at:%Y-%m-%dT%H:%M:%S}.{value % 1000:03d}Z"
    return value if value is None or isinstance(value, bool | int | str | list) else str(value)
