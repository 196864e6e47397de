"""What the statements of a task may reach: one tenant's rows, or everything; a task of which nobody has said is refused.

Requests run under the role `rewind_request`, whose rows row-level security limits to the tenant named in the
transaction's settings (`infra/policies.sql`). The tenant comes from who was authenticated, not from what a query
was given: a query that forgets its filter, or is given another's id, still finds nothing of anybody else.
Loops, and the few steps of a request before its caller is known, say `with as_system():`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import asyncpg

from sandbox.journal.entries import Actor
from sandbox.journal.ids import NamespaceId, OrganizationId
from sandbox.store.postgres.shares import Shares


@dataclass(frozen=True, slots=True)
class Reach:
    """`confined`: a token, which sees its namespace only. `actor` and `ip` go into the audit log."""

    system: bool = False
    organization: OrganizationId | None = None
    namespace: NamespaceId | None = None
    confined: bool = False
    actor: Actor | None = None
    ip: str = ""

    @property
    def settings_sql(self) -> str:
        """The statement that limits a transaction to this."""
        settings = {
            "organization": self.organization or "",
            "namespace": self.namespace or "",
            "confined": "on" if self.confined else "",
            "actor_kind": "" if self.actor is None else self.actor.kind,
            "actor_id": "" if self.actor is None else self.actor.id,
            "ip": self.ip,
        }
        return "select " + ", ".join(
            f"set_config('rewind.{name}', {_quoted(value)}, true)" for name, value in settings.items()
        )


NOTHING = Reach()
_REACH: ContextVar[Reach] = ContextVar("rewind_reach", default=NOTHING)


class TenantPool:
    """The pools of a process that serves tenants: `scoped` for requests, `system` for loops. See `acquired`.

    `each`: how many connections of either one customer has at the same time.
    """

    def __init__(self, scoped: asyncpg.Pool, system: asyncpg.Pool, *, each: int) -> None:
        self.scoped = scoped
        self.system = system
        self.scoped_shares = Shares(each)
        self.system_shares = Shares(each)

    async def close(self) -> None:
        await self.scoped.close()
        await self.system.close()


def reach() -> Reach:
    return _REACH.get()


@contextmanager
def reaching(wanted: Reach) -> Iterator[None]:
    """Within, statements reach this; afterwards what they reached before."""
    token = _REACH.set(wanted)
    try:
        yield
    finally:
        _REACH.reset(token)


@contextmanager
def as_system(actor: Actor | None = None, ip: str = "") -> Iterator[None]:
    """Within, statements reach every tenant: for loops, and for what comes before a caller is known."""
    with reaching(Reach(system=True, actor=actor, ip=ip)):
        yield


def limit_to(wanted: Reach) -> None:
    """From here to the end of the task, or of the `reaching` around it."""
    _REACH.set(wanted)


def narrow_to(namespace: NamespaceId) -> None:
    """From here on only this namespace of the tenant; it was found among the tenant's own."""
    current = _REACH.get()
    if not current.system:
        _REACH.set(replace(current, namespace=namespace))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "").replace("\0", "").replace("'", "''") + "'"
