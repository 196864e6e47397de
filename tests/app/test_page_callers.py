"""Every page as every kind of caller, against the table in `page_callers.py`: a page without a row fails."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.routing import Mount, Route

from dashboard.web import FORM_BYTES_MAX
from tests.app.page_callers import ADMIN, OPEN, OWN, OWNER, PAGES, SIGN_IN, VIEWER, Page
from tests.app.test_callers import ROLES, member, some_address
from tests.app.test_people import Browser
from tests.fixtures.api import Api
from tests.fixtures.database import Clock
from tests.fixtures.world import World, build_world, suspend_organization, world

__all__ = ["world"]
CHUNK = 16 * 1024
OF_ORGANIZATIONS = [page for page in PAGES if page.role in {VIEWER, ADMIN, OWNER}]
CLOSED = [page for page in PAGES if page.role != OPEN]


async def ask(
    browser: Browser, page: Page, organization: str, csrf: str = "", **headers: str
) -> httpx2.Response:
    path = (
        page.path.replace("{secret}", "x" * 43)
        .replace("{provider}", "nonsense")
        .replace("{path:path}", "old")
    )
    path += f"?organization={organization}"
    if page.method == "GET":
        return await browser.client.get(path, headers={"accept": "text/html,*/*;q=0.8", **headers})
    fields = {name: value.replace("{organization}", organization) for name, value in page.fields.items()}
    data = {**fields, **({"csrf": csrf} if csrf else {})}
    return await browser.client.post(path, data=data, headers=headers)


def test_the_table_has_every_page(world: World) -> None:
    declared = set()
    for route in world.api.services.pages.routes:
        if isinstance(route, Mount):
            assert route.path == "/static"
            continue
        assert isinstance(route, Route)
        declared |= {(method, route.path) for method in route.methods or () if method != "HEAD"}
    assert {(page.method, page.path) for page in PAGES} == declared
    assert len(PAGES) == len(declared)


async def wrong_for_nobody(world: World, browser: Browser, pages: list[Page]) -> list[str]:
    found = []
    for page in pages:
        answer = await ask(browser, page, world.organization)
        leads = answer.headers.get("location", "").startswith("/login")
        if answer.status_code != page.nobody or (page.nobody == SIGN_IN and not leads):
            found.append(f"{page}: {answer.status_code} {answer.headers.get('location')}")
    return found


async def test_nobody(world: World) -> None:
    browser = Browser(world.api)
    assert await wrong_for_nobody(world, browser, PAGES) == []
    browser.client.cookies.set("rewind_session", "x" * 43)
    assert await wrong_for_nobody(world, browser, CLOSED) == []


async def test_whose_session_has_ended(own_api: Api, clock: Clock) -> None:
    world = await build_world(own_api)
    for how in ("ended", "expired"):
        browser, headers = await member(world, f"{how}@example.com", "owner")
        cookie = browser.client.cookies["rewind_session"]
        if how == "ended":
            await browser.client.post("/logout", data={"csrf": headers["x-csrf-token"]})
        else:
            clock.advance(31 * 86_400_000)
        browser.client.cookies.set("rewind_session", cookie)
        assert await wrong_for_nobody(world, browser, CLOSED) == [], how


@pytest.mark.parametrize("role", ROLES)
async def test_a_member(world: World, role: str) -> None:
    browser, headers = await member(world, f"page{role}{world.organization[-6:]}@example.com", role)
    found = []
    for page in CLOSED:
        answer = await ask(browser, page, world.organization, headers["x-csrf-token"])
        may = page.role == OWN or ROLES.index(role) >= ROLES.index(page.role)
        refused = answer.status_code in {401, 403, 404}
        if page.path in {"/organization/restore", "/security/passkey/options"}:
            continue  # nothing is closed that could be restored; a passkey takes the password again
        if (answer.status_code == 403) == may or (may and refused) or answer.status_code >= 500:
            found.append(f"{page}: {answer.status_code}")
    assert found == []


async def test_a_member_of_another_organization(world: World) -> None:
    browser = Browser(world.api, some_address())
    await browser.sign_up(f"else{world.organization[-6:]}@example.com", "Else")
    csrf = await browser.csrf()
    for page in OF_ORGANIZATIONS:
        for named in (world.organization, "nonsense", "01890000-0000-7000-8000-000000000000"):
            answer = await ask(browser, page, named, csrf)
            assert answer.status_code == 404, f"{page}: {answer.status_code}"
            assert world.api.key[:12] not in answer.text


async def test_a_suspended_organization(own_api: Api) -> None:
    world = await build_world(own_api)
    browser, headers = await member(world, "own@example.com", "owner")
    await suspend_organization(own_api, world.organization)
    for page in OF_ORGANIZATIONS:
        answer = await ask(browser, page, world.organization, headers["x-csrf-token"])
        assert answer.status_code == 403, f"{page}: {answer.status_code}"
        assert "suspended" in answer.text


async def test_a_form_needs_the_csrf_token_and_this_site(world: World) -> None:
    browser, headers = await member(world, f"form{world.organization[-6:]}@example.com", "owner")
    csrf = headers["x-csrf-token"]
    for page in CLOSED:
        if page.method == "POST":
            for token in ("", "x" * 43):
                answer = await ask(browser, page, world.organization, token)
                assert answer.status_code == 400, f"{page}: {answer.status_code}"
    for page in PAGES:
        if page.method == "POST":
            for header in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
                answer = await ask(browser, page, world.organization, csrf, **header)
                assert answer.status_code == 403, f"{page}: {answer.status_code}"


async def test_every_page_is_hardened(world: World) -> None:
    browser, headers = await member(world, f"hard{world.organization[-6:]}@example.com", "owner")
    nobody = Browser(world.api)
    for page in PAGES:
        for one in (nobody, browser):
            answer = await ask(one, page, world.organization, headers["x-csrf-token"])
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy, str(page)
            assert "frame-ancestors 'none'" in policy, str(page)
            assert "unsafe" not in policy, str(page)
            assert answer.headers["cache-control"] == "no-store", str(page)
            assert answer.headers["x-content-type-options"] == "nosniff", str(page)
            assert answer.headers["x-frame-options"] == "DENY", str(page)
            assert answer.headers["referrer-policy"] == "same-origin", str(page)
            assert not [name for name in answer.headers if name.startswith("access-control-")], str(page)
        if page.path == "/logout":
            browser, headers = await member(world, f"har2{world.organization[-6:]}@example.com", "owner")


async def test_no_page_reads_a_form_without_end(world: World) -> None:
    browser, _ = await member(world, f"long{world.organization[-6:]}@example.com", "owner")
    for page in PAGES:
        if page.method != "POST":
            continue
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            while sent < 64 * FORM_BYTES_MAX:
                sent += CHUNK
                yield b"x" * CHUNK

        path = page.path.replace("{secret}", "x" * 43) + f"?organization={world.organization}"
        kind = {"content-type": "application/x-www-form-urlencoded"}
        answer = await browser.client.post(path, content=endless(), headers=kind)
        assert answer.status_code in {page.nobody, 400, 401, 404, 413}, f"{page}: {answer.status_code}"
        assert sent <= FORM_BYTES_MAX + 2 * CHUNK, f"{page} has read {sent} bytes"


async def test_where_no_page_is_a_browser_gets_one_and_a_client_a_problem(world: World) -> None:
    browser = Browser(world.api)
    shown = await browser.client.get("/runs/old", headers={"accept": "text/html,*/*"})
    assert (shown.status_code, "There is nothing at <code>/runs/old</code>" in shown.text) == (404, True)
    for path, accept in (("/runs/old", "application/json"), ("/v1/old", "text/html")):
        refused = await browser.client.get(path, headers={"accept": accept})
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    wrong = await browser.client.get("/v1/tasks/claim", headers={"accept": "text/html"})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
