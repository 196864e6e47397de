"""MCP servers over streamable HTTP: sessions that are kept, shared, and made again when they end."""

import asyncio
import functools
import importlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from app.dispatcher.breaker import Breaker
from app.dispatcher.egress import Egress
from app.dispatcher.endpoints import Endpoint
from app.dispatcher.mcp_http import HttpFailure, Trouble
from app.dispatcher.oauth import Tokens

if TYPE_CHECKING:
    import mcp_types as types

    from app.dispatcher.session import Session

CLOSE_TIMEOUT_S = 5.0
LIST_TIMEOUT_S = 30.0
IDLE_S = 120.0
SESSIONS_MAX = 1_000
PAGES_MAX = 50
LIST_BYTES_MAX = 40 * 1024 * 1024
"""Of all pages of one list: what a toolset keeps of it is a tenth of that at most."""
SAID_CHARS_MAX = 16_384
"""Of what a server says about a refusal: twice what is recorded of a message."""
VERSION_REFUSED = frozenset({-32020, -32022})
"""Errors of MCP: headers that do not fit, an unsupported version."""
UNREAD = frozenset({-32000, -32600, -32601})
"""Errors of JSON-RPC that servers also use for it: no session, no such request, no such method."""
_LIST_TOO_LARGE = f"the list of tools has more than {LIST_BYTES_MAX:,} bytes"
Mirrors = Mapping[tuple[str, ...], str]
"""Arguments, by their path, that a server wants to see in headers (`Mcp-Param-…`) as well: version 2026-07-28."""
OPENINGS_MAX = 3
"""Of one call, when the server ends its sessions as soon as they are made."""


