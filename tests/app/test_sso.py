"""Organizations with a provider of their own: domains that they prove, members who must use it, and what it may not say."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox.store.blobs import BlobStore
from sandbox.store.postgres.connection import acquired
from tests.app.test_oidc import begin, linked, signed_in
from tests.app.test_people import PASSWORD, Browser, link
from tests.fixtures.api import Api, running_api
from tests.fixtures.oidc import OidcProvider


class Zone:
    """The DNS of these tests."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}

    async def txt(self, name: str) -> list[str]:
        return self.records.get(name, [])


@pytest.fixture
def zone() -> Zone:
    return Zone()


@pytest.fixture
async def site(database_url: str, blobs: BlobStore, tmp_path: Path, zone: Zone) -> AsyncIterator[Api]:
    async with running_api(database_url, blobs, tmp_path / "h", resolver=zone) as made:
        yield made


async def connect(browser: Browser, organization: str, provider: OidcProvider, join_role: str = "") -> str:
    """Add the provider; the path where its sign-in begins."""
    fields = {
        "do": "connect",
        "name": "Acme login",
        "issuer": provider.url,
        "client_id": "acme",
        "client_secret": "a secret",
        "join_role": join_role,
    }
    page = await browser.post(f"/sso?organization={organization}", fields)
    found = re.findall(r"http://rewind\.test(/login/oidc/[0-9a-f-]+)/callback", page.text)
    assert found, page.text
    return str(found[-1])


async def prove(browser: Browser, organization: str, zone: Zone, domain: str) -> None:
    path = f"/sso?organization={organization}"
    page = await browser.post(path, {"do": "add_domain", "domain": domain})
    value = re.search(r"rewind-domain=[0-9a-f]{32}", page.text)
    assert value is not None
    early = await browser.post(path, {"do": "prove", "domain": domain})
    assert early.status_code == 400
    assert "no such TXT record yet" in early.text
    zone.records[f"_rewind-challenge.{domain}"] = ["v=spf1 -all", value[0]]
    proven = await browser.post(path, {"do": "prove", "domain": domain})
    assert "is proven to be yours" in proven.text


async def come_in(browser: Browser, path: str, provider: OidcProvider, subject: str) -> int:
    answer = await browser.get(provider.sign_in(await begin(browser, path), subject))
    return answer.status_code


async def test_people_of_a_proven_domain_sign_in(site: Api, provider: OidcProvider, zone: Zone) -> None:
    owner, new = Browser(site), Browser(site)
    organization = await owner.sign_up("own@acme.example")
    path = await connect(owner, organization, provider, "developer")
    provider.person("new", email="new@acme.example", email_verified=True)
    assert await come_in(new, path, provider, "new") == 403, "the domain is not proven yet"
    await prove(owner, organization, zone, "acme.example")
    chosen = await new.post("/login/sso", {"email": "anybody@Acme.example"})
    assert path in chosen.text
    assert await come_in(new, path, provider, "new") == 303
    assert organization in (await new.get("/organizations")).text
    assert "developer" in (await new.get(f"/members?organization={organization}")).text
    assert "No organization" in (await new.post("/login/sso", {"email": "x@other.example"})).text


async def test_a_provider_speaks_for_its_own_domains_only(
    site: Api, provider: OidcProvider, zone: Zone
) -> None:
    """Whoever makes an organization, with a provider that says what it likes, becomes nobody else."""
    owner, attacker = Browser(site), Browser(site)
    await Browser(site).sign_up("victim@good.example")
    organization = await owner.sign_up("own@evil.example", "Evil")
    path = await connect(owner, organization, provider, "developer")
    await prove(owner, organization, zone, "evil.example")
    provider.person("liar", email="victim@good.example", email_verified=True)
    provider.person("fresh", email="nobody@good.example", email_verified=True)
    for subject in ("liar", "fresh"):
        assert await come_in(attacker, path, provider, subject) == 403
        assert not await signed_in(attacker)
    assert await linked(site) == []


