"""Everything that the deployment's secret key sealed, sealed anew with the first key of its file.

Processes that hold both keys go on meanwhile: what one of them writes during it is sealed with either.
"""

from dataclasses import dataclass
from typing import LiteralString

import asyncpg

from tenancy.secrets import SecretBox

ROWS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """`place`: SQL for what its bytes are bound to, as its writer says."""

    table: LiteralString
    column: LiteralString
    place: LiteralString


SEALED: tuple[SealedColumn, ...] = (
    SealedColumn(
        "secrets", "sealed",
        "'secret/' || organization_id || '/' || namespace_id || '/' || name",
    ),
    SealedColumn(
        "toolset_servers", "sealed",
        "'servers/' || organization_id || '/' || name || '/' || digest",
    ),
    SealedColumn("webhook_endpoints", "secret", "'webhook/' || organization_id || '/' || id"),
    SealedColumn(
        "webhook_endpoints", "previous_secret", "'webhook/' || organization_id || '/' || id"
    ),
    SealedColumn("people", "totp_secret", "'totp/' || id"),
    SealedColumn("sso_connections", "client_secret", "'sso/' || id"),
)  # fmt: skip
"""A test compares these with what the code seals."""


async def rotate_secret_key(connection: asyncpg.Connection, box: SecretBox) -> int:
    """Seal anew what another key than the first sealed; how much that was. Errors: SealBroken."""
    count = 0
    for sealed in SEALED:
        stale = [
            row
            for row in await connection.fetch(
                f"select {sealed.place} as place, {sealed.column} as sealed"
                f" from {sealed.table} where {sealed.column} is not null"
            )
            if not box.is_current(row["sealed"])
        ]
        for start in range(0, len(stale), ROWS_AT_ONCE):
            rows = stale[start : start + ROWS_AT_ONCE]
            # The guard on the old bytes: what was written anew meanwhile stays.
            await connection.execute(
                f"update {sealed.table} t set {sealed.column} = n.fresh"
                " from unnest($1::text[], $2::bytea[], $3::bytea[]) n (place, old, fresh)"
                f" where {sealed.column} = n.old and {sealed.place} = n.place",
                [row["place"] for row in rows],
                [row["sealed"] for row in rows],
                [box.seal(box.open(row["sealed"], row["place"]), row["place"]) for row in rows],
            )
        count += len(stale)
    return count
