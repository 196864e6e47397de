"""API keys of an organization: made, rotated, revoked; each shown once."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from sandbox.journal.errors import ApiError, FieldError
from sandbox.journal.ids import OrganizationId, TimeMs
from sandbox.store.postgres.connection import acquired
from tenancy import tokens
from tenancy.errors import IdempotencyConflict, InsufficientScope, NotFound
from tenancy.ids import new_id, parse_id
from tenancy.keys import repository
from tenancy.principals import Principal
from tenancy.repository import NO_NAMESPACE, now_ms, reserve_idempotency_key
from tenancy.service import Authenticator

KEYS_MAX = 100
NETWORKS_MAX = 100
MAPPED_BITS = 96
"""Of an IPv6 address that holds an IPv4 one (::ffff:0:0/96)."""
ROUTE = "POST /v1/keys"


@dataclass(frozen=True, slots=True)
class NewKey:
    name: str
    scopes: tuple[str, ...]
    expires_at: TimeMs | None = None
    allow_ips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A key and, only where it was made now, its secret."""

    row: Any
    secret: str | None


class Keys:
    def __init__(self, pool: asyncpg.Pool, authenticator: Authenticator) -> None:
        self._pool = pool
        self._authenticator = authenticator

    async def create(
        self, organization: OrganizationId, wanted: NewKey, *, key: str | None, request_sha256: bytes
    ) -> Made:
        """Errors: ApiError when there are too many or it has expired already, IdempotencyConflict."""
        networks = checked_networks(wanted.allow_ips)
        secret = tokens.mint("key")
        async with acquired(self._pool) as connection, connection.transaction():
            now = await now_ms(connection)
            id_, before = new_id(now), None
            if key is not None:
                before = await reserve_idempotency_key(
                    connection,
                    organization=organization,
                    namespace=NO_NAMESPACE,
                    route=ROUTE,
                    key=key,
                    request_sha256=request_sha256,
                    object_id=id_,
                    at=now,
                )
            if before is None:
                if wanted.expires_at is not None and wanted.expires_at <= now:
                    raise _wrong("expires_at", "This time has passed.")
                if await repository.count_keys(connection, organization) >= KEYS_MAX:
                    raise ApiError(f"An organization has at most {KEYS_MAX} keys: revoke one first.")
                row = await repository.insert_key(
                    connection,
                    organization,
                    id_=id_,
                    name=wanted.name,
                    prefix=secret[: tokens.SHOWN],
                    sha256=tokens.digest(secret),
                    scopes=wanted.scopes,
                    allow_ips=networks,
                    expires_at=wanted.expires_at,
                    at=now,
                )
                return Made(row, secret)
        if before["request_sha256"] != request_sha256:
            raise IdempotencyConflict("This Idempotency-Key was used for another key.")
        return Made(await self.get(organization, before["object_id"]), None)

    async def get(self, organization: OrganizationId, key: str) -> Any:
        id_ = parse_id(key)
        row = None
        if id_ is not None:
            async with acquired(self._pool) as connection:
                row = await repository.get_key(connection, organization, id_)
        if row is None:
            raise NotFound("There is no such key.")
        return row

    async def page(self, organization: OrganizationId, before: str | None, limit: int) -> list[Any]:
        async with acquired(self._pool) as connection:
            return await repository.list_keys(connection, organization, before=before, limit=limit)

    async def rotate(self, caller: Principal, key: str, overlap_ms: int) -> Made:
        """A new secret for the same key; the one before works for `overlap_ms` more.

        Whoever rotates a key has it then. Errors: NotFound, InsufficientScope.
        """
        known = await self.get(caller.organization, key)
        if known["operator"] is not None:
            raise InsufficientScope(
                "This key is an operator's of Rewind: it can be revoked, and not rotated."
            )
        if caller.kind == "key" and not caller.scopes.issuperset(known["scopes"]):
            raise InsufficientScope("A key rotates no key that may do more than itself.")
        secret = tokens.mint("key")
        async with acquired(self._pool) as connection:
            row = await repository.rotate_key(
                connection,
                caller.organization,
                str(known["id"]),
                prefix=secret[: tokens.SHOWN],
                sha256=tokens.digest(secret),
                overlap_ms=overlap_ms,
            )
        if row is None:
            raise NotFound("There is no such key.")
        self._authenticator.forget()
        return Made(row, secret)

    async def revoke(self, organization: OrganizationId, key: str) -> None:
        id_ = parse_id(key)
        done = False
        if id_ is not None:
            async with acquired(self._pool) as connection:
                done = await repository.revoke_key(connection, organization, id_)
        if not done:
            raise NotFound("There is no such key.")
        self._authenticator.forget()


def checked_networks(networks: Sequence[str]) -> list[str]:
    """Networks in their usual form. ApiError naming the one that is none."""
    if len(networks) > NETWORKS_MAX:
        raise _wrong("allow_ips", f"At most {NETWORKS_MAX} networks.")
    found = []
    for number, text in enumerate(networks):
        try:
            found.append(str(_plain(ipaddress.ip_network(text.strip(), strict=False))))
        except ValueError:
            raise _wrong(
                f"allow_ips[{number}]", f"{text[:60]!r} is no address and no network such as 203.0.113.0/24."
            ) from None
    return list(dict.fromkeys(found))


def _plain(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> Any:
    """IPv4 in the guise of IPv6 is IPv4: so are the addresses that it is compared with."""
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < MAPPED_BITS:
        return network
    return ipaddress.ip_network((mapped, network.prefixlen - MAPPED_BITS))


def _wrong(path: str, message: str) -> ApiError:
    return ApiError(f"{path}: {message}", errors=[FieldError(path, "invalid_value", message)])
