"""People: signing up, in and out, new passwords, members, and members as callers of the API."""

import re
from typing import Any

import httpx2
import pytest

from sandbox.store.postgres.connection import acquired
from tenancy.mails.repository import latest_mails
from tests.fixtures.api import SCRIPT, Api
from tests.fixtures.database import Clock

PASSWORD = "seven purple tractors"
CSRF = re.compile(r'name="csrf" value="([^"]+)"')
LINK = re.compile(r"http://rewind\.test(/\S+)")


class Browser:
    """A browser without scripts: cookies, forms, no redirects followed unless told."""

    def __init__(self, api: Api, address: str = "198.51.100.7") -> None:
        self.api = api
        self.client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(api.app, client=(address, 1)),
            base_url="http://rewind.test",
            headers={"user-agent": "Browser/1"},
        )

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.client.get(path, **options)

    async def post(self, path: str, fields: dict[str, str], **options: Any) -> httpx2.Response:
        """Send a form as its page would: with the page's CSRF token, if it has one."""
        page = await self.client.get(path)
        found = CSRF.search(page.text)
        data = {**({} if found is None else {"csrf": found[1]}), **fields}
        return await self.client.post(path, data=data, **options)

    async def csrf(self) -> str:
        found = CSRF.search((await self.client.get("/organizations")).text)
        assert found is not None
        return found[1]

    async def sign_up(self, email: str, organization: str = "Acme") -> str:
        """Sign up and confirm; the organization's id."""
        fields = {"email": email, "password": PASSWORD, "organization": organization}
        answer = await self.post("/signup", fields)
        assert "We have sent a mail" in answer.text, answer.text
        confirmed = await self.post(await link(self.api, email), {"password": PASSWORD})
        assert (confirmed.status_code, confirmed.headers["location"]) == (303, "/organizations")
        return await self.organization()

    async def organization(self) -> str:
        found = re.search(r"/members\?organization=([0-9a-f-]+)", (await self.get("/organizations")).text)
        assert found is not None
        return found[1]

    async def log_in(self, email: str, password: str = PASSWORD) -> httpx2.Response:
        return await self.post("/login", {"email": email, "password": password})


async def mails(api: Api, recipient: str) -> list[str]:
    async with acquired(api.store.pool) as connection:
        return [mail.body for mail in await latest_mails(connection, 200) if mail.recipient == recipient]


async def link(api: Api, recipient: str) -> str:
    """The path of the link in the latest mail to this address."""
    found = LINK.search((await mails(api, recipient))[0])
    assert found is not None
    return found[1]


async def test_a_team_signs_up_and_has_a_key(own_api: Api) -> None:
    browser = Browser(own_api)
    organization = await browser.sign_up("ann@example.com")
    made = await browser.post(f"/keys?organization={organization}", {"do": "create", "name": "prod"})
    key = re.search(r"rwk_\w+", made.text)
    assert key is not None
    me = (await own_api.call("GET", "/v1/me", secret=key[0])).json()
    assert me["principal"]["organization"] == organization
    assert key[0] not in (await browser.get(f"/keys?organization={organization}")).text
    cookie = next(iter(browser.client.cookies.jar))
    assert cookie.has_nonstandard_attr("HttpOnly")


async def test_a_link_alone_makes_no_account(own_api: Api) -> None:
    browser, other = Browser(own_api), Browser(own_api)
    fields = {"email": "bob@example.com", "password": PASSWORD, "organization": "Bob's"}
    await browser.post("/signup", fields)
    path = await link(own_api, "bob@example.com")
    assert (await other.get(path)).status_code == 200
    wrong = await other.post(path, {"password": "a guess at something"})
    assert wrong.status_code == 401
    assert (await browser.log_in("bob@example.com")).status_code == 401
    assert (await browser.post(path, {"password": PASSWORD})).status_code == 303
    again = await other.post(path, {"password": PASSWORD})
    assert again.status_code == 404


