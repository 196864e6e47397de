"""What answers carry against browsers, whose address counts, and where the server refuses to listen."""

import ipaddress
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from starlette.responses import Response

from app.body import BODY_BYTES_MAX
from app.config import Settings
from app.hardening import Exposure, client_behind
from app.main import create_app
from dashboard.web import Site
from sandbox.config import SettingsError
from tests.app.callers import ROWS, Row
from tests.fixtures.api import Api
from tests.fixtures.world import NOBODY_ID
from tests.sandbox.test_config import ENVIRONMENT

CHUNK = 64 * 1024
TRUSTED = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("127.0.0.1/32"))


@pytest.mark.parametrize(
    "path", ["/v1/me", "/v1/nothing", "/v1/runs", "/docs", "/openapi.json", "/healthz", "/llms.txt", "/login"]
)
async def test_every_answer_is_hardened(api: Api, path: str) -> None:
    answer = await api.call("GET", path)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] in {"no-referrer", "same-origin"}
    assert "server" not in answer.headers
    assert "strict-transport-security" not in answer.headers, "it is served over http here"
    if path.startswith("/v1"):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    if path == "/docs":
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/v1/me", "/v1/tasks/claim", "/openapi.json", "/login"])
async def test_no_other_site_may_read_an_answer(api: Api, path: str) -> None:
    asked = {"origin": "https://evil.example", "access-control-request-method": "GET"}
    for method in ("OPTIONS", "GET", "POST"):
        answer = await api.call(method, path, headers=asked)
        assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_over_https_browsers_are_told_to_stay_there(api: Api) -> None:
    app = create_app(
        api.services, (), Exposure("https://rewind.example.com", security_contact="mailto:a@b.example")
    )
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as client:
        assert "max-age" in (await client.get("/healthz")).headers["strict-transport-security"]
        text = (await client.get("/.well-known/security.txt")).text
    lines = dict(line.split(": ", 1) for line in text.splitlines())
    assert lines["Contact"] == "mailto:a@b.example"
    assert lines["Expires"].endswith("Z")
    assert lines["Canonical"] == "https://rewind.example.com/.well-known/security.txt"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6", "198.51.100.1, 10.0.0.7"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, nonsense"], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
    ],
)
def test_only_trusted_proxies_say_who_the_client_is(peer: str, forwarded: list[str], client: str) -> None:
    assert client_behind(peer, forwarded, TRUSTED) == client


async def test_a_keys_networks_are_judged_by_the_client_behind_the_proxy(api: Api) -> None:
    app = create_app(api.services, (), Exposure(trusted_proxies=TRUSTED))
    made = (await api.call("POST", "/v1/keys", json={"allow_ips": ["198.51.100.0/24"]})).json()
    secret = {"authorization": f"Bearer {made['key']}"}
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://x", headers=secret) as client:
        for address, status in (("198.51.100.7", 200), ("203.0.113.1", 403)):
            assert (await client.get("/v1/me", headers={"x-forwarded-for": address})).status_code == status
    plain = await api.call("GET", "/v1/me", secret=made["key"], headers={"x-forwarded-for": "198.51.100.7"})
    assert plain.status_code == 403, "nobody is trusted here"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_nothing_is_served_in_the_clear_beyond_this_machine(host: str) -> None:
    with pytest.raises(SettingsError, match="REWIND_BEHIND_TLS=1"):
        Settings.from_env({**ENVIRONMENT, "REWIND_HOST": host})
    for allowed in ({"REWIND_BEHIND_TLS": "1"}, {"REWIND_PUBLIC_URL": "https://rewind.example.com"}):
        assert Settings.from_env({**ENVIRONMENT, "REWIND_HOST": host, **allowed}).host == host


def test_wrong_settings_are_named() -> None:
    with pytest.raises(SettingsError, match=r"REWIND_TRUSTED_PROXIES must be networks such as 10\.0\.0\.0/8"):
        Settings.from_env({**ENVIRONMENT, "REWIND_TRUSTED_PROXIES": "10.0.0.0/8,proxy"})
    with pytest.raises(SettingsError, match="REWIND_SECURITY_CONTACT"):
        Settings.from_env({**ENVIRONMENT, "REWIND_SECURITY_CONTACT": "somebody"})


@pytest.mark.parametrize("row", [row for row in ROWS if row.body is not None], ids=str)
async def test_no_body_is_read_beyond_its_limit(api: Api, row: Row) -> None:
    """Announced or not; what a call takes is decided before it reads."""
    path = row.path + "?namespace=acme"
    for name in ("run", "call", "name", "workflow", "webhook", "key"):
        path = path.replace(f"{{{name}}}", "1" if name == "call" else NOBODY_ID)
    kind = {"content-type": "application/json"}
    announced = {**kind, "content-length": str(10**12)}
    answer = await api.call(row.method, path, content=b"{}", headers=announced)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_an_endless_body_is_let_go_of(api: Api) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * BODY_BYTES_MAX:
            sent += CHUNK
            yield b" " * CHUNK

    answer = await api.call(
        "POST", "/v1/tokens", content=endless(), headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert sent <= BODY_BYTES_MAX + 2 * CHUNK


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_cookies_are_for_this_host_and_for_no_script(scheme: str) -> None:
    """`__Host-`: set by this very host, for all of it, over TLS; browsers hold to that."""
    secure = scheme == "https"
    site = Site(cast("Any", None), f"{scheme}://rewind.example.com")
    session = cast("Any", SimpleNamespace(secret="s" * 43))
    made = [
        site.begin(Response(), session),
        site.set_step(Response(), "code", "x"),
        site.end(Response()),
        site.end_step(Response(), "code"),
    ]
    for response in made:
        [cookie] = response.headers.getlist("set-cookie")
        name, _, rest = cookie.partition("=")
        attributes = [part.strip().lower() for part in rest.split(";")[1:]]
        assert {"httponly", "samesite=lax", "path=/"} <= set(attributes)
        assert not [part for part in attributes if part.startswith("domain")]
        assert ("secure" in attributes) == secure
        assert name.startswith("__Host-") == secure
