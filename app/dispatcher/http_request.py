"""From the arguments of `http.request` to the request that goes out, and from the answer to the value. Pure."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin

import httpx2

from app.dispatcher.endpoints import HEADER_NAME, HEADER_VALUE, SecretMissing, secret_text
from app.dispatcher.hosts import HostPattern
from sandbox.journal.canonical import CanonicalError, canonical_text, parse_json
from sandbox.journal.ids import Json

URL_CHARS_MAX = 16_384
HEADERS_MAX = 100
IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})
METHODS = IDEMPOTENT_METHODS | {"POST", "PATCH", "OPTIONS"}
OURS = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization",
     "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Headers that no script and no toolset sets."""
PERSONAL = frozenset({"authorization", "cookie"})
"""Headers of a script that do not follow a redirect to another origin."""
USER_AGENT = "rewind"
CHARSETS = frozenset(
    {"utf-8", "utf8", "us-ascii", "ascii", "latin1", "utf-16", "utf-16le", "utf-16be", "shift_jis", "shift-jis",
     "euc-jp", "iso-2022-jp", "gb2312", "gbk", "gb18030", "big5", "euc-kr", "koi8-r", "koi8-u", "macintosh"}
    | {f"iso-8859-{part}" for part in (*range(1, 12), *range(13, 17))}
    | {f"windows-{page}" for page in range(1250, 1259)}
)  # fmt: skip
"""What the web knows. Python knows more: some take hours for a megabyte (punycode), some make what is no text (utf-7)."""
_TEXT_KINDS = ("json", "xml", "javascript", "x-www-form-urlencoded", "yaml", "graphql", "csv")


class RequestRefused(Exception):
    """The arguments make no request that may go out; `code` is that of the ToolError."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class HttpSpec:
    """What a toolset says of `http`: hosts, and headers that are put in by host. The headers name secrets."""

    allow: tuple[str, ...]
    headers: Mapping[str, Mapping[str, Json]]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "HttpSpec":
        return cls(tuple(value["allow"]), value["headers"])

    def to_json(self) -> dict[str, Json]:
        return {
            "allow": list(self.allow),
            "headers": {host: dict(named) for host, named in self.headers.items()},
        }

    @property
    def secrets(self) -> list[str]:
        """Names of the secrets that it refers to."""
        values = [value for named in self.headers.values() for value in named.values()]
        return [str(value["secret"]) for value in values if isinstance(value, dict)]

    def permits(self, url: httpx2.URL) -> bool:
        return any(_fits(pattern, url) for pattern in self.allow)

    def headers_for(self, url: httpx2.URL, values: Mapping[str, str]) -> dict[str, str]:
        """Errors: SecretMissing."""
        found: dict[str, str] = {}
        for pattern, named in self.headers.items():
            if _fits(pattern, url):
                for name, value in named.items():
                    text = (
                        secret_text(str(value["secret"]), values) if isinstance(value, dict) else str(value)
                    )
                    found[name.lower()] = text
        return found


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request before the toolset's own headers are put in."""

    method: str
    url: httpx2.URL
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def idempotent(self) -> bool:
        return self.method in IDEMPOTENT_METHODS


def outgoing(args: Mapping[str, Any], key: str) -> Outgoing:
    """`key` becomes the Idempotency-Key, unless the script has its own. Errors: RequestRefused."""
    method = str(args.get("method") or "GET").upper()
    if method not in METHODS:
        raise _invalid(f"the method {method[:20]!r} is not one of {', '.join(sorted(METHODS))}")
    url = checked_url(str(args["url"]))
    query = [(name, text) for name, given in (args.get("query") or {}).items() for text in _texts(given)]
    if query:
        try:
            url = url.copy_merge_params(httpx2.QueryParams([*url.params.multi_items(), *query]))
        except httpx2.InvalidURL as error:
            raise _invalid(f"`query` makes no URL: {str(error)[:200]}") from None
    headers = _headers(args.get("headers") or {})
    known = {name for name, _ in headers}
    kind, body = _body(args)
    if kind is not None and "content-type" not in known:
        headers.append(("content-type", kind))
    for name, text in (("idempotency-key", key), ("accept", "*/*"), ("user-agent", USER_AGENT)):
        if name not in known:
            headers.append((name, text))
    return Outgoing(method, url, tuple(headers), body)