async def test_nobody_learns_who_has_an_account(own_api: Api) -> None:
    browser = Browser(own_api)
    await browser.sign_up("known@example.com")
    other = Browser(own_api, "198.51.100.8")
    pages = []
    for email in ("known@example.com", "nobody@example.com"):
        fields = {"email": email, "password": PASSWORD, "organization": "Acme"}
        signed = await other.post("/signup", fields)
        reset = await other.post("/reset", {"email": email})
        wrong = await other.log_in(email, "not the password at all")
        pages.append(
            [(page.status_code, page.text.replace(email, "EMAIL")) for page in (signed, reset, wrong)]
        )
    assert pages[0] == pages[1]
    assert "There is one already" in (await mails(own_api, "known@example.com"))[1]
    assert len(await mails(own_api, "nobody@example.com")) == 1


@pytest.mark.parametrize(
    ("password", "says"),
    [
        ("short", "at least 10"),
        ("password123", "common"),
        ("zoe@example.com", "easily guessed|common|Take a longer"),
        ("x" * 300, "at most 256"),
    ],
)
async def test_passwords_that_are_not_accepted(own_api: Api, password: str, says: str) -> None:
    fields = {"email": "zoe@example.com", "password": password, "organization": "Zoe"}
    answer = await Browser(own_api).post("/signup", fields)
    assert answer.status_code == 400
    assert re.search(says, answer.text), answer.text
    assert await mails(own_api, "zoe@example.com") == []


async def test_a_new_password_ends_every_session(own_api: Api, clock: Clock) -> None:
    browser, elsewhere = Browser(own_api), Browser(own_api)
    await browser.sign_up("eve@example.com")
    assert (await elsewhere.log_in("eve@example.com")).status_code == 303
    await browser.post("/reset", {"email": "eve@example.com"})
    path = await link(own_api, "eve@example.com")
    weak = await browser.post(path, {"password": "password123"})
    assert weak.status_code == 400
    new = "nine orange submarines"
    changed = await browser.post(path, {"password": new})
    assert changed.headers["location"] == "/login?reset"
    for one in (browser, elsewhere):
        assert (await one.get("/organizations")).headers["location"].startswith("/login")
    assert (await browser.log_in("eve@example.com")).status_code == 401
    assert (await browser.log_in("eve@example.com", new)).status_code == 303
    assert (await browser.get(path)).status_code == 404
    assert "was changed" in (await mails(own_api, "eve@example.com"))[0]
    await browser.client.post("/logout", data={"csrf": await browser.csrf()})
    clock.advance(60_000)
    await browser.post("/reset", {"email": "eve@example.com"})
    late = await link(own_api, "eve@example.com")
    clock.advance(3_600_001)
    assert (await browser.post(late, {"password": new})).status_code == 404


async def test_wrong_passwords_make_the_account_wait(own_api: Api, clock: Clock) -> None:
    browser = Browser(own_api)
    await browser.sign_up("joe@example.com")
    other = Browser(own_api, "198.51.100.9")
    statuses = [(await other.log_in("joe@example.com", f"wrong password {n}")).status_code for n in range(7)]
    assert statuses == [401] * 6 + [429]
    blocked = await other.log_in("joe@example.com")
    assert blocked.status_code == 429
    assert "try again in" in blocked.text
    clock.advance(2_001)
    assert (await other.log_in("joe@example.com")).status_code == 303


async def test_forms_of_other_sites_are_not_taken(own_api: Api) -> None:
    browser = Browser(own_api)
    organization = await browser.sign_up("kim@example.com")
    csrf = await browser.csrf()
    fields = {"do": "create", "name": "x", "csrf": csrf}
    path = f"/keys?organization={organization}"
    for headers in (
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "null"},
    ):
        assert (await browser.client.post(path, data=fields, headers=headers)).status_code == 403
    without = await browser.client.post(path, data={"do": "create"})
    assert without.status_code == 400
    assert "rwk_" not in (await browser.get(path)).text.replace("rwk_…", "")


