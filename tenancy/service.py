"""Who a secret belongs to, and the life of organizations, namespaces and tokens."""

import asyncio
import hmac
import ipaddress
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from sandbox.journal.errors import ApiError, FieldError
from sandbox.journal.ids import NamespaceId, OrganizationId, TimeMs
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.reach import as_system, narrow_to
from tenancy import tokens
from tenancy.errors import (
    IdempotencyConflict,
    InsufficientScope,
    NamespaceSuspended,
    NotFound,
    Unauthenticated,
    refuse_suspended,
)
from tenancy.ids import new_id, parse_id
from tenancy.keys.repository import insert_key
from tenancy.models import Namespace, Organization, Token
from tenancy.principals import KEY_SCOPES, UNUSED, NamespaceRef, Narrow, Principal, Role
from tenancy.repository import (
    TenancyRepository,
    insert_organization,
    insert_token,
    now_ms,
    reserve_idempotency_key,
)

CACHE_S = 1.0
"""How long a verified secret or a namespace is believed: what a revocation takes at most to be in force."""
CACHE_MAX = 10_000
LAST_USED_EVERY_MS = 60_000
REFUSED_EVERY_S = 60.0
"""A key that is used from a forbidden address stands in the audit log so often at most."""
NAMESPACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@|+-]{0,127}")


async def create_organization(connection: Any, name: str) -> tuple[Organization, str]:
    """Create an organization and its first API key; the key is returned here and never again."""
    if not 1 <= len(name) <= 200 or "\0" in name:
        raise ApiError("An organization's name has 1 to 200 characters.")
    now = await now_ms(connection)
    organization = Organization(id=UUID(new_id(now)), name=name, created_at=now)
    secret = tokens.mint("key")
    async with connection.transaction():
        await insert_organization(connection, organization)
        await insert_key(
            connection,
            OrganizationId(str(organization.id)),
            id_=new_id(now),
            name="first key",
            prefix=secret[: tokens.SHOWN],
            sha256=tokens.digest(secret),
            scopes=KEY_SCOPES,
            allow_ips=(),
            expires_at=None,
            at=now,
        )
    return organization, secret


class Authenticator:
    """Finds the principal of a secret, and believes the answer for CACHE_S."""

    def __init__(self, repository: TenancyRepository) -> None:
        self._repository = repository
        self._cache: dict[bytes, tuple[float, Principal]] = {}
        self._refused: dict[tuple[str, str], float] = {}
        """By key and address: until when it need not be told again."""
        self._lookups: dict[bytes, asyncio.Task[tuple[float, Principal]]] = {}

    async def authenticate(self, authorization: str | None, ip: str = "") -> Principal:
        """Return who sent this `Authorization` header from this address.

        Errors: Unauthenticated, OrganizationSuspended.
        """
        if not authorization:
            raise Unauthenticated("Send `Authorization: Bearer` with an API key (rwk_…) or a token (rwt_…).")
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthenticated("The Authorization header must be `Bearer`, a space and the secret.")
        sha256 = tokens.digest(secret)
        known = self._cache.get(sha256)
        if known is not None and known[0] > time.monotonic():
            return await self._from_there(known[1], ip)
        kind = tokens.kind_of(secret)
        if kind is None:
            raise Unauthenticated("This is no API key and no token: it is incomplete or mistyped.")
        lookup = self._lookups.get(sha256)
        if lookup is None:
            lookup = asyncio.create_task(self._find(kind, sha256))
            self._lookups[sha256] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(sha256, None))
        until, principal = await asyncio.shield(lookup)
        if len(self._cache) >= CACHE_MAX:
            self._cache.clear()
        self._cache[sha256] = (until, principal)
        return await self._from_there(principal, ip)

    def forget(self) -> None:
        """Ask the database again from now on: something was revoked here."""
        self._cache.clear()

    async def _from_there(self, principal: Principal, ip: str) -> Principal:
        """The principal, if it may call from this address; else its organization's audit log says who tried."""
        if _allowed(principal, ip):
            return principal
        tried, now = (principal.id, ip), time.monotonic()
        if self._refused.get(tried, now) <= now:
            if len(self._refused) >= CACHE_MAX:
                self._refused.clear()
            self._refused[tried] = now + REFUSED_EVERY_S
            with as_system(principal.actor, ip):
                await self._repository.note_refused(principal)
        raise InsufficientScope(f"This key may not be used from {ip or 'there'}: see its allow_ips.")

    async def _find(self, kind: tokens.Kind, sha256: bytes) -> tuple[float, Principal]:
        asked = time.monotonic()
        # Nobody is known yet; and this look-up is shared by all who ask for the same secret at once.
        with as_system():
            return await self._found(kind, sha256, asked)

    async def _found(self, kind: tokens.Kind, sha256: bytes, asked: float) -> tuple[float, Principal]:
        find = self._repository.find_key if kind == "key" else self._repository.find_token
        row = await find(sha256)
        if row is None or not hmac.compare_digest(row["found_sha256"], sha256):
            raise Unauthenticated(f"This {kind} is not known here.")
        if row["revoked_at"] is not None:
            raise Unauthenticated(f"This {kind} was revoked.")
        left_ms = None if row["expires_at"] is None else row["expires_at"] - row["now"]
        if left_ms is not None and left_ms <= 0:
            raise Unauthenticated(f"This {kind} has expired.")
        refuse_suspended(row)
        if row["last_used_at"] is None or row["now"] - row["last_used_at"] >= LAST_USED_EVERY_MS:
            await self._repository.mark_used(kind, str(row["id"]), TimeMs(row["now"]))
        believed_s = CACHE_S if left_ms is None else min(CACHE_S, left_ms / 1000)
        return asked + believed_s, _principal(kind, row)


