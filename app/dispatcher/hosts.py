"""Which hosts the `http` tool of a toolset may reach: patterns over the host and port of a URL. Pure.

`api.example.com` is that host alone, `*.example.com` every host below it (not itself), `*` every host. A port
(`api.example.com:8443`) limits the pattern to that port; without one every port is meant. Addresses are written as
in URLs: `203.0.113.7`, `[2001:db8::1]`. A pattern opens no way into private networks: that is the egress guard's.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Self

PATTERN_CHARS_MAX = 300
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`host` None: every host. `below`: the hosts below it, not itself."""

    host: str | None
    below: bool = False
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Errors: ValueError that says what is wrong."""
        if len(text) > PATTERN_CHARS_MAX or not text:
            raise ValueError(f"a host pattern has 1 to {PATTERN_CHARS_MAX} characters")
        if "/" in text or "@" in text:
            raise ValueError("write the host alone, such as api.example.com, *.example.com or localhost:8080")
        host, port = _split_port(text.lower())
        if host == "*":
            return cls(None, port=port)
        if host.startswith("["):
            try:
                return cls(str(ipaddress.IPv6Address(host[1:-1])), port=port)
            except ValueError:
                raise ValueError("this is no IPv6 address in brackets") from None
        below = host.startswith("*.")
        name = _ascii(host[2:] if below else host)
        if not all(_LABEL.fullmatch(label) for label in name.split(".")):
            raise ValueError("this is no host: write api.example.com, *.example.com, * or an address")
        return cls(name, below, port)

    def matches(self, scheme: str, host: str, port: int | None) -> bool:
        """`host` as a parsed URL has it: lower case, ASCII, without brackets."""
        if self.port is not None and self.port != (port or _DEFAULT_PORTS.get(scheme)):
            return False
        if self.host is None:
            return True
        host = _plain(host)
        return host.endswith("." + self.host) if self.below else host == self.host


def _split_port(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]") or (":" in host and not host.startswith("[")):
        if text.count(":") > 1 and not text.startswith("["):
            raise ValueError("write an IPv6 address in brackets")
        return text, None
    if port == "*":
        return host, None
    if not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise ValueError("a port is a number from 1 to 65535")
    return host, int(port)


def _ascii(host: str) -> str:
    host = host.removesuffix(".")
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise ValueError("this is no host name") from None


def _plain(host: str) -> str:
    host = host.lower().removesuffix(".")
    if ":" in host:
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError:
            return host
    return host
