"""Signing in by a provider, against a real one on this machine: the ways in, two tabs (O30), and the usual attacks."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from sandbox.store.blobs import BlobStore
from sandbox.store.postgres.connection import acquired
from tenancy.people.oidc import Provider
from tenancy.people.throttle import address_subject
from tenancy.throttling.repository import note_failure
from tests.app.test_people import PASSWORD, Browser, mails
from tests.fixtures.api import Api, running_api
from tests.fixtures.database import Clock
from tests.fixtures.oidc import OidcProvider

BEGIN = "/login/oidc/deployment"


@pytest.fixture
async def site(
    database_url: str, blobs: BlobStore, tmp_path: Path, provider: OidcProvider
) -> AsyncIterator[Api]:
    """An api whose deployment has the provider."""
    known = Provider("deployment", "Example", provider.url, "rewind", "a secret")
    async with running_api(database_url, blobs, tmp_path / "h", provider=known) as made:
        yield made


async def begin(browser: Browser, path: str = BEGIN) -> str:
    """Open a tab and go to the provider: the address there."""
    answer = await browser.get(path)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def signed_in(browser: Browser) -> bool:
    return (await browser.get("/organizations")).status_code == 200


def altered(path: str, **fields: str | None) -> str:
    """The same answer with other fields; None: without it."""
    parts = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | fields
    return f"{parts.path}?{urlencode({name: value for name, value in query.items() if value is not None})}"


async def linked(site: Api) -> list[tuple[str, str]]:
    async with acquired(site.store.pool) as connection:
        rows = await connection.fetch(
            "select i.subject, p.email from identities i join people p on p.id = i.person_id order by 1"
        )
    return [tuple(row) for row in rows]


async def test_a_person_signs_up_and_comes_back(site: Api, provider: OidcProvider) -> None:
    provider.person("u1", email="Ann@Example.com", email_verified=True, name="Ann")
    browser, later = Browser(site), Browser(site)
    asked = parse_qs(urlsplit(await begin(Browser(site))).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["response_type"] == ["code"]
    assert {"openid", "email"} <= set(asked["scope"][0].split())
    assert asked["redirect_uri"] == ["http://rewind.test/login/oidc/deployment/callback"]
    assert len(asked["state"][0]) >= 43
    assert len(asked["nonce"][0]) >= 43
    for one in (browser, later):
        back = provider.sign_in(await begin(one, f"{BEGIN}?next=/sessions"), "u1")
        answer = await one.get(back)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sessions"), answer.text
        assert "ann@example.com" in (await one.get("/sessions")).text
        assert [cookie.name for cookie in one.client.cookies.jar] == ["rewind_session"]
    assert await linked(site) == [("u1", "ann@example.com")]


async def test_o30_two_tabs_at_once_both_sign_in(site: Api, provider: OidcProvider) -> None:
    provider.person("tabs", email="tabs@example.com", email_verified=True)
    browser = Browser(site)
    first, second = await begin(browser, f"{BEGIN}?next=/sessions"), await begin(browser)
    answers = [await browser.get(provider.sign_in(address, "tabs")) for address in (first, second)]
    assert [answer.headers["location"] for answer in answers] == ["/sessions", "/organizations"]
    assert await signed_in(browser)


async def test_o30_the_second_tab_first(site: Api, provider: OidcProvider) -> None:
    provider.person("tabs2", email="tabs2@example.com", email_verified=True)
    browser = Browser(site)
    first, second = await begin(browser), await begin(browser)
    for address in (second, first):
        assert (await browser.get(provider.sign_in(address, "tabs2"))).status_code == 303


async def test_o30_a_state_works_once(site: Api, provider: OidcProvider) -> None:
    """Going back in the browser, or a code caught on its way: a page that says what to do, and no session."""
    provider.person("once", email="once@example.com", email_verified=True)
    browser = Browser(site)
    back = provider.sign_in(await begin(browser), "once")
    kept = dict(browser.client.cookies)
    assert (await browser.get(back)).status_code == 303
    other = Browser(site)
    other.client.cookies.update(kept)
    for one in (browser, other):
        again = await one.get(back)
        assert again.status_code == 401
        assert "begin again" in again.text
    assert await signed_in(browser)
    assert not await signed_in(other)


async def test_mixed_up_tabs(site: Api, provider: OidcProvider) -> None:
    """The code of one tab with the state of another: the nonce of its token is not that tab's."""
    provider.person("mix", email="mix@example.com", email_verified=True)
    browser = Browser(site)
    one, two = [parse_qs(urlsplit(provider.sign_in(await begin(browser), "mix")).query) for _ in range(2)]
    mixed = urlencode({"code": one["code"][0], "state": two["state"][0]})
    answer = await browser.get(f"{BEGIN}/callback?{mixed}")
    assert answer.status_code == 401
    assert not await signed_in(browser)