def checked_url(text: str) -> httpx2.URL:
    """Errors: RequestRefused."""
    if len(text) > URL_CHARS_MAX or any(char <= " " for char in text):
        raise _invalid(
            f"a URL has at most {URL_CHARS_MAX:,} characters and no spaces: use `query` for values"
        )
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise _invalid(f"{text[:200]!r} is no URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise _invalid(f"{text[:200]!r} is no URL of a server: begin with https:// (or http://) and a host")
    if url.userinfo:
        raise _invalid("a URL must not hold credentials: the toolset's `http.headers` can send a secret")
    return url.copy_with(fragment=None)


def redirected(request: Outgoing, status: int, location: str) -> Outgoing:
    """Where an answer sends us, as browsers do it. Errors: RequestRefused."""
    try:
        url = checked_url(urljoin(str(request.url), location))
    except RequestRefused as error:
        raise RequestRefused("unreachable", f"the server redirects: {error}") from None
    except ValueError:  # urljoin's, of brackets that hold no address
        said = f"the server redirects: {location[:200]!r} is no URL"
        raise RequestRefused("unreachable", said) from None
    if request.url.scheme == "https" and url.scheme != "https":
        raise RequestRefused("unreachable", f"the server redirects from https to http, at {url.host}")
    headers = request.headers
    if (url.scheme, url.host, url.port) != (request.url.scheme, request.url.host, request.url.port):
        headers = tuple(pair for pair in headers if pair[0] not in PERSONAL)
    changed = replace(request, url=url, headers=headers)
    if status == 303 or (status in {301, 302} and request.method == "POST"):
        method = "HEAD" if request.method == "HEAD" else "GET"
        kept = tuple(pair for pair in headers if not pair[0].startswith("content-"))
        return replace(changed, method=method, headers=kept, body=b"")
    return changed


def value_of_answer(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> dict[str, Json]:
    """`{status, ok, headers, json, text, base64?}`; a body that is no text is in `base64` alone."""
    joined: dict[str, str] = {}
    for given, part in headers:
        name = given.lower()
        joined[name] = f"{joined[name]}, {part}" if name in joined else part
    answer: dict[str, Any] = {"status": status, "ok": 200 <= status < 300, "headers": joined, "json": None}
    kind = joined.get("content-type", "")
    text = _decoded(body, kind)
    if text is None:
        return {**answer, "text": "", "base64": base64.b64encode(body).decode()}
    return {**answer, "json": _parsed(text, kind), "text": text}


def _parsed(text: str, kind: str) -> Json:
    """What the text says as JSON, when the server calls it that or it looks like it; else null."""
    media = kind.partition(";")[0].strip().lower()
    if not media.endswith(("/json", "+json")) and not text.startswith(("{", "[")):
        return None
    try:
        value = parse_json(text)
        canonical_text({"json": value})  # one level deeper than it is: it must still be a value
    except CanonicalError:
        return None
    return value


def _decoded(body: bytes, kind: str) -> str | None:
    """The body as text; None for one that is none."""
    media, _, parameters = kind.partition(";")
    media = media.strip().lower()
    textual = media == "" or media.startswith("text/") or any(word in media for word in _TEXT_KINDS)
    charset = "utf-8"
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
    if body and (not textual or charset not in CHARSETS):
        return None
    try:
        return body.decode(charset)
    except (UnicodeDecodeError, LookupError, ValueError):
        return None


def _body(args: Mapping[str, Any]) -> tuple[str | None, bytes]:
    given = [name for name in ("json", "text", "base64") if name in args]
    if len(given) > 1:
        raise _invalid(f"a request has one body: {' or '.join(given)}")
    if not given:
        return None, b""
    content = args[given[0]]
    if given == ["json"]:
        return "application/json", canonical_text(content)
    if given == ["text"]:
        return "text/plain; charset=utf-8", content.encode()
    try:
        return "application/octet-stream", base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise _invalid("`base64` is no base64") from None


def _headers(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    headers = [(name.lower(), text.strip()) for name, value in given.items() for text in _texts(value)]
    if len(headers) > HEADERS_MAX:
        raise _invalid(f"a request has at most {HEADERS_MAX} headers")
    for name, text in headers:
        if HEADER_NAME.fullmatch(name) is None:
            raise _invalid(f"{name[:80]!r} is no name of a header")
        if name in OURS:
            raise _invalid(f"the header {name!r} is set by Rewind: leave it out")
        if text and HEADER_VALUE.fullmatch(text) is None:
            raise _invalid(f"the header {name!r} has characters that no header can carry")
    return headers


def _texts(value: Any) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else [str(value)]


def _fits(pattern: str, url: httpx2.URL) -> bool:
    return HostPattern.parse(pattern).matches(url.scheme, url.raw_host.decode().strip("[]"), url.port)


def _invalid(message: str) -> RequestRefused:
    return RequestRefused("invalid_arguments", message)


__all__ = [
    "IDEMPOTENT_METHODS", "OURS", "HttpSpec", "Outgoing", "RequestRefused", "SecretMissing", "outgoing", "redirected",
    "value_of_answer",
]  # fmt: skip