async def test_a_session_is_new_at_each_sign_in(own_api: Api) -> None:
    """A cookie that somebody planted, or that was there before, is worth nothing afterwards."""
    browser = Browser(own_api)
    await browser.sign_up("lea@example.com")
    before = browser.client.cookies["rewind_session"]
    await browser.client.post("/logout", data={"csrf": await browser.csrf()})
    browser.client.cookies.set("rewind_session", "planted")
    await browser.client.post("/login", data={"email": "lea@example.com", "password": PASSWORD})
    stale = Browser(own_api)
    for secret in (before, "planted"):
        stale.client.cookies.set("rewind_session", secret)
        assert (await stale.get("/organizations")).status_code == 303


async def test_sessions_are_listed_and_ended(own_api: Api, clock: Clock) -> None:
    here, there = Browser(own_api), Browser(own_api, "203.0.113.9")
    await here.sign_up("max@example.com")
    await there.log_in("max@example.com")
    page = (await here.get("/sessions")).text
    assert page.count("Browser/1") == 2
    assert "203.0.113.9" in page
    ended = await here.post("/sessions", {"do": "end_others"})
    assert ended.text.count("Browser/1") == 1
    assert (await there.get("/sessions")).status_code == 303
    clock.advance(7 * 86_400_000 + 1)
    assert (await here.get("/sessions")).headers["location"] == "/login?next=/sessions"


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\nb", ""])
async def test_sign_in_sends_on_within_this_site_only(own_api: Api, path: str) -> None:
    browser = Browser(own_api)
    await browser.sign_up("ned@example.com")
    await browser.client.post("/logout", data={"csrf": await browser.csrf()})
    fields = {"email": "ned@example.com", "password": PASSWORD, "next": path}
    answer = await browser.client.post("/login", data=fields)
    assert answer.headers["location"] == "/organizations"


# -- Members


async def test_invited_people_join_with_their_role(own_api: Api) -> None:
    owner = Browser(own_api)
    organization = await owner.sign_up("own@example.com")
    path = f"/members?organization={organization}"
    asked = await owner.post(path, {"do": "invite", "email": "New@Example.com", "role": "developer"})
    assert "on its way" in asked.text
    invited = Browser(own_api)
    joined = await invited.post(await link(own_api, "new@example.com"), {"password": PASSWORD})
    assert (joined.status_code, joined.headers["location"]) == (303, path)
    assert "developer" in (await invited.get(path)).text
    assert (
        await invited.post(path, {"do": "invite", "email": "x@example.com", "role": "viewer"})
    ).status_code == 403
    assert (await invited.get(f"/keys?organization={organization}")).status_code == 403
    assert (await owner.get(await link(own_api, "new@example.com"))).status_code == 404


async def test_invitations_have_a_page(own_api: Api) -> None:
    owner = Browser(own_api)
    organization = await owner.sign_up("own@example.com")
    assert "Nobody is invited" in (await owner.get("/invitations")).text, "of the only organization there is"
    asked = await owner.post("/invitations", {"do": "invite", "email": "new@example.com", "role": "viewer"})
    assert "on its way" in asked.text
    shown = await owner.get(f"/invitations?organization={organization}")
    assert "new@example.com" in shown.text
    invited = Browser(own_api)
    await invited.post(await link(own_api, "new@example.com"), {"password": PASSWORD})
    assert "An admin or the owner" in (await invited.get("/invitations")).text
    assert "Nobody is invited" in (await owner.get("/invitations")).text


async def test_without_a_name_the_only_organization_is_meant(own_api: Api) -> None:
    owner = Browser(own_api)
    await owner.sign_up("own@example.com")
    for page in ("/members", "/keys", "/invitations", "/sso", "/organization"):
        assert (await owner.get(page)).status_code == 200, page
    await owner.post("/organizations", {"organization": "Staging"})
    for page in ("/members", "/keys", "/invitations", "/sso", "/organization"):
        refused = await owner.get(page)
        assert (refused.status_code, "/organizations" in refused.text) == (404, True), page


async def test_an_invitation_is_for_its_address_only(own_api: Api) -> None:
    owner, other = Browser(own_api), Browser(own_api)
    organization = await owner.sign_up("own@example.com")
    await other.sign_up("other@example.com", "Other")
    path = f"/members?organization={organization}"
    await owner.post(path, {"do": "invite", "email": "third@example.com", "role": "admin"})
    invitation = await link(own_api, "third@example.com")
    refused = await other.client.post(invitation, data={"csrf": await other.csrf()})
    assert refused.status_code == 403
    assert (await other.get(path)).status_code == 404