@dataclass(frozen=True, slots=True)
class NewToken:
    """What a caller asked for; `ttl_ms` None: never expires."""

    namespace: str | None
    scopes: tuple[str, ...]
    ttl_ms: int | None
    name: str
    narrow: Narrow


class Tenancy:
    """Namespaces and tokens of organizations."""

    def __init__(self, repository: TenancyRepository, authenticator: Authenticator) -> None:
        self.repository = repository
        self._authenticator = authenticator
        self._namespaces: dict[tuple[OrganizationId, str], tuple[float, NamespaceRef]] = {}
        self._owners: dict[NamespaceId, OrganizationId] = {}

    async def namespace(
        self, principal: Principal, named: str | None, *, write: bool = False
    ) -> NamespaceRef:
        """Return the namespace that a call concerns; a key's write creates it at its first use, before which it is empty.

        Errors: NotFound for a token that names another namespace than its own; NamespaceSuspended for writes;
        ApiError when a key names none.
        """
        if principal.namespace is not None:
            if named is not None and named != principal.namespace.name:
                raise NotFound(f"There is no namespace {named!r}.")
            found = principal.namespace
        else:
            found = await self._named(principal.organization, checked_name(named), create=write)
            narrow_to(found.id)
        if write and found.suspended:
            raise NamespaceSuspended(f"The namespace {found.name!r} is suspended.")
        return found

    def forget(self) -> None:
        """Ask the database again from now on: a namespace was suspended, resumed or deleted here."""
        self._namespaces.clear()
        self._authenticator.forget()

    async def owns(self, principal: Principal, namespace: NamespaceId) -> bool:
        """Whether the caller may act in this namespace at all."""
        if principal.namespace is not None:
            return principal.namespace.id == namespace
        owner = self._owners.get(namespace)
        if owner is None:
            owner = await self.repository.organization_of(namespace)
            if owner is None:
                return False
            if len(self._owners) >= CACHE_MAX:
                self._owners.clear()
            self._owners[namespace] = owner
        return owner == principal.organization

    async def put_namespace(
        self, principal: Principal, name: str, labels: dict[str, str] | None
    ) -> Namespace:
        checked_name(name)
        await self.repository.ensure_namespace(principal.organization, name)
        if labels is not None:
            await self.repository.label_namespace(principal.organization, name, labels)
        return await self.get_namespace(principal, name)

    async def get_namespace(self, principal: Principal, name: str) -> Namespace:
        found = None
        if NAMESPACE_NAME.fullmatch(name) is not None:
            found = await self.repository.get_namespace(principal.organization, name)
        if found is None or (principal.namespace is not None and principal.namespace.name != name):
            raise NotFound(f"There is no namespace {name!r}.")
        return found

    async def create_token(
        self, principal: Principal, wanted: NewToken, *, key: str | None, request_sha256: bytes
    ) -> tuple[Token, str, str | None]:
        """Create a token and return it with its namespace's name and its secret; None when replayed."""
        namespace = await self.namespace(principal, wanted.namespace, write=True)
        secret = tokens.mint("token")
        async with acquired(self.repository.pool) as connection, connection.transaction():
            now = await now_ms(connection)
            token = Token(
                id=UUID(new_id(now)),
                organization_id=UUID(principal.organization),
                namespace_id=UUID(namespace.id),
                name=wanted.name,
                prefix=secret[: tokens.SHOWN],
                secret_sha256=tokens.digest(secret),
                scopes=list(wanted.scopes),
                narrow=wanted.narrow.to_json(),
                expires_at=None if wanted.ttl_ms is None else now + wanted.ttl_ms,
                created_at=now,
            )
            before = None
            if key is not None:
                before = await reserve_idempotency_key(
                    connection,
                    organization=principal.organization,
                    namespace=namespace.id,
                    route="POST /v1/tokens",
                    key=key,
                    request_sha256=request_sha256,
                    object_id=str(token.id),
                    at=now,
                )
            if before is None:
                await insert_token(connection, token)
        if before is None:
            return token, namespace.name, secret
        if before["request_sha256"] != request_sha256:
            raise IdempotencyConflict("This Idempotency-Key was used for another token.")
        known, name = await self.get_token(principal, before["object_id"])
        return known, name, None

    async def get_token(self, principal: Principal, token: str) -> tuple[Token, str]:
        id_ = parse_id(token)
        found = None if id_ is None else await self.repository.get_token(principal.organization, id_)
        if found is None:
            raise NotFound("There is no such token.")
        return found

    async def list_tokens(
        self, principal: Principal, *, namespace: str | None, before: str | None, limit: int
    ) -> Sequence[tuple[Token, str]]:
        within = None
        if namespace is not None:
            within = (await self.namespace(principal, namespace)).id
        return await self.repository.list_tokens(
            principal.organization, namespace=within, before=before, limit=limit
        )

    async def revoke_token(self, principal: Principal, token: str) -> None:
        id_ = parse_id(token)
        if id_ is None or not await self.repository.revoke_token(principal.organization, id_):
            raise NotFound("There is no such token.")
        self._authenticator.forget()

    async def _named(self, organization: OrganizationId, name: str, *, create: bool) -> NamespaceRef:
        known = self._namespaces.get((organization, name))
        if known is not None and known[0] > time.monotonic():
            return known[1]
        if create:
            found: NamespaceRef | None = await self.repository.ensure_namespace(organization, name)
        else:
            found = await self.repository.find_namespace(organization, name)
        if found is None:
            return NamespaceRef(UNUSED, name)
        if len(self._namespaces) >= CACHE_MAX:
            self._namespaces.clear()
        self._namespaces[organization, name] = (time.monotonic() + CACHE_S, found)
        return found


