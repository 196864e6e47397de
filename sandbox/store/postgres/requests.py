"""Questions of the control plane to the sandbox, as rows: asked, claimed by a worker, answered in the row.

Question, answer and failure are sealed under the key of the namespace.
"""

import asyncio
import contextlib
import secrets
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, WorkerId
from sandbox.store.hints import HintBus, Message
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.sealing import Sealer

POLL_S = 0.25
IN_FLIGHT_MAX = 2
"""Questions of one namespace that workers hold at the same time."""

CLAIM_SQL = """with open as (
    select s.id, s.namespace_id, s.created_at, row_number() over (partition by s.namespace_id order by s.created_at) as rank
    from sandbox_requests s where s.answered_at is null and s.worker_id is null and s.deadline > now_ms()
      and s.kind = any($4)),
  picked as (
    select s.id from sandbox_requests s
    where s.id in (select o.id from open o where o.rank + (select count(*) from sandbox_requests h
        where h.namespace_id = o.namespace_id and h.worker_id is not null and h.answered_at is null
        and h.deadline > now_ms()) <= $3 order by o.rank, o.created_at limit $2)
    and s.worker_id is null for update skip locked)
  update sandbox_requests s set worker_id = $1 from picked p where s.id = p.id
  returning s.id, s.namespace_id, s.kind, s.payload, s.deadline - now_ms() as left_ms"""

# One row while the question stands, taken when it is answered or late; none: Postgres crashed, which empties
# an unlogged table.
LOOK_SQL = """with taken as (
    delete from sandbox_requests where id = $1 and (answered_at is not null or $2)
    returning answer, failure, answered_at)
  select t.answer, t.failure, t.answered_at, t.answered_at is not null or $2 as over
  from sandbox_requests s left join taken t on true where s.id = $1"""


_QUESTION, _ANSWER, _FAILURE = b"question", b"answer", b"failure"


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    id: str
    namespace: NamespaceId
    kind: str
    payload: bytes
    left_ms: int
    """Until its deadline: nobody waits any longer."""


class RequestDesk:
    """Both sides of the desk: `ask` for the control plane, `claim` and `answer` for workers."""

    def __init__(self, pool: asyncpg.Pool, hints: HintBus, keys: NamespaceKeys) -> None:
        self._pool = pool
        self._keys = keys
        self._hints = hints
        self._waiting: dict[str, asyncio.Event] = {}
        hints.on_message(self._on_hint)

    async def ask(self, namespace: NamespaceId, kind: str, payload: bytes, *, timeout_ms: int) -> bytes:
        """The answer of whichever worker takes the question.

        Errors: Unavailable when none answered within `timeout_ms`, or the worker could not. DataErased.
        """
        question = str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))
        sealer = await self._sealer(namespace, question)
        answered = self._waiting[question] = asyncio.Event()
        try:
            async with acquired(self._pool) as connection:
                await connection.execute(
                    "insert into sandbox_requests (id, namespace_id, kind, payload, created_at, deadline)"
                    " values ($1, $2, $3, $4, now_ms(), now_ms() + $5)",
                    question,
                    namespace,
                    kind,
                    sealer.seal(payload, _QUESTION),
                    timeout_ms,
                )
            self._hints.send("worker", {"k": "request"})
            answer = await self._await_answer(question, answered, kind, timeout_ms)
        finally:
            del self._waiting[question]
        if answer["failure"] is not None:
            failure = sealer.open(answer["failure"], _FAILURE).decode()
            raise Unavailable(f"the sandbox could not {kind} the script: {failure}")
        return sealer.open(answer["answer"], _ANSWER)

    async def _await_answer(
        self, question: str, answered: asyncio.Event, kind: str, timeout_ms: int
    ) -> asyncpg.Record:
        give_up = time.monotonic() + timeout_ms / 1000
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await answered.wait()
            late = time.monotonic() >= give_up
            async with acquired(self._pool) as connection:
                row = await connection.fetchrow(LOOK_SQL, question, late)
            if row is None:
                raise Unavailable(f"Postgres crashed while a worker was to {kind} the script")
            if not row["over"]:
                continue
            if row["answered_at"] is None:
                raise Unavailable(
                    f"no worker answered a request to {kind} a script in {timeout_ms / 1000:g} s"
                )
            return row

    async def claim(self, worker: WorkerId, limit: int, kinds: Sequence[str]) -> list[SandboxRequest]:
        """Questions of these kinds, round-robin over namespaces."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(CLAIM_SQL, worker, limit, IN_FLIGHT_MAX, kinds)
        keys = await self._keys.known({NamespaceId(str(row["namespace_id"])) for row in rows})
        claimed = []
        for row in rows:
            question, namespace = str(row["id"]), NamespaceId(str(row["namespace_id"]))
            if namespace in keys:  # else it was erased, and nobody waits for an answer
                sealer = keys[namespace].of(_subject(question))
                payload = sealer.open(row["payload"], _QUESTION)
                claimed.append(SandboxRequest(question, namespace, row["kind"], payload, row["left_ms"]))
        return claimed

    async def answer(self, request: SandboxRequest, answer: bytes | None, failure: str | None = None) -> None:
        """Errors: DataErased, Unavailable."""
        sealer = await self._sealer(request.namespace, request.id)
        async with acquired(self._pool) as connection:
            await connection.execute(
                "update sandbox_requests set answer = $2, failure = $3, answered_at = now_ms() where id = $1",
                request.id,
                None if answer is None else sealer.seal(answer, _ANSWER),
                None if failure is None else sealer.seal(failure.encode(), _FAILURE),
            )
        self._hints.send("api", {"k": "answer", "id": request.id})

    async def sweep(self) -> None:
        """Delete what nobody waits for any more."""
        async with acquired(self._pool) as connection:
            await connection.execute("delete from sandbox_requests where deadline < now_ms() - 60000")

    async def _sealer(self, namespace: NamespaceId, question: str) -> Sealer:
        return (await self._keys.of(namespace)).of(_subject(question))

    def _on_hint(self, message: Message) -> None:
        if message.get("k") == "answer":
            waiting = self._waiting.get(message.get("id", ""))
            if waiting is not None:
                waiting.set()


def _subject(question: str) -> str:
    return f"request/{question}"