async def test_a_domain_that_is_removed_ends_what_it_allowed(
    site: Api, provider: OidcProvider, zone: Zone
) -> None:
    owner, new = Browser(site), Browser(site)
    organization = await owner.sign_up("own@gone.example")
    path = await connect(owner, organization, provider, "viewer")
    await prove(owner, organization, zone, "gone.example")
    provider.person("g", email="g@gone.example", email_verified=True)
    assert await come_in(new, path, provider, "g") == 303
    await owner.post(f"/sso?organization={organization}", {"do": "remove_domain", "domain": "gone.example"})
    assert await come_in(Browser(site), path, provider, "g") == 403


async def test_who_was_not_invited_stays_out(site: Api, provider: OidcProvider, zone: Zone) -> None:
    owner, new = Browser(site), Browser(site)
    organization = await owner.sign_up("own@shut.example")
    path = await connect(owner, organization, provider)
    await prove(owner, organization, zone, "shut.example")
    provider.person("s", email="s@shut.example", email_verified=True)
    assert await come_in(new, path, provider, "s") == 403
    assert await linked(site) == []
    await owner.post(
        f"/members?organization={organization}", {"do": "invite", "email": "s@shut.example", "role": "admin"}
    )
    assert await come_in(new, path, provider, "s") == 303
    assert (await new.get(f"/sso?organization={organization}")).status_code == 200
    assert (await Browser(site).get(await link(site, "s@shut.example"))).status_code == 404


async def test_sso_is_required(site: Api, provider: OidcProvider, zone: Zone) -> None:
    owner, member, guest = Browser(site), Browser(site), Browser(site)
    organization = await owner.sign_up("own@req.example")
    path, settings = await connect(owner, organization, provider), f"/sso?organization={organization}"
    for browser, email in ((member, "m@req.example"), (guest, "guest@elsewhere.example")):
        fields = {"do": "invite", "email": email, "role": "developer"}
        await owner.post(f"/members?organization={organization}", fields)
        await browser.post(await link(site, email), {"password": PASSWORD})
    unproven = await owner.post(settings, {"do": "require", "domain": "req.example"})
    assert unproven.status_code == 404
    await prove(owner, organization, zone, "req.example")
    careless = await owner.post(settings, {"do": "require", "domain": "req.example"})
    assert careless.status_code == 400
    assert "lock yourself out" in careless.text
    provider.person("own", email="own@req.example", email_verified=True)
    assert await come_in(owner, path, provider, "own") == 303
    assert "by SSO only" in (await owner.post(settings, {"do": "require", "domain": "req.example"})).text
    # What was begun by password opens this organization no more, neither its pages nor the API.
    assert (await member.get(f"/members?organization={organization}")).status_code == 403
    called = await member.get(f"/v1/runs?organization={organization}&namespace=a")
    assert (called.status_code, called.json()["code"]) == (403, "insufficient_scope")
    refused = await Browser(site).log_in("m@req.example")
    assert refused.status_code == 403
    assert "sign in with their organization" in refused.text
    assert (await Browser(site).log_in("own@req.example")).status_code == 403, "owners need a second factor"
    assert (await Browser(site).log_in("guest@elsewhere.example")).status_code == 303
    # Its person links the account with the password that opens nothing by itself any more.
    provider.person("m", email="m@req.example", email_verified=True)
    fresh = Browser(site)
    assert await come_in(fresh, path, provider, "m") == 303
    assert (await fresh.log_in("m@req.example")).status_code == 303
    assert (await fresh.get(f"/members?organization={organization}")).status_code == 200
    last = await owner.post(settings, {"do": "disconnect", "connection": path.rpartition("/")[2]})
    assert "no longer require it" in last.text
    await owner.post(settings, {"do": "allow", "domain": "req.example"})
    assert (await Browser(site).log_in("m@req.example")).status_code == 303


