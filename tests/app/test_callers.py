"""Every endpoint as every kind of caller, against the table in `callers.py`: a route without a row fails."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from app.openapi import openapi_of
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.reach import as_system
from tenancy.people.repository import insert_member
from tenancy.principals import KEY_SCOPES, TOKEN_SCOPES, TOKEN_SCOPES_DEFAULT, Scope
from tests.app.callers import ROWS, Row
from tests.app.test_people import Browser
from tests.fixtures.api import SCRIPT, Api
from tests.fixtures.database import Clock
from tests.fixtures.world import NOBODY_ID, World, build_world, suspend_organization, world

__all__ = ["world"]
ALL = [str(scope) for scope in TOKEN_SCOPES]
EVERYTHING = [str(scope) for scope in KEY_SCOPES]
ROLES = ["viewer", "developer", "admin", "owner"]
SECRET_CHARS_MIN = 12
"""What is shorter is a number within a run, or a name that both tenants use."""
Ask = Callable[[Row], Awaitable[httpx2.Response]]


async def wrong_answers(
    ask: Ask, expected: Callable[[Row], int | None], code: str | None = None
) -> list[str]:
    """Rows that are answered otherwise. `expected` None: anything but a refusal of the caller."""
    found = []
    for row in ROWS:
        answer = await ask(row)
        wanted = expected(row)
        assert answer.headers["x-request-id"].startswith("req_"), str(row)
        assert answer.headers["cache-control"] == "no-store", str(row)
        assert answer.headers["x-content-type-options"] == "nosniff", str(row)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'"), str(row)
        assert not [name for name in answer.headers if name.startswith("access-control-")], str(row)
        fine = answer.status_code == wanted
        if wanted is None:
            fine = answer.status_code not in {401, 403} and answer.status_code < 500
        elif fine and wanted >= 400:
            problem = answer.json()
            fine = answer.headers["content-type"] == "application/problem+json"
            fine = fine and problem["status"] == wanted and (code is None or problem["code"] == code)
        if not fine:
            found.append(f"{row}: {answer.status_code}, not {wanted}: {answer.text[:200]}")
    return found


def asking(world: World, secret: str | None, query: str = "?namespace=acme", **options: Any) -> Ask:
    async def ask(row: Row) -> httpx2.Response:
        return await world.call(row.method, row.path, row.body, secret, query, **options)

    return ask


def shows_ours(world: World, answer: httpx2.Response) -> bool:
    """Whether an id of ours is in it that the caller did not name."""
    sent = f"{answer.url} {answer.request.content!r}"
    ours = {value for value in (*world.places.values(), world.ended) if len(value) >= SECRET_CHARS_MIN}
    ours -= {world.places["{digest}"], NOBODY_ID}  # the same script may be anybody's
    return any(value in answer.text and value not in sent for value in ours)


async def test_the_table_has_every_endpoint(api: Api) -> None:
    document = openapi_of(api.app, "1")()
    declared = {
        (method.upper(), path.replace("{reference}", "{name}")): operation["x-required-scope"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if path.startswith("/v1/")
    }
    assert {(row.method, row.path): row.scope for row in ROWS} == declared
    assert len(ROWS) == len(declared)


# -- Nobody, and who is nobody any more


async def test_nobody(world: World) -> None:
    for headers in ({}, {"authorization": "Basic dTpw"}, {"cookie": "rewind_session=forged"}):
        ask = asking(world, "", headers=headers)
        assert await wrong_answers(ask, lambda _: 401, "unauthenticated") == []
    answer = await world.call("GET", "/v1/me", None, "")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("secret", ["rwk_" + "0" * 49, "rwt_" + "0" * 49, "rwk_", "x"])
async def test_an_unknown_secret(world: World, secret: str) -> None:
    assert await wrong_answers(asking(world, secret), lambda _: 401, "unauthenticated") == []


async def test_revoked_and_expired(own_api: Api, clock: Clock) -> None:
    """A token and a key of each kind, and the session of a person."""
    world = await build_world(own_api)
    kept = await own_api.token("acme", ALL, ttl=None)
    gone = {
        "an expired token": await own_api.token("acme", ALL, ttl="1h"),
        "a revoked token": await own_api.token("acme", ALL, name="revoked"),
    }
    at = (await own_api.call("GET", "/v1/namespaces/acme")).json()["created_at"]
    for what, fields in {"an expired key": {"expires_at": at[:4]}, "a revoked key": {}}.items():
        body = {"scopes": EVERYTHING, **({"expires_at": _later(at)} if fields else {})}
        made = (await own_api.call("POST", "/v1/keys", json=body)).json()
        gone[what] = made["key"]
        if not fields:
            assert (await own_api.call("DELETE", f"/v1/keys/{made['id']}")).status_code == 204
    for token in (await own_api.call("GET", "/v1/tokens")).json()["data"]:
        if token["name"] == "revoked":
            assert (await own_api.call("DELETE", f"/v1/tokens/{token['id']}")).status_code == 204
    clock.advance(3_600_001)
    own_api.services.tenancy.forget()
    for what, secret in gone.items():
        found = await wrong_answers(asking(world, secret), lambda _: 401, "unauthenticated")
        assert found == [], what
    assert (await own_api.call("GET", "/v1/me", secret=kept)).status_code == 200


def _later(at: str) -> str:
    """An hour later than this time, as the API writes times."""
    import datetime as dt

    moment = dt.datetime.fromisoformat(at) + dt.timedelta(minutes=59)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def test_sessions_that_have_ended(own_api: Api, clock: Clock) -> None:
    world = await build_world(own_api)
    for how in ("signed out", "expired"):
        browser, headers = await member(world, f"{how[:3]}@example.com", "owner")
        ask = asking(world, "", f"?namespace=acme&organization={world.organization}", headers=headers)
        assert (await ask(ROWS[0])).status_code == 200
        if how == "signed out":
            await browser.client.post("/logout", data={"csrf": headers["x-csrf-token"]})
        else:
            clock.advance(31 * 86_400_000)
        assert await wrong_answers(ask, lambda _: 401, "unauthenticated") == [], how


# -- Others


async def test_another_organization(world: World) -> None:
    leaks = []

    async def ask(row: Row) -> httpx2.Response:
        secret = await world.api.other_organization()
        answer = await world.call(row.method, row.path, row.body, secret)
        if shows_ours(world, answer) or _done(row, answer):
            leaks.append(f"{row}: {answer.text[:300]}")
        return answer

    assert await wrong_answers(ask, lambda row: row.stranger) == []
    assert leaks == []
    run = await world.call("GET", "/v1/runs/{run}", None, None)
    assert (run.status_code, run.json()["cancelling"]) == (200, False)


async def test_another_namespace(world: World) -> None:
    secret = await world.api.token("other", ALL)
    leaks = []

    async def ask(row: Row) -> httpx2.Response:
        named = "" if row.path.startswith("/v1/tasks/") else "?namespace=acme"
        answer = await world.call(row.method, row.path, row.body, secret, named)
        if shows_ours(world, answer) or _done(row, answer):
            leaks.append(f"{row}: {answer.text[:300]}")
        if row.neighbour == 404:  # the same when it names no namespace: its own is meant
            without = await world.call(row.method, row.path, row.body, secret, "")
            if "{run}" in row.path:
                assert without.status_code in {404, 403}, f"{row}: {without.text}"
            assert not shows_ours(world, without), f"{row}: {without.text}"
        return answer

    assert await wrong_answers(ask, lambda row: row.neighbour) == []
    assert leaks == []


def _done(row: Row, answer: httpx2.Response) -> bool:
    """Whether a call that answers per item did anything to ours."""
    if not answer.is_success or row.path not in {"/v1/approvals/decide", "/v1/runs/batch", *SETTLING}:
        return False
    codes = {"not_found", "unknown_token", "unknown_toolset"}
    return any((item.get("problem") or item)["code"] not in codes for item in answer.json()["results"])


SETTLING = {row.path for row in ROWS if row.path.startswith("/v1/tasks/") and row.path != "/v1/tasks/claim"}


# -- Ours, with less


async def test_a_key_of_all_scopes(world: World) -> None:
    assert await wrong_answers(asking(world, None), lambda row: row.key) == []


@pytest.mark.parametrize("missing", EVERYTHING)
async def test_without_the_scope(world: World, missing: str) -> None:
    """A key that lacks it, and a token that has every other: refused before anything is read."""
    left = [scope for scope in EVERYTHING if scope != missing]
    key = (await world.api.call("POST", "/v1/keys", json={"scopes": left})).json()["key"]
    tokens = {key, await world.api.token("acme", [scope for scope in ALL if scope != missing])}
    for secret in tokens:
        for row in ROWS:
            if row.scope != missing:
                continue
            answer = await world.call(row.method, row.path, row.body, secret)
            assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope"), str(row)
            assert missing in answer.json()["detail"], str(row)


@pytest.mark.parametrize(
    ("kind", "narrow"),
    [
        ("run", {"run": NOBODY_ID}),
        ("toolset", {"toolset": "elsewhere"}),
        ("workflow", {"workflows": ["elsewhere"]}),
    ],
)
async def test_a_narrowed_token(world: World, kind: str, narrow: dict[str, Any]) -> None:
    secret = await world.api.token("acme", ALL, narrow=narrow)
    assert await wrong_answers(asking(world, secret), lambda row: getattr(row, kind)) == []
    done = await world.call("POST", "/v1/runs/batch", {"items": [{"script": SCRIPT}]}, secret)
    assert [item["problem"]["code"] for item in done.json()["results"]] == ["insufficient_scope"]


@pytest.mark.parametrize("role", ROLES)
async def test_a_member_by_cookie(world: World, role: str) -> None:
    _, headers = await member(world, f"{role}{world.organization[-6:]}@example.com", role)
    ask = asking(world, "", f"?namespace=acme&organization={world.organization}", headers=headers)

    def expected(row: Row) -> int | None:
        may = row.role is not None and ROLES.index(role) >= ROLES.index(row.role)
        return None if may else 403

    assert await wrong_answers(ask, expected, "insufficient_scope") == []


async def test_a_member_of_another_organization(world: World) -> None:
    browser = Browser(world.api, some_address())
    own = await browser.sign_up(f"other{world.organization[-6:]}@example.com", "Other")
    headers = await session_of(browser)
    foreign = asking(world, "", f"?namespace=acme&organization={world.organization}", headers=headers)
    assert await wrong_answers(foreign, lambda _: 404, "not_found") == []
    for row in ROWS:
        answer = await world.call(
            row.method, row.path, row.body, "", f"?namespace=acme&organization={own}", headers=headers
        )
        assert answer.status_code < 500, str(row)
        assert not shows_ours(world, answer), f"{row}: {answer.text[:300]}"


async def test_a_write_by_cookie_needs_the_csrf_token(world: World) -> None:
    _, headers = await member(world, f"csrf{world.organization[-6:]}@example.com", "owner")
    for token in (None, "x" * 43):
        given = {"cookie": headers["cookie"], **({} if token is None else {"x-csrf-token": token})}
        ask = asking(world, "", f"?namespace=acme&organization={world.organization}", headers=given)
        found = []
        for row in ROWS:
            if row.method != "GET":
                answer = await ask(row)
                if answer.status_code != 400 or answer.json()["errors"][0]["path"] != "X-CSRF-Token":
                    found.append(f"{row}: {answer.status_code}")
        assert found == []


# -- Suspended


async def test_a_suspended_namespace(world: World) -> None:
    """Reading goes on; nothing is started, sent or decided, by nobody."""
    token = await world.api.token("acme", ALL)
    await world.api.call("POST", "/v1/namespaces/acme/suspend")
    writes = [row for row in ROWS if row.suspended == 403 and row.scope != "manage"]
    for row in writes:
        for secret in (None, token):
            answer = await world.call(row.method, row.path, row.body, secret)
            assert (answer.status_code, answer.json()["code"]) == (403, "namespace_suspended"), str(row)
    assert len(writes) > 8
    for path, body in (("/v1/runs/batch", {"items": [{"script": SCRIPT}]}), ("/v1/approvals/decide", None)):
        row = next(row for row in ROWS if row.path == path)
        answer = (await world.call(row.method, path, body or row.body, None)).json()["results"][0]
        assert (answer.get("problem") or answer)["code"] == "namespace_suspended", path
    assert await wrong_answers(asking(world, None), lambda row: row.suspended) == []


async def test_a_suspended_organization(own_api: Api) -> None:
    """All of it, and all who belong to it."""
    world = await build_world(own_api)
    token = await own_api.token("acme", ALL)
    _, headers = await member(world, "own@example.com", "owner")
    await suspend_organization(own_api, world.organization)
    query = f"?namespace=acme&organization={world.organization}"
    for ask in (asking(world, None), asking(world, token), asking(world, "", query, headers=headers)):
        assert await wrong_answers(ask, lambda _: 403, "organization_suspended") == []
    await suspend_organization(own_api, world.organization, on=False)
    assert (await own_api.call("GET", "/v1/me")).status_code == 200


# -- Details


async def session_of(browser: Browser) -> dict[str, str]:
    """The headers of a call that a page makes."""
    csrf = await browser.csrf()
    cookies = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    return {"cookie": cookies, "x-csrf-token": csrf}


def some_address() -> str:
    """Of a browser: one address may not sign up as often as these tests do."""
    return f"198.18.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


async def member(world: World, email: str, role: str) -> tuple[Browser, dict[str, str]]:
    """A person who has signed up, and become a member of our organization with this role."""
    browser = Browser(world.api, some_address())
    await browser.sign_up(email, "Own")
    with as_system():
        async with acquired(world.api.store.pool) as connection:
            person = await connection.fetchval("select id from people where email = $1", email)
            at = await connection.fetchval("select now_ms()")
            assert await insert_member(connection, world.api.organization, str(person), role, at)
    return browser, await session_of(browser)


async def test_the_scope_is_judged_before_the_body(api: Api) -> None:
    secret = await api.token("acme", ["runs:read"])
    answer = await api.call(
        "POST", "/v1/runs", secret=secret, content=b"{", headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 403


async def test_a_revoked_token_is_refused(api: Api) -> None:
    secret = await api.token("acme")
    assert (await api.call("GET", "/v1/runs", secret=secret)).status_code == 200
    (listed,) = (await api.call("GET", "/v1/tokens")).json()["data"]
    assert (await api.call("DELETE", f"/v1/tokens/{listed['id']}")).status_code == 204
    assert (await api.call("GET", "/v1/runs", secret=secret)).status_code == 401
    assert (await api.call("DELETE", f"/v1/tokens/{listed['id']}")).status_code == 404


@pytest.mark.parametrize(
    ("narrow", "body", "status"),
    [
        ({"toolset": "support"}, {"script": SCRIPT, "toolset": "support"}, 201),
        ({"toolset": "support"}, {"script": SCRIPT, "toolset": "other"}, 403),
        ({"toolset": "support"}, {"script": SCRIPT}, 403),
        ({"workflows": ["onboard"]}, {"script": SCRIPT}, 403),
        ({"workflows": ["onboard"]}, {"workflow": "onboard"}, 422),
        ({"run": "01890000-0000-7000-8000-000000000000"}, {"script": SCRIPT}, 403),
    ],
)
async def test_what_a_narrowed_token_may_start(
    api: Api, narrow: dict[str, Any], body: dict[str, Any], status: int
) -> None:
    await api.toolset("support")
    secret = await api.token("acme", narrow=narrow)
    answer = await api.call("POST", "/v1/runs", secret=secret, json=body)
    assert answer.status_code == status, answer.text


async def test_a_token_for_one_run_sees_no_other(api: Api) -> None:
    one, other = await api.start(), await api.start()
    secret = await api.token(
        "acme", ["runs:read", "signals:write", "tasks:work"], narrow={"run": one["id"], "signals": ["go"]}
    )
    assert (await api.call("GET", f"/v1/runs/{one['id']}", secret=secret)).status_code == 200
    assert (await api.call("GET", f"/v1/runs/{other['id']}", secret=secret)).status_code == 404
    listed = await api.call("GET", "/v1/runs", secret=secret)
    assert [run["id"] for run in listed.json()["data"]] == [one["id"]]
    for run, name, status in [(one, "go", 202), (one, "stop", 403), (other, "go", 404)]:
        answer = await api.call("POST", f"/v1/runs/{run['id']}/signals", secret=secret, json={"name": name})
        assert answer.status_code == status
    claim = await api.call("POST", "/v1/tasks/claim", secret=secret, json={"max": 1})
    assert claim.status_code == 403


def test_an_agent_must_not_approve_itself_by_default() -> None:

    assert set(TOKEN_SCOPES_DEFAULT).isdisjoint({Scope.APPROVALS_WRITE, Scope.TASKS_WORK, Scope.MANAGE})
