"""MCP servers over streamable HTTP: sessions that are kept, shared, and made again when they end."""

import asyncio
import functools
import importlib
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.dispatcher.egress import Egress
from app.dispatcher.mcp_http import HttpFailure, Trouble

if TYPE_CHECKING:
    import mcp_types as types

    from app.dispatcher.session import Session

CLOSE_TIMEOUT_S = 5.0
LIST_TIMEOUT_S = 30.0
IDLE_S = 120.0
SESSIONS_MAX = 1_000
PAGES_MAX = 50


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and what we present to it. The headers hold secrets and are in no representation."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class ServerFailed(Exception):
    """The server did not answer a request: by fault of the way to it, or of its protocol."""

    def __init__(self, failure: HttpFailure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class ServerRefused(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def hush() -> None:
    """Keep the libraries quiet: they log what servers send, and addresses with what customers put into them."""
    for name in ("mcp", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class Servers:
    """Sessions by endpoint: opened for the first call, shared, kept while they are used."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._make: Any = None
        self._sessions: OrderedDict[Endpoint, asyncio.Task[Session]] = OrderedDict()
        self._modes: dict[str, str] = {}
        self._used_at: dict[Endpoint, float] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def call_tool(
        self, endpoint: Endpoint, name: str, args: dict[str, Any], *, key: str, timeout_s: float
    ) -> "types.CallToolResult":
        """Call once. A session that the server has forgotten is made anew: it did not execute the call.

        Errors: ServerFailed, ServerRefused, TimeoutError; pydantic.ValidationError for what is no tool result.
        """
        ends = time.monotonic() + timeout_s
        session = await self._session(endpoint)
        try:
            return await session.call_tool(name, args, key=key, timeout_s=timeout_s)
        except ServerFailed as error:
            if not error.failure.stale_session:
                raise
        self._drop(endpoint, session)
        session = await self._session(endpoint)
        return await session.call_tool(name, args, key=key, timeout_s=max(0.0, ends - time.monotonic()))

    async def list_tools(self, endpoint: Endpoint) -> "list[types.Tool]":
        """Every tool of the server, asked through a session of its own.

        Errors: ServerFailed, ServerRefused, TimeoutError, pydantic.ValidationError.
        """
        session = await self._new(endpoint, "auto")
        found: list[types.Tool] = []
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                await session.open()
                cursor: str | None = None
                for _ in range(PAGES_MAX):
                    tools, cursor = await session.list_tools(cursor, timeout_s=LIST_TIMEOUT_S)
                    found += tools
                    if cursor is None:
                        return found
        finally:
            await session.closed()
        raise ServerFailed(HttpFailure(Trouble.GARBAGE, f"the list of tools has more than {PAGES_MAX} pages"))

    def tidy(self) -> None:
        """Close what has not been used for a while."""
        idle_since = time.monotonic() - IDLE_S
        for endpoint in [known for known, at in self._used_at.items() if at < idle_since]:
            self._close(endpoint)

    async def close(self) -> None:
        for endpoint in list(self._sessions):
            self._close(endpoint)
        if self._closing:
            await asyncio.wait(self._closing, timeout=2 * CLOSE_TIMEOUT_S)

    async def _session(self, endpoint: Endpoint) -> "Session":
        """The session, opened now if need be; callers at the same time wait for the same opening."""
        self._used_at[endpoint] = time.monotonic()
        opening = self._sessions.get(endpoint)
        if opening is not None and opening.done() and not _usable(opening):
            opening = None
        if opening is None:
            while len(self._sessions) >= SESSIONS_MAX:
                self._close(next(iter(self._sessions)))
            opening = asyncio.create_task(self._open(endpoint), name="mcp opening")
            self._sessions[endpoint] = opening
        self._sessions.move_to_end(endpoint)
        return await asyncio.shield(opening)

    async def _open(self, endpoint: Endpoint) -> "Session":
        mode = self._modes.get(endpoint.url, "auto")
        session = await self._new(endpoint, mode)
        try:
            await session.open()
        except (ServerFailed, ServerRefused):
            self._modes.pop(endpoint.url, None)  # it may speak another version by now
            raise
        if len(self._modes) >= SESSIONS_MAX:
            self._modes.clear()
        self._modes[endpoint.url] = session.mode
        return session

    async def _new(self, endpoint: Endpoint, mode: str) -> "Session":
        """The library takes a second to load: not at the start of every process, nor on its event loop."""
        if self._make is None:
            load = functools.partial(importlib.import_module, "app.dispatcher.session")
            self._make = (await asyncio.to_thread(load)).Session
        made: Session = self._make(endpoint, self._egress, mode)
        return made

    def _drop(self, endpoint: Endpoint, session: "Session") -> None:
        """Forget a session that is of no use, unless another call has replaced it already."""
        known = self._sessions.get(endpoint)
        if known is not None and known.done() and _usable(known) and known.result() is session:
            self._close(endpoint)

    def _close(self, endpoint: Endpoint) -> None:
        opening = self._sessions.pop(endpoint)
        self._used_at.pop(endpoint, None)
        closing = asyncio.create_task(_close(opening), name="mcp closing")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _usable(opening: "asyncio.Task[Session]") -> bool:
    return not opening.cancelled() and opening.exception() is None and opening.result().alive


async def _close(opening: "asyncio.Task[Session]") -> None:
    try:
        session = await opening
    except (ServerFailed, ServerRefused):
        return
    await session.closed()