async def test_an_admin_undoes_nothing_that_owners_require(
    site: Api, provider: OidcProvider, zone: Zone
) -> None:
    """Neither by taking the domain away, nor by a provider of their own in place of the organization's."""
    owner, admin = Browser(site), Browser(site)
    organization = await owner.sign_up("own@firm.example")
    path, settings = await connect(owner, organization, provider), f"/sso?organization={organization}"
    fields = {"do": "invite", "email": "adm@elsewhere.example", "role": "admin"}
    await owner.post(f"/members?organization={organization}", fields)
    await admin.post(await link(site, "adm@elsewhere.example"), {"password": PASSWORD})
    await prove(admin, organization, zone, "firm.example")
    provider.person("own", email="own@firm.example", email_verified=True)
    assert await come_in(owner, path, provider, "own") == 303
    assert "by SSO only" in (await owner.post(settings, {"do": "require", "domain": "firm.example"})).text
    mine = {"name": "mine", "issuer": provider.url, "client_id": "x", "client_secret": "", "join_role": ""}
    for wanted in (
        {"do": "allow", "domain": "firm.example"},
        {"do": "remove_domain", "domain": "firm.example"},
        {"do": "disconnect", "connection": path.rpartition("/")[2]},
        {"do": "connect", **mine},
    ):
        assert (await admin.post(settings, wanted)).status_code == 403, wanted
    await owner.post(settings, {"do": "allow", "domain": "firm.example"})
    assert (
        "is removed" in (await admin.post(settings, {"do": "remove_domain", "domain": "firm.example"})).text
    )


async def test_a_provider_that_is_removed_signs_its_people_out(
    site: Api, provider: OidcProvider, zone: Zone
) -> None:
    owner, new = Browser(site), Browser(site)
    organization = await owner.sign_up("own@off.example")
    path = await connect(owner, organization, provider, "viewer")
    await prove(owner, organization, zone, "off.example")
    provider.person("o", email="o@off.example", email_verified=True)
    assert await come_in(new, path, provider, "o") == 303
    fields = {"do": "disconnect", "connection": path.rpartition("/")[2]}
    await owner.post(f"/sso?organization={organization}", fields)
    assert not await signed_in(new)
    assert (await new.get(path)).status_code == 404
    async with acquired(site.store.pool) as connection:
        actions = await connection.fetch(
            "select action from audit_log where actor_kind = 'member' "
            "and action in ('sso.connect', 'domain.add', 'domain.prove', 'sso.disconnect') order by at, id"
        )
    assert [row["action"] for row in actions] == [
        "sso.connect",
        "domain.add",
        "domain.prove",
        "sso.disconnect",
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"issuer": "http://login.example"}, "begins with https"),
        ({"issuer": "nonsense"}, "Give the provider"),
        ({"issuer": "http://127.0.0.1:9"}, "does not answer"),
        ({"issuer": "https://192.168.0.1"}, "does not answer"),
        ({"name": ""}, "name has 1 to"),
        ({"client_id": " "}, "client id has 1 to"),
        ({"join_role": "owner"}, "viewer or developer"),
    ],
)
async def test_providers_that_cannot_be_added(
    site: Api, provider: OidcProvider, fields: dict[str, str], says: str
) -> None:
    owner = Browser(site)
    organization = await owner.sign_up("own@bad.example")
    given = {"do": "connect", "name": "x", "issuer": provider.url, "client_id": "c", **fields}
    page = await owner.post(f"/sso?organization={organization}", given)
    assert page.status_code in {400, 503}
    assert says in page.text


@pytest.mark.parametrize(
    "domain", ["", "localhost", "a..b", "-a.example", "a b.example", "1.2.3.4", "x" * 260]
)
async def test_domains_that_are_none(site: Api, domain: str) -> None:
    owner = Browser(site)
    organization = await owner.sign_up("own@bad.example")
    page = await owner.post(f"/sso?organization={organization}", {"do": "add_domain", "domain": domain})
    assert (page.status_code, "Give the domain" in page.text) == (400, True)


async def test_admins_see_these_pages(site: Api) -> None:
    owner, member = Browser(site), Browser(site)
    organization = await owner.sign_up("own@x.example")
    fields = {"do": "invite", "email": "dev@x.example", "role": "developer"}
    await owner.post(f"/members?organization={organization}", fields)
    await member.post(await link(site, "dev@x.example"), {"password": PASSWORD})
    assert (await member.get(f"/sso?organization={organization}")).status_code == 403