async def test_an_organization_keeps_an_owner(own_api: Api) -> None:
    owner, second = Browser(own_api), Browser(own_api)
    organization = await owner.sign_up("own@example.com")
    path = f"/members?organization={organization}"
    await owner.post(path, {"do": "invite", "email": "two@example.com", "role": "admin"})
    await second.post(await link(own_api, "two@example.com"), {"password": PASSWORD})
    ids = dict(
        re.findall(
            r'name="person" value="([0-9a-f-]+)">\s*<select.*?<option selected>(\w+)',
            (await owner.get(path)).text,
            re.S,
        )
    )
    by_role = {role: person for person, role in ids.items()}
    refused = await owner.post(path, {"do": "remove", "person": by_role["owner"]})
    assert refused.status_code == 400
    assert "needs an owner" in refused.text
    assert (
        await second.post(path, {"do": "role", "person": by_role["owner"], "role": "viewer"})
    ).status_code == 403
    assert (
        await second.post(path, {"do": "role", "person": by_role["admin"], "role": "owner"})
    ).status_code == 403
    moved = await owner.post(path, {"do": "transfer", "person": by_role["admin"]})
    assert "you are an admin" in moved.text
    left = await owner.post(path, {"do": "remove", "person": by_role["owner"]})
    assert left.headers["location"] == "/organizations"
    assert (await owner.get(path)).status_code == 404


# -- Members as callers of the API


async def test_a_member_calls_the_api_by_cookie(own_api: Api) -> None:
    browser = Browser(own_api)
    organization = await browser.sign_up("api@example.com")
    here = f"?organization={organization}&namespace=acme"
    csrf = {"x-csrf-token": await browser.csrf()}
    started = await browser.client.post(f"/v1/runs{here}", json={"script": SCRIPT}, headers=csrf)
    assert started.status_code == 201, started.text
    assert started.json()["created_by"]["kind"] == "member"
    listed = await browser.get(f"/v1/runs{here}")
    assert [run["id"] for run in listed.json()["data"]] == [started.json()["id"]]
    without = await browser.client.post(f"/v1/runs{here}", json={"script": SCRIPT})
    assert (without.status_code, without.json()["errors"][0]["path"]) == (400, "X-CSRF-Token")
    nowhere = await browser.get("/v1/runs?namespace=acme")
    assert nowhere.json()["errors"][0]["path"] == "organization"
    foreign = await browser.get(f"/v1/runs?organization={own_api.organization}&namespace=acme")
    assert foreign.status_code == 404
    me = (await browser.get(f"/v1/me{here}")).json()
    assert me["principal"]["kind"] == "member"


@pytest.mark.parametrize(
    ("role", "may"),
    [("viewer", (200, 403, 403, 403)), ("developer", (200, 201, 403, 403)), ("admin", (200, 201, 201, 200))],
)
async def test_what_a_role_may_do(own_api: Api, role: str, may: tuple[int, ...]) -> None:
    owner, member = Browser(own_api), Browser(own_api)
    organization = await owner.sign_up("own@example.com")
    await owner.post(
        f"/members?organization={organization}", {"do": "invite", "email": "m@example.com", "role": role}
    )
    await member.post(await link(own_api, "m@example.com"), {"password": PASSWORD})
    here, csrf = f"?organization={organization}&namespace=a", {"x-csrf-token": await member.csrf()}
    await owner.client.put(f"/v1/namespaces/a{here}", json={}, headers={"x-csrf-token": await owner.csrf()})
    answers = (
        await member.get(f"/v1/runs{here}"),
        await member.client.post(f"/v1/runs{here}", json={"script": SCRIPT}, headers=csrf),
        await member.client.post(f"/v1/webhooks{here}", json={"url": "https://example.com/"}, headers=csrf),
        await member.get(f"/v1/keys{here}"),
    )
    assert tuple(answer.status_code for answer in answers) == may
