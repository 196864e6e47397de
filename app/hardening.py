"""What every answer carries against browsers' mistakes, and whose address a request comes from.

CORS stays closed: no answer names an allowed origin, so no page of another site reads one.
"""

import ipaddress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.room import ROOM

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
API_POLICY = "default-src 'none'; frame-ancestors 'none'"
DOCS_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HSTS = "max-age=31536000; includeSubDomains"
HOPS_MAX = 20
"""Addresses of one X-Forwarded-For that are looked at."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """How the deployment is reached. `trusted_proxies`: whose X-Forwarded-For is believed."""

    public_url: str = "http://127.0.0.1"
    trusted_proxies: tuple[Network, ...] = ()
    security_contact: str = ""

    @property
    def secure(self) -> bool:
        return self.public_url.startswith("https://")

    @property
    def contact(self) -> str:
        return self.security_contact or f"mailto:security@{urlsplit(self.public_url).hostname}"


class Hardened:
    """Adds the headers, and puts the client's own address in the place of a trusted proxy's."""

    def __init__(self, app: ASGIApp, exposure: Exposure) -> None:
        self._app = app
        self._exposure = exposure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._exposure.trusted_proxies and scope.get("client"):
            forwarded = Headers(scope=scope).getlist("x-forwarded-for")
            peer, port = scope["client"]
            scope["client"] = (client_behind(peer, forwarded, self._exposure.trusted_proxies), port)
        path = scope["path"]

        async def send_hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._harden(MutableHeaders(scope=message), path)
            await send(message)

        with ROOM.request():
            await self._app(scope, receive, send_hardened)

    def _harden(self, headers: MutableHeaders, path: str) -> None:
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        if path.startswith(("/v1/", "/openapi.json")):
            headers.setdefault("Content-Security-Policy", API_POLICY)
        elif path.startswith("/docs"):
            headers.setdefault("Content-Security-Policy", DOCS_POLICY)
        if path.startswith("/v1/"):
            headers.setdefault("Cache-Control", "no-store")
        if self._exposure.secure:
            headers.setdefault("Strict-Transport-Security", HSTS)


def client_behind(peer: str, forwarded: list[str], trusted: tuple[Network, ...]) -> str:
    """The last address that no trusted proxy vouches for: what stands before it may be made up by the client."""
    if not _within(peer, trusted):
        return peer
    hops = [hop.strip() for line in forwarded for hop in line.split(",")]
    found = peer
    for hop in reversed(hops[-HOPS_MAX:]):
        address = _address(hop)
        if address is None:
            return found
        found = str(address)
        if not _within(found, trusted):
            return found
    return found


def _within(text: str, networks: tuple[Network, ...]) -> bool:
    address = _address(text)
    return address is not None and any(address in network for network in networks)


def _address(text: str) -> Any:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