def checked_name(named: str | None) -> str:
    if named is None:
        message = "An API key names the namespace, in the body or as `?namespace=`."
        raise ApiError(message, errors=[FieldError("namespace", "missing", message)])
    if NAMESPACE_NAME.fullmatch(named) is None:
        message = "1 to 128 letters, digits and . _ : @ | + - beginning with a letter or a digit."
        raise ApiError(
            "This is no name of a namespace.", errors=[FieldError("namespace", "invalid_name", message)]
        )
    return named


def _allowed(principal: Principal, ip: str) -> bool:
    """Whether the principal may call from this address."""
    if not principal.allow_ips:
        return True
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return False
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain in ipaddress.ip_network(network) for network in principal.allow_ips)


def _principal(kind: tokens.Kind, row: Any) -> Principal:
    organization = OrganizationId(str(row["organization_id"]))
    scopes = frozenset(row["scopes"])
    if kind == "key" and row["operator"] is not None:
        return Principal("operator", row["operator"], organization, scopes, role=Role.VIEWER)
    if kind == "key":
        return Principal("key", str(row["id"]), organization, scopes, allow_ips=tuple(row["allow_ips"]))
    namespace = NamespaceRef(
        NamespaceId(str(row["namespace_id"])), row["namespace_name"], row["namespace_suspended"]
    )
    narrow = Narrow.from_json(orjson.loads(row["narrow"]))
    return Principal("token", str(row["id"]), organization, scopes, namespace, narrow)