class ServerFailed(Exception):
    """The server did not answer a request: by fault of the way to it, or of its protocol."""

    def __init__(self, failure: HttpFailure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class ServerRefused(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        self.message = message[:SAID_CHARS_MAX]
        super().__init__(self.message)
        self.code = code
        self.data = data

    def not_understood(self, *, stateful: bool) -> bool:
        """The server has refused the request unread: it may speak another version by now.

        `stateful`: it keeps a session for us, which is not to be given up for an error that says less clearly so.
        """
        return self.code in VERSION_REFUSED or (not stateful and self.code in UNREAD)


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
        self._open_sessions: set[Session] = set()
        self._tokens = Tokens(egress)
        self._breakers: OrderedDict[Endpoint, Breaker] = OrderedDict()

    async def call_tool(
        self,
        endpoint: Endpoint,
        name: str,
        args: dict[str, Any],
        *,
        key: str,
        timeout_s: float,
        mirrors: Mirrors | None = None,
        task: bool = False,
    ) -> "types.CallToolResult":
        """Call once. A session that the server has forgotten is made anew: it did not execute the call.

        `task`: a tool that its server runs as a task only. A server that could not be connected to several times in a row is left alone for a while.

        Errors: ServerFailed, ServerRefused, TimeoutError; pydantic.ValidationError for what is no tool result.
        """
        breaker = self._breaker(endpoint)
        try:
            result = await self._call_tool(
                endpoint,
                lambda session, left_s: session.call_tool(
                    name, args, key=key, timeout_s=left_s, mirrors=mirrors or {}, task=task
                ),
                timeout_s,
            )
        except ServerFailed as error:
            if error.failure.trouble is Trouble.UNREACHABLE:
                breaker.failed(time.monotonic())
            elif error.failure.trouble is Trouble.REFUSED:
                breaker.gave_up()
            else:
                breaker.connected()
            raise
        except ServerRefused:
            breaker.connected()
            raise
        except BaseException:
            breaker.gave_up()
            raise
        breaker.connected()
        return result

    def tokens_shown(self, endpoint: Endpoint) -> list[str]:
        """Access tokens that the server has seen: it may say them back."""
        return [] if endpoint.grant is None else self._tokens.shown(endpoint.grant)

    def _breaker(self, endpoint: Endpoint) -> Breaker:
        """Errors: ServerFailed, when the server is left alone."""
        breaker = self._breakers.setdefault(endpoint, Breaker())
        self._breakers.move_to_end(endpoint)
        while len(self._breakers) > SESSIONS_MAX:
            self._breakers.popitem(last=False)
        left_s = breaker.refuses_for_s(time.monotonic())
        if left_s is not None:
            said = (
                f"no connection to the server: {breaker.failures} attempts failed one after the other, "
                f"and it is tried again in {left_s:.1f} s"
            )
            raise ServerFailed(HttpFailure(Trouble.UNREACHABLE, said))
        return breaker

    async def _call_tool(
        self,
        endpoint: Endpoint,
        send: "Callable[[Session, float], Awaitable[types.CallToolResult]]",
        timeout_s: float,
    ) -> "types.CallToolResult":
        ends = time.monotonic() + timeout_s
        session = await self._session(endpoint)
        try:
            return await send(session, timeout_s)
        except ServerFailed as error:
            if not (error.failure.stale_session or error.failure.not_understood):
                raise
            fresh = await self._agreed_anew(endpoint, session, known=error.failure.stale_session)
            if fresh is None:
                raise
        except ServerRefused as error:
            if not error.not_understood(stateful=session.stateful):
                raise
            fresh = await self._agreed_anew(endpoint, session, known=False)
            if fresh is None:
                raise
        return await send(fresh, max(0.0, ends - time.monotonic()))

    async def _agreed_anew(self, endpoint: Endpoint, former: "Session", *, known: bool) -> "Session | None":
        """Another session after a refusal, if the call may be sent again in it.

        It may when the server has forgotten the former session (`known`), or speaks another version than the former
        session's: then that was why it refused the call, and it has not executed it.
        """
        self._drop(endpoint, former)
        if not known:
            self._modes.pop(endpoint.url, None)
        fresh = await self._session(endpoint)
        return fresh if known or fresh.version != former.version else None

    async def list_tools(self, endpoint: Endpoint) -> "list[types.Tool]":
        """Every tool of the server, asked through a session of its own.

        Errors: ServerFailed, ServerRefused, TimeoutError, pydantic.ValidationError.
        """
        session = await self._new(endpoint, "auto")
        found: list[types.Tool] = []
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                await session.open()
                self._remember(endpoint, session)
                cursor: str | None = None
                for _ in range(PAGES_MAX):
                    tools, cursor = await session.list_tools(cursor, timeout_s=LIST_TIMEOUT_S)
                    found += tools
                    if session.read_bytes > LIST_BYTES_MAX:
                        raise ServerFailed(HttpFailure(Trouble.TOO_LARGE, _LIST_TOO_LARGE))
                    if not cursor:
                        return found
        finally:
            await session.closed()
        raise ServerFailed(HttpFailure(Trouble.GARBAGE, f"the list of tools has more than {PAGES_MAX} pages"))

    def tidy(self) -> None:
        """Let go of what has not been asked for a while."""
        idle_since = time.monotonic() - IDLE_S
        for endpoint in [known for known, at in self._used_at.items() if at < idle_since]:
            self._retire(endpoint)

    async def close(self) -> None:
        """Close every session, also those that are still waited for."""
        for opening in self._sessions.values():
            opening.cancel()
        self._sessions.clear()
        await asyncio.gather(*(session.closed() for session in list(self._open_sessions)))
        await self._tokens.close()

    async def _session(self, endpoint: Endpoint) -> "Session":
        """The session, opened now if need be; callers at the same time wait for the same opening."""
        for _ in range(OPENINGS_MAX):
            self._used_at[endpoint] = time.monotonic()
            opening = self._sessions.get(endpoint)
            if opening is not None and opening.done() and not _usable(opening):
                opening = None
            if opening is None:
                while len(self._sessions) >= SESSIONS_MAX:
                    self._retire(next(iter(self._sessions)))
                opening = asyncio.create_task(self._open(endpoint), name="mcp opening")
                self._sessions[endpoint] = opening
            self._sessions.move_to_end(endpoint)
            session = await asyncio.shield(opening)
            if session.alive:
                return session
        raise ServerFailed(HttpFailure(Trouble.UNREACHABLE, "the server ends its sessions at once"))

    async def _open(self, endpoint: Endpoint) -> "Session":
        mode = self._modes.get(endpoint.url, "auto")
        try:
            session = await self._opened(endpoint, mode)
        except (ServerFailed, ServerRefused) as error:
            self._modes.pop(endpoint.url, None)
            answered = isinstance(error, ServerRefused) or error.failure.trouble is not Trouble.UNREACHABLE
            if mode == "auto" or not answered:
                raise
            session = await self._opened(endpoint, "auto")  # it may speak another version by now
        self._remember(endpoint, session)
        return session

    async def _opened(self, endpoint: Endpoint, mode: str) -> "Session":
        session = await self._new(endpoint, mode)
        try:
            await session.open()
        finally:
            if session.running:
                self._open_sessions.add(session)
                session.on_end(self._open_sessions.discard)
        return session

    def _remember(self, endpoint: Endpoint, session: "Session") -> None:
        """What the server speaks, so that no request is spent on finding it out."""
        if len(self._modes) >= SESSIONS_MAX:
            self._modes.clear()
        self._modes[endpoint.url] = session.mode

    async def _new(self, endpoint: Endpoint, mode: str) -> "Session":
        """The library takes a second to load: not at the start of every process, nor on its event loop."""
        if self._make is None:
            load = functools.partial(importlib.import_module, "app.dispatcher.session")
            self._make = (await asyncio.to_thread(load)).Session
        made: Session = self._make(endpoint, self._egress, self._tokens, mode)
        return made

    def _drop(self, endpoint: Endpoint, session: "Session") -> None:
        """Let go of a session that is of no use, unless another call has replaced it already."""
        known = self._sessions.get(endpoint)
        if known is not None and known.done() and _usable(known) and known.result() is session:
            self._retire(endpoint)

    def _retire(self, endpoint: Endpoint) -> None:
        """Forget the session; it ends when the calls that it still has have come back."""
        opening = self._sessions.pop(endpoint, None)
        self._used_at.pop(endpoint, None)
        if opening is not None:
            opening.add_done_callback(_retire)


def _usable(opening: "asyncio.Task[Session]") -> bool:
    return not opening.cancelled() and opening.exception() is None and opening.result().alive


def _retire(opening: "asyncio.Task[Session]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().retire()
