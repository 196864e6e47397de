"""Single sign-on of an organization: its providers, the domains that it has proven, and who must use them.

Where a domain requires it, members with such an address come in by a provider of the organization and by nothing
else. Owners have a way in beside it, for the day that the provider is broken: a second factor.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from sandbox.journal.entries import Actor
from sandbox.journal.errors import ApiError, FieldError
from sandbox.journal.ids import Json
from sandbox.store.postgres.connection import acquired
from tenancy.audit import Act, audit
from tenancy.errors import InsufficientScope, NotFound
from tenancy.identity import repository
from tenancy.identity.domains import TxtResolver, checked_domain, record_name, record_value
from tenancy.identity.providers import domain_of, place_of
from tenancy.identity.repository import ConnectionRow
from tenancy.ids import new_id, parse_id
from tenancy.people import repository as people
from tenancy.people.members import Membership, require_role
from tenancy.people.oidc import OidcClient, checked_issuer
from tenancy.people.roles import STRONG_METHODS
from tenancy.people.service import Session
from tenancy.principals import Role
from tenancy.repository import now_ms
from tenancy.secrets import SecretBox

CONNECTIONS_MAX = 10
DOMAINS_MAX = 50
FIELD_CHARS_MAX = 500
NAME_CHARS_MAX = 100
TOKEN_BYTES = 16


@dataclass(frozen=True, slots=True)
class NewConnection:
    name: str
    issuer: str
    client_id: str
    client_secret: str
    join_role: str
    """Empty: nobody joins who was not invited."""


class Sso:
    def __init__(
        self,
        pool: asyncpg.Pool,
        client: OidcClient,
        box: SecretBox,
        resolver: TxtResolver,
        *,
        insecure: Callable[[str], bool],
    ) -> None:
        """`insecure`: hosts of providers that may be reached over http."""
        self._pool = pool
        self._client = client
        self._box = box
        self._resolver = resolver
        self._insecure = insecure

    async def require(self, person: str, *, method: str, sso: str | None) -> None:
        """Refuse a sign-in of somebody whose organization wants another one. Errors: InsufficientScope."""
        if sso is not None:
            return
        async with acquired(self._pool) as connection:
            found = await people.get_person(connection, person)
            email = "" if found is None else found.email
            wanting = await repository.requiring_sso(connection, person, domain_of(email))
        if method in STRONG_METHODS:
            wanting = [row for row in wanting if row["role"] != Role.OWNER.label]
        if wanting:
            raise InsufficientScope(
                f"{wanting[0]['name']} wants its members to sign in with their organization (SSO): choose that "
                "on the sign-in page. If its provider is broken, owners sign in with a passkey or with an "
                "authenticator app."
            )

    # -- Providers

    async def connections(self, own: Membership) -> list[ConnectionRow]:
        async with acquired(self._pool) as connection:
            return await repository.list_connections(connection, own.organization)

    async def add_connection(self, session: Session, own: Membership, wanted: NewConnection) -> None:
        """Errors: ApiError naming the field, SignInFailed, Unavailable."""
        require_role(own.role, Role.ADMIN)
        name = wanted.name.strip()
        if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
            raise _wrong("name", f"A provider's name has 1 to {NAME_CHARS_MAX} printable characters.")
        if not 1 <= len(wanted.client_id.strip()) <= FIELD_CHARS_MAX:
            raise _wrong("client_id", f"A client id has 1 to {FIELD_CHARS_MAX} characters.")
        if len(wanted.client_secret) > FIELD_CHARS_MAX:
            raise _wrong("client_secret", f"A client secret has at most {FIELD_CHARS_MAX} characters.")
        if wanted.join_role not in {"", "viewer", "developer"}:
            raise _wrong(
                "join_role", "People who were not invited join as viewer or developer, or not at all."
            )
        issuer = checked_issuer(wanted.issuer, insecure=self._insecure)
        await self._client.check(issuer)
        async with acquired(self._pool) as connection, connection.transaction():
            await people.lock_members(connection, own.organization)
            await self._require_owner_of_policy(connection, own)
            if len(await repository.list_connections(connection, own.organization)) >= CONNECTIONS_MAX:
                raise ApiError(f"An organization has at most {CONNECTIONS_MAX} providers: remove one.")
            id_ = new_id(await now_ms(connection))
            sealed = None
            if wanted.client_secret:
                sealed = self._box.seal(wanted.client_secret.encode(), place_of(id_))
            row = ConnectionRow(
                id_,
                own.organization,
                own.organization_name,
                name,
                issuer,
                wanted.client_id.strip(),
                sealed,
                wanted.join_role or None,
            )
            await repository.insert_connection(connection, row)
            after: dict[str, Json] = {"issuer": issuer, "join_role": row.join_role}
            await _audit(connection, session, own, Act("sso.connect", f"sso:{id_}", after=after))

    async def remove_connection(self, session: Session, own: Membership, id_: str) -> None:
        """Errors: NotFound; ApiError for the last one while a domain requires SSO."""
        require_role(own.role, Role.ADMIN)
        parsed = parse_id(id_)
        async with acquired(self._pool) as connection, connection.transaction():
            await people.lock_members(connection, own.organization)
            rows = await repository.list_connections(connection, own.organization)
            if await self._require_owner_of_policy(connection, own) and len(rows) == 1:
                raise ApiError(
                    "Sign-in by SSO is required: no longer require it, then remove the last provider."
                )
            if parsed is None or not await repository.delete_connection(connection, own.organization, parsed):
                raise NotFound("There is no such provider.")
            await _audit(connection, session, own, Act("sso.disconnect", f"sso:{parsed}"))

    # -- Domains

    async def domains(self, own: Membership) -> list[dict[str, Any]]:
        async with acquired(self._pool) as connection:
            rows = await self._domains(connection, own)
        return [
            {
                **row,
                "record_name": record_name(row["domain"]),
                "record_value": record_value(row["token"]),
            }
            for row in rows
        ]

    async def add_domain(self, session: Session, own: Membership, text: str) -> None:
        require_role(own.role, Role.ADMIN)
        domain = checked_domain(text)
        async with acquired(self._pool) as connection, connection.transaction():
            await people.lock_members(connection, own.organization)
            if len(await self._domains(connection, own)) >= DOMAINS_MAX:
                raise ApiError(f"An organization has at most {DOMAINS_MAX} domains: remove one.")
            await repository.insert_domain(
                connection, own.organization, domain, secrets.token_hex(TOKEN_BYTES)
            )
            await _audit(connection, session, own, Act("domain.add", f"domain:{domain}"))

    async def prove_domain(self, session: Session, own: Membership, domain: str) -> None:
        """Look for the record now. Errors: NotFound, Unavailable, ApiError that says what was found."""
        require_role(own.role, Role.ADMIN)
        row = await self._domain(own, domain)
        name, wanted = record_name(domain), record_value(row["token"])
        found = await self._resolver.txt(name)
        if wanted not in found:
            shown = ", ".join(repr(text[:80]) for text in found[:5]) or "none"
            raise ApiError(
                f"{name} has no such TXT record yet; found: {shown}. New records take up to an hour to be seen."
            )
        async with acquired(self._pool) as connection, connection.transaction():
            await repository.prove_domain(connection, own.organization, domain)
            await _audit(connection, session, own, Act("domain.prove", f"domain:{domain}"))

    async def remove_domain(self, session: Session, own: Membership, domain: str) -> None:
        require_role(own.role, Role.ADMIN)
        async with acquired(self._pool) as connection, connection.transaction():
            await people.lock_members(connection, own.organization)
            await self._require_owner_of_policy(connection, own)
            if not await repository.delete_domain(connection, own.organization, domain):
                raise NotFound("There is no such domain here.")
            await _audit(connection, session, own, Act("domain.remove", f"domain:{domain}"))

    async def require_for(self, session: Session, own: Membership, domain: str, *, on: bool) -> None:
        """Whether members with such an address must use SSO. Nobody locks themselves out with it.

        Errors: NotFound, InsufficientScope, ApiError that says what is missing.
        """
        require_role(own.role, Role.OWNER)
        row = await self._domain(own, domain)
        if on and row["proven_at"] is None:
            raise ApiError(f"First prove that {domain} is yours.")
        async with acquired(self._pool) as connection, connection.transaction():
            await people.lock_members(connection, own.organization)
            if on and not await repository.list_connections(connection, own.organization):
                raise ApiError("First add the provider that people are to sign in with.")
            if on and session.method not in STRONG_METHODS | {"oidc"}:
                raise ApiError(
                    "First sign in with the provider yourself, or with a passkey or an authenticator app: "
                    "otherwise you may lock yourself out."
                )
            await repository.require_domain(connection, own.organization, domain, on=on)
            act = Act("sso.require" if on else "sso.allow_passwords", f"domain:{domain}")
            await _audit(connection, session, own, act)

    async def _require_owner_of_policy(self, connection: Any, own: Membership) -> bool:
        """Whether SSO is required: then owners alone say who proves members to be who they are, and for which domains.

        An admin who replaced the provider, or took the domain away, would have undone what owners have decided.
        """
        required = any(row["sso_required_at"] for row in await self._domains(connection, own))
        if required and own.role < Role.OWNER:
            raise InsufficientScope(
                "Sign-in by SSO is required here: only owners change its providers and domains."
            )
        return required

    async def _domain(self, own: Membership, domain: str) -> Any:
        async with acquired(self._pool) as connection:
            for row in await self._domains(connection, own):
                if row["domain"] == domain:
                    return row
        raise NotFound("There is no such domain here.")

    async def _domains(self, connection: Any, own: Membership) -> list[Any]:
        return [dict(row) for row in await repository.list_domains(connection, own.organization)]


async def _audit(connection: Any, session: Session, own: Membership, act: Act) -> None:
    await audit(connection, own.organization, Actor("member", session.person), act)


def _wrong(path: str, message: str) -> ApiError:
    return ApiError(message, errors=[FieldError(path, "invalid_value", message)])
