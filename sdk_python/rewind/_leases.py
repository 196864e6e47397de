"""Keeps the leases of running tools alive, and passes on that a run no longer wants a call."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence

import orjson

from rewind._core import AsyncCore, decode
from rewind._errors import ApiError, ConnectionFailed
from rewind._execution import Execution
from rewind._outbox import FINAL_CODES, ITEMS_MAX, Outbox

logger = logging.getLogger("rewind.worker")
HEARTBEATS_PER_LEASE = 3
LEASE_MS = 30_000
ANSWER_S = 10.0


class Leases:
    """One heartbeat for all tools that run and all outcomes not yet taken, three times per lease."""

    def __init__(
        self,
        core: AsyncCore,
        running: Mapping[str, Execution],
        outbox: Outbox,
        head_of: Callable[[str], bytes],
    ) -> None:
        self._core = core
        self._running = running
        self._outbox = outbox
        self._head_of = head_of
        self._lease_ms = LEASE_MS
        self._shorter = asyncio.Event()

    def note(self, lease_ms: int) -> None:
        """A task was leased for this long."""
        if lease_ms < self._lease_ms:
            self._lease_ms = max(1, lease_ms)
            self._shorter.set()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lease_ms / 1000 / HEARTBEATS_PER_LEASE):
                    await self._shorter.wait()
            self._shorter.clear()
            tokens = [*self._running, *(token for token in self._outbox.tokens if token not in self._running)]
            for start in range(0, len(tokens), ITEMS_MAX):
                await self._beat(tokens[start : start + ITEMS_MAX])

    async def _beat(self, tokens: Sequence[str]) -> None:
        body = orjson.dumps({"items": [{"token": token} for token in tokens]})
        try:
            response = await self._core.transport.request(self._head_of("heartbeat"), body, ANSWER_S)
            verdicts = decode(response).data["results"]
        except (ApiError, ConnectionFailed) as error:
            logger.debug("heartbeat: %s", error)
            return
        for verdict in verdicts:
            execution = self._running.get(verdict["token"])
            if execution is None:
                continue
            if verdict["ok"] and verdict.get("cancel"):
                execution.ctx.signal.set("cancelled")
            elif not verdict["ok"] and verdict.get("code") in FINAL_CODES:
                execution.ctx.signal.set("lost")
