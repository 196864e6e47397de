"""How a server of a toolset is reached: its address, and headers whose secrets are put in for each call. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2

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
class Grant:
    """Client credentials of OAuth 2.0, with the secret itself."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and what we present to it. The headers hold secrets and are in no representation.

    Sessions are shared by equal endpoints only: other credentials, another session.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    grant: Grant | None = None


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """`auth`: name of a secret, sent as a bearer token, or `{token_url, client_id, client_secret, scope}` of OAuth,
    where `client_secret` is the name of a secret. `headers`: text, or `{"secret": name}`.
    """

    url: str
    auth: str | Mapping[str, Any] | None = None
    headers: Mapping[str, Json] | None = None

    def to_json(self) -> dict[str, Json]:
        auth: Json = dict(self.auth) if isinstance(self.auth, Mapping) else self.auth
        return {"url": self.url, "auth": auth, "headers": dict(self.headers or {})}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ServerSpec":
        return cls(value["url"], value["auth"], value["headers"])

    @property
    def secrets(self) -> list[str]:
        """Names of the secrets that it refers to."""
        auth = self.auth["client_secret"] if isinstance(self.auth, Mapping) else self.auth
        named = [] if auth is None else [str(auth)]
        return named + [
            str(value["secret"]) for value in (self.headers or {}).values() if isinstance(value, dict)
        ]

    def endpoint(self, values: Mapping[str, str]) -> Endpoint:
        """Put the secrets' values in. Errors: SecretMissing."""
        headers = []
        for name, value in (self.headers or {}).items():
            text = secret_text(str(value["secret"]), values) if isinstance(value, dict) else str(value)
            headers.append((name.lower(), text))
        grant = None
        if isinstance(self.auth, Mapping):
            secret = secret_text(self.auth["client_secret"], values)
            grant = Grant(self.auth["token_url"], self.auth["client_id"], secret, self.auth["scope"])
        elif self.auth is not None:
            headers.append(("authorization", f"Bearer {secret_text(self.auth, values)}"))
        return Endpoint(self.url, tuple(sorted(headers)), grant)


def url_problem(url: str) -> str | None:
    """Say why this is no address of a server. Who may be reached is judged when connecting."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        httpx2.URL(url)  # what connects must take it as well, and not otherwise
    except (ValueError, httpx2.InvalidURL):
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


def header_problem(name: str, value: Json, *, reserved: Collection[str] = RESERVED_HEADERS) -> str | None:
    if HEADER_NAME.fullmatch(name) is None:
        return "this is no name of a header"
    if name.lower() in reserved or name.lower().startswith("mcp-"):
        return "this header is set by Rewind"
    if isinstance(value, str) and HEADER_VALUE.fullmatch(value) is None:
        return "the value has characters that no header can carry"
    return None


def secret_text(name: str, values: Mapping[str, str]) -> str:
    """The value of a secret, as text for a header. Errors: SecretMissing."""
    value = values.get(name)
    if value is None:
        raise SecretMissing(f"the secret {name!r} is not set")
    value = value.strip()
    if HEADER_VALUE.fullmatch(value) is None:
        raise SecretMissing(f"the secret {name!r} has characters that no header can carry")
    return value