async def test_another_browsers_answer_is_not_taken(site: Api, provider: OidcProvider) -> None:
    """Someone sends a victim the end of a sign-in of their own: the victim's browser never began it."""
    provider.person("evil", email="evil@example.com", email_verified=True)
    attacker, victim = Browser(site), Browser(site)
    back = provider.sign_in(await begin(attacker), "evil")
    await begin(victim)
    refused = await victim.get(back)
    assert refused.status_code == 401
    assert not await signed_in(victim)
    assert (await attacker.get(back)).status_code == 303, "the attempt was not used up by another"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"state": "forged"}, 401),
        ({"state": None}, 401),
        ({"code": "guessed"}, 401),
        ({"code": None}, 401),
        ({"iss": "https://evil.example"}, 401),
        ({"code": "x" * 5_000}, 400),
    ],
)
async def test_answers_that_are_not_believed(
    site: Api, provider: OidcProvider, fields: dict[str, str | None], status: int
) -> None:
    provider.person("u2", email="u2@example.com", email_verified=True)
    browser = Browser(site)
    back = provider.sign_in(await begin(browser), "u2")
    answer = await browser.get(altered(back, **fields))
    assert answer.status_code == status
    assert "That did not work" in answer.text
    assert not await signed_in(browser)
    assert await linked(site) == []


async def test_the_provider_says_no(site: Api, provider: OidcProvider) -> None:
    browser = Browser(site)
    back = provider.sign_in(await begin(browser), "u2")
    answer = await browser.get(altered(back, code=None, error="access_denied"))
    assert answer.status_code == 401
    assert "access_denied" in answer.text


async def test_a_sign_in_expires(site: Api, provider: OidcProvider, clock: Clock) -> None:
    provider.person("slow", email="slow@example.com", email_verified=True)
    browser = Browser(site)
    back = provider.sign_in(await begin(browser), "slow")
    clock.advance(600_001)
    assert "ten minutes" in (await browser.get(back)).text
    assert not await signed_in(browser)


@pytest.mark.parametrize(
    "claims", [{}, {"email": "v@example.com"}, {"email": "v@example.com", "email_verified": False}]
)
async def test_an_address_that_is_not_verified_proves_nothing(
    site: Api, provider: OidcProvider, claims: dict[str, object]
) -> None:
    provider.person("unverified", **claims)
    browser = Browser(site)
    answer = await browser.get(provider.sign_in(await begin(browser), "unverified"))
    assert answer.status_code == 401
    assert "verified e-mail address" in answer.text
    assert await linked(site) == []


# -- Accounts that are there already


async def test_an_account_is_linked_by_its_person_only(site: Api, provider: OidcProvider) -> None:
    """The provider's word alone opens no account that has a password: its person signs in to it once."""
    await Browser(site).sign_up("pat@example.com")
    provider.person("pat", email="pat@example.com", email_verified=True)
    browser, other = Browser(site), Browser(site)
    answer = await browser.get(provider.sign_in(await begin(browser, f"{BEGIN}?next=/sessions"), "pat"))
    assert answer.headers["location"] == "/login?next=/sessions"
    assert not await signed_in(browser)
    page = await browser.get(answer.headers["location"])
    assert "There is an account of pat@example.com here already" in page.text
    assert "There is an account of" not in (await other.get("/login")).text
    assert (await browser.log_in("pat@example.com", "a guess of somebody")).status_code == 401
    assert await linked(site) == []
    assert (await browser.log_in("pat@example.com")).headers["location"] == "/sessions"
    assert await linked(site) == [("pat", "pat@example.com")]
    assert "account at Example" in (await mails(site, "pat@example.com"))[0]
    fresh = Browser(site)
    assert (await fresh.get(provider.sign_in(await begin(fresh), "pat"))).status_code == 303
    assert await signed_in(fresh)


async def test_an_offer_is_for_its_person(site: Api, provider: OidcProvider) -> None:
    """Whoever has an account at the provider with another's address gets it linked neither to theirs nor to his."""
    await Browser(site).sign_up("victim@example.com")
    await Browser(site).sign_up("mallory@example.com", "Mallory")
    provider.person("m", email="victim@example.com", email_verified=True)
    browser = Browser(site)
    await browser.get(provider.sign_in(await begin(browser), "m"))
    assert (await browser.log_in("mallory@example.com", PASSWORD)).status_code == 303
    assert await linked(site) == []


async def test_who_is_signed_in_links_at_once(site: Api, provider: OidcProvider) -> None:
    browser = Browser(site)
    await browser.sign_up("quick@example.com")
    provider.person("quick", email="quick@example.com", email_verified=True)
    assert (await browser.get(provider.sign_in(await begin(browser), "quick"))).status_code == 303
    assert await linked(site) == [("quick", "quick@example.com")]


async def test_an_address_may_begin_so_many(site: Api) -> None:
    async with acquired(site.store.pool) as connection:
        for _ in range(3):
            await note_failure(
                connection,
                f"oidc:{address_subject('203.0.113.77')}",
                free=1,
                first_ms=60_000,
                most_ms=60_000,
                forget_ms=3_600_000,
            )
    answer = await Browser(site, "203.0.113.77").get(BEGIN)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("id_", ["nonsense", "0190aaaa-0000-7000-8000-000000000000"])
async def test_no_such_provider(site: Api, id_: str) -> None:
    for path in (f"/login/oidc/{id_}", f"/login/oidc/{id_}/callback?state=x&code=y"):
        assert (await Browser(site).get(path)).status_code in {401, 404}


async def test_a_provider_that_is_down(database_url: str, blobs: BlobStore, tmp_path: Path) -> None:
    known = Provider("deployment", "Example", "http://127.0.0.1:9", "rewind", None)
    async with running_api(database_url, blobs, tmp_path / "h", provider=known) as down:
        answer: httpx2.Response = await Browser(down).get(BEGIN)
    assert answer.status_code == 503
    assert "Example does not answer" in answer.text
