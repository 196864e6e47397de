"""Tests in virtual time and replays: asked of the sandbox, whose answers are passed on."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import orjson

from app.errors import HistoryUnavailable, invalid
from app.reenactments.repository import ReplayRepository
from app.reenactments.schemas import ReplayBody, TestBody
from app.responses import spliced
from app.scripts.service import Scripts, script_refused
from app.toolsets.service import Toolsets
from sandbox.compiler.client import SandboxClient, reexecution_timeout_ms
from sandbox.journal.errors import RewindFault, Unavailable
from sandbox.journal.ids import Epoch
from sandbox.store.interface import RunRecord
from tenancy.errors import NotFound
from tenancy.ids import new_id, parse_id
from tenancy.principals import NamespaceRef, Principal

logger = logging.getLogger(__name__)

READY_S = 30.0
"""A replay that takes longer is answered by its id."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """`body` None: not ready yet."""

    id: str
    body: Any | None


class Reenactments:
    def __init__(
        self,
        *,
        sandbox: SandboxClient,
        scripts: Scripts,
        toolsets: Toolsets,
        repository: ReplayRepository,
        epoch: Epoch,
        ready_s: float = READY_S,
    ) -> None:
        self._sandbox = sandbox
        self._scripts = scripts
        self._toolsets = toolsets
        self._repository = repository
        self._epoch = epoch
        self._ready_s = ready_s
        self._going_on: set[asyncio.Task[None]] = set()

    async def test(self, caller: Principal, within: NamespaceRef, body: TestBody) -> Any:
        """The report of a test.

        Errors: NotFound, TooLarge, UnknownToolset, ScriptRefused, InputRefused, ApiError, Unavailable.
        """
        source = await self._scripts.source(within.id, body.script)
        toolset, tools = None, []
        if body.toolset is not None:
            toolset = await self._toolsets.resolve(caller.organization, body.toolset)
            tools = await self._toolsets.definitions(caller.organization, toolset)
        report = await self._scripts.check(caller.organization, within.id, source, toolset, keep=False)
        report.require_ok()
        question = body.model_dump(exclude={"script", "toolset", "namespace"}, exclude_none=True)
        if body.cassette is not None and "input" not in body.model_fields_set:
            question["input"] = body.cassette.get("input")
        await report.require_input(question.get("input"))
        question |= {
            "source": source,
            "epoch": self._epoch,
            "tools": tools,
            "toolset": None if toolset is None else toolset.text,
            "namespace": within.name,
        }
        return _checked(await self._sandbox.test(within.id, question))

    async def replay(self, record: RunRecord, body: ReplayBody) -> Replayed:
        """Execute the run again; a result that is not ready in time is kept for `find`.

        Errors: NotFound, TooLarge, ScriptRefused, HistoryUnavailable, ApiError, Unavailable.
        """
        question: dict[str, Any] = {"run": record.run}
        if body.script is not None:
            question["source"] = await self._scripts.source(record.namespace, body.script)
        if body.overrides is not None:
            question["overrides"] = body.overrides
        asked = asyncio.ensure_future(self._sandbox.replay(record.namespace, question, record.cpu_us))
        try:
            done, _ = await asyncio.wait({asked}, timeout=self._ready_s)
        except asyncio.CancelledError:
            asked.cancel()
            raise
        replay = new_id(record.started_at)
        if done:
            return Replayed(replay, _checked(asked.result()))
        await self._repository.note(
            record.namespace, record.run, replay, reexecution_timeout_ms(record.cpu_us)
        )
        task = asyncio.create_task(self._keep(record, replay, asked))
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)
        return Replayed(replay, None)

    async def find(self, record: RunRecord, replay: str) -> Replayed:
        """A replay that outlived its request. Errors: NotFound, and those of `replay`."""
        known = parse_id(replay)
        found = None if known is None else await self._repository.find(record.namespace, record.run, known)
        if known is None or found is None:
            raise NotFound(f"There is no replay {replay[:80]!r} of this run; results are kept for a day.")
        answer, is_open = found
        if answer is not None:
            return Replayed(known, _checked(answer))
        if not is_open:
            raise Unavailable("The replay was not finished: ask for it again.")
        return Replayed(known, None)

    async def _keep(self, record: RunRecord, replay: str, asked: "asyncio.Future[bytes]") -> None:
        try:
            answer: bytes | None = await asked
        except Unavailable as error:
            logger.warning("replay %s of run %s was not finished: %s", replay, record.run, error)
            answer = None
        try:
            await self._repository.answer(record.namespace, record.run, replay, answer)
        except RewindFault as error:
            logger.warning("the result of replay %s is lost, it may be asked for again: %s", replay, error)


def _checked(answer: bytes) -> Any:
    """The answer for the caller, unparsed, unless it refuses what the caller sent."""
    if not answer.startswith((b'{"refused"', b'{"diagnostics"', b'{"unavailable"')):
        return spliced(answer)
    refusal = orjson.loads(answer)
    if "diagnostics" in refusal:
        raise script_refused(refusal["diagnostics"])
    if "unavailable" in refusal:
        raise HistoryUnavailable(refusal["unavailable"])
    raise invalid(refusal["refused"]["path"], "invalid_value", refusal["refused"]["message"])
