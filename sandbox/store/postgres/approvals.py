"""Decisions of gated calls, one append each; and who is told of them."""

import asyncpg

from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Seq, WorkerId
from sandbox.store.approvals import Decision
from sandbox.store.hints import HintBus
from sandbox.store.interface import EventAppend, EventOutcome, EventVerdict, Guard, Route
from sandbox.store.postgres.announcing import announce_event
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.sealing import entry_place

_DECIDE = """select (d.verdict).outcome, (d.verdict).seq, (d.verdict).at, (d.verdict).owner,
    d.route, d.organization, d.toolset, d.tool from decide_approval($1, $2, $3, $4, $5, $6) d"""
_CODES = {"approved": 1, "denied": 2, "expired": 3}


class Approvals:
    pool: asyncpg.Pool
    keys: NamespaceKeys
    _hints: HintBus | None

    async def decide_approval(self, decision: Decision) -> EventVerdict:
        """Append a decision if nobody was faster; an approved call is on offer from then on.

        Errors: Unavailable when the database was lost: the decision may or may not be recorded, and its guard
        answers the same call again. DataErased.
        """
        run = (await self.keys.of(decision.namespace)).of(decision.run)
        completion = decision.completion
        async with acquired(self.pool) as connection:
            row = await connection.fetchrow(
                _DECIDE,
                decision.namespace,
                decision.run,
                decision.decided.call,
                _CODES[decision.decided.decision],
                run.seal(decision.body, entry_place(EntryType.APPROVAL_DECIDED)),
                None
                if completion is None
                else run.seal(completion, entry_place(EntryType.TOOL_CALL_COMPLETED)),
            )
        outcome = EventOutcome(row["outcome"])
        owner = None if row["owner"] is None else WorkerId(row["owner"])
        verdict = EventVerdict(outcome, row["seq"], row["at"], owner)
        if self._hints is not None and outcome is EventOutcome.APPENDED:
            self._tell(self._hints, decision, completion, verdict, row)
        return verdict

    def _tell(
        self,
        hints: HintBus,
        decision: Decision,
        completion: bytes | None,
        verdict: EventVerdict,
        row: asyncpg.Record,
    ) -> None:
        if completion is not None:
            assert verdict.seq is not None  # it was appended
            settled = EventAppend(
                decision.namespace, decision.run, EntryType.TOOL_CALL_COMPLETED, completion, Guard.CALL
            )
            placed = EventVerdict(verdict.outcome, Seq(verdict.seq + 1), verdict.time, verdict.owner)
            announce_event(hints, settled, placed)
            return
        hints.send("api", {"k": "run", "run": decision.run, "ended": False})
        if row["route"] == Route.DISPATCHER:
            hints.send("api", {"k": "dispatch"})
        elif row["route"] == Route.HOST:
            offered = {
                "organization": str(row["organization"]),
                "namespace": decision.namespace,
                "toolset": row["toolset"],
                "tools": [row["tool"]],
            }
            hints.send("api", {"k": "tasks", **offered})
