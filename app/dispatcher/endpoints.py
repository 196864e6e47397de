"""How a server of a toolset is reached: its address, and headers whose secrets are put in for each call. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from app.dispatcher.mcp import Endpoint
from sandbox.journal.ids import Json

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
HEADER_VALUE = re.compile(r"[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
RESERVED_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type",
     "expect", "host", "idempotency-key", "keep-alive", "last-event-id", "proxy-authorization", "te", "trailer",
     "transfer-encoding", "upgrade"}
)  # fmt: skip
URL_CHARS_MAX = 2_048


class SecretMissing(Exception):
    """A secret that a server needs is not set, or is no text for a header. Says its name, never its value."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """`auth`: name of a secret, sent as a bearer token. `headers`: text, or `{"secret": name}`."""

    url: str
    auth: str | None = None
    headers: Mapping[str, Json] | None = None

    def to_json(self) -> dict[str, Json]:
        return {"url": self.url, "auth": self.auth, "headers": dict(self.headers or {})}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ServerSpec":
        return cls(value["url"], value["auth"], value["headers"])

    @property
    def secrets(self) -> list[str]:
        """Names of the secrets that it refers to."""
        named = [] if self.auth is None else [self.auth]
        return named + [
            str(value["secret"]) for value in (self.headers or {}).values() if isinstance(value, dict)
        ]

    def endpoint(self, values: Mapping[str, str]) -> Endpoint:
        """Put the secrets' values in. Errors: SecretMissing."""
        headers = []
        for name, value in (self.headers or {}).items():
            text = _value(str(value["secret"]), values) if isinstance(value, dict) else str(value)
            headers.append((name.lower(), text))
        if self.auth is not None:
            headers.append(("authorization", f"Bearer {_value(self.auth, values)}"))
        return Endpoint(self.url, tuple(sorted(headers)))


def url_problem(url: str) -> str | None:
    """Say why this is no address of a server. Who may be reached is judged when connecting."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "this is no URL"
    if len(url) > URL_CHARS_MAX or not url.isascii() or any(char <= " " for char in url):
        return f"a URL has at most {URL_CHARS_MAX} printable ASCII characters"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "the URL of a server begins with https:// (or http://) and a host"
    if parts.username is not None or parts.password is not None:
        return "put credentials into a secret and name it in `auth`, not into the URL"
    if parts.fragment:
        return "the URL of a server has no fragment"
    return None


def header_problem(name: str, value: Json) -> str | None:
    if HEADER_NAME.fullmatch(name) is None:
        return "this is no name of a header"
    if name.lower() in RESERVED_HEADERS or name.lower().startswith("mcp-"):
        return "this header is set by Rewind"
    if isinstance(value, str) and HEADER_VALUE.fullmatch(value) is None:
        return "the value has characters that no header can carry"
    return None


def _value(name: str, values: Mapping[str, str]) -> str:
    value = values.get(name)
    if value is None:
        raise SecretMissing(f"the secret {name!r} is not set")
    value = value.strip()
    if HEADER_VALUE.fullmatch(value) is None:
        raise SecretMissing(f"the secret {name!r} has characters that no header can carry")
    return value
