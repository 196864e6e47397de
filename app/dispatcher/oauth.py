"""Access tokens by OAuth 2.0 client credentials: fetched through the egress guard, shared until they expire."""

import asyncio
import base64
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

import httpx2
import orjson

from app.dispatcher.egress import CONNECT_TIMEOUT_S, Egress, LimitedStream, refusal_of
from app.dispatcher.endpoints import HEADER_VALUE, Grant

TOKENS_MAX = 1_000
TOKEN_TIMEOUT_S = 20.0
"""For the whole of it: whoever waits for the same token waits as long."""
ANSWER_BYTES_MAX = 64 * 1024
EXPIRES_S = 300.0
"""Of a token whose server does not say."""
EARLY_S = 30.0
"""A token is given up so long before it expires."""
EXCERPT_CHARS = 200


class TokenRefused(httpx2.TransportError):
    """The token server answered, and gave no token."""


class TokenUnreachable(httpx2.ConnectError):
    """The token server did not answer."""


@dataclass(slots=True)
class _Known:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    token: str | None = field(default=None, repr=False)
    shown: list[str] = field(default_factory=list, repr=False)
    """The last two tokens: what a server may still say back."""
    until_s: float = 0.0


class Tokens:
    """One token per grant, that is per client and secret: namespaces with secrets of their own share none."""

    def __init__(self, egress: Egress) -> None:
        self._transport = egress.transport()
        self._known: OrderedDict[Grant, _Known] = OrderedDict()

    async def token(self, grant: Grant) -> str:
        """Errors: TokenRefused, TokenUnreachable."""
        known = self._known.setdefault(grant, _Known())
        self._known.move_to_end(grant)
        while len(self._known) > TOKENS_MAX:
            self._known.popitem(last=False)
        async with known.lock:
            if known.token is None or time.monotonic() >= known.until_s:
                known.token, expires_s = await self._fetch(grant)
                known.until_s = time.monotonic() + max(0.0, expires_s - EARLY_S)
                known.shown = [*known.shown[-1:], known.token]
            return known.token

    def forget(self, grant: Grant, token: str) -> None:
        """The server did not take this token."""
        known = self._known.get(grant)
        if known is not None and known.token == token:
            known.token = None

    def shown(self, grant: Grant) -> list[str]:
        known = self._known.get(grant)
        return [] if known is None else known.shown

    async def close(self) -> None:
        await self._transport.aclose()

    async def _fetch(self, grant: Grant) -> tuple[str, float]:
        """The token and how long it lives. Errors: TokenRefused, TokenUnreachable."""
        fields = {"grant_type": "client_credentials"} | (
            {} if grant.scope is None else {"scope": grant.scope}
        )
        pair = f"{quote(grant.client_id, safe='')}:{quote(grant.client_secret, safe='')}"
        request = httpx2.Request(
            "POST",
            grant.token_url,
            content=urlencode(fields).encode(),
            headers={
                "authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
                "content-type": "application/x-www-form-urlencoded",
                "accept": "application/json",
                "accept-encoding": "identity",
            },
            extensions={"timeout": dict.fromkeys(("read", "write", "pool"), TOKEN_TIMEOUT_S) | {"connect": CONNECT_TIMEOUT_S}},
        )  # fmt: skip
        try:
            async with asyncio.timeout(TOKEN_TIMEOUT_S):
                status, body = await self._answer(request)
        except TimeoutError:
            said = f"the token server did not answer within {TOKEN_TIMEOUT_S:.0f} s"
            raise TokenUnreachable(said) from None
        except httpx2.TransportError as error:
            if (refused := refusal_of(error)) is not None:
                raise TokenRefused(f"the address of the token server is refused: {refused}") from None
            raise TokenUnreachable(f"the token server did not answer: {type(error).__name__}") from None
        return _token_of(status, body)

    async def _answer(self, request: httpx2.Request) -> tuple[int, bytes]:
        response = await self._transport.handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        try:
            body = b"".join([chunk async for chunk in LimitedStream(stream, ANSWER_BYTES_MAX)])
        finally:
            await response.aclose()
        return response.status_code, body


def _token_of(status: int, body: bytes) -> tuple[str, float]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        answer = {}
    token = answer.get("access_token")
    if status != 200 or not isinstance(token, str):
        said = " ".join(str(answer.get("error", "")).split())[:EXCERPT_CHARS]
        if status >= 500:
            raise TokenUnreachable(f"the token server answered with status {status}")
        raise TokenRefused(f"the token server gave no token: status {status}{said and f', {said}'}")
    if str(answer.get("token_type", "bearer")).lower() != "bearer" or HEADER_VALUE.fullmatch(token) is None:
        raise TokenRefused("the token server gave a token that is no bearer token")
    lives = answer.get("expires_in")
    return token, float(lives) if isinstance(lives, int | float) and lives > 0 else EXPIRES_S


class OAuthTransport(httpx2.AsyncBaseTransport):
    """Presents the grant's token; one that the server does not take is replaced once."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, tokens: Tokens, grant: Grant) -> None:
        self._inner = inner
        self._tokens = tokens
        self._grant = grant

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        token = await self._tokens.token(self._grant)
        request.headers["authorization"] = f"Bearer {token}"
        response = await self._inner.handle_async_request(request)
        if response.status_code != 401:
            return response
        await response.aclose()
        self._tokens.forget(self._grant, token)
        request.headers["authorization"] = f"Bearer {await self._tokens.token(self._grant)}"
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
