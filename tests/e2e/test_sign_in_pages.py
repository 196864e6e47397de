"""Ways to sign in, in a real browser: passkeys of a virtual device, codes of an app, a provider, an organization's own.

REWIND_SHOTS=folder keeps a picture of every page, light and dark.
"""

import time
from urllib.parse import urlsplit

import pyotp
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.e2e.test_pages import PASSWORD, SIZES, Shots, browser, open_link, provider, site
from tests.fixtures.oidc import OidcProvider

__all__ = ["browser", "provider", "site"]
pytestmark = pytest.mark.e2e
EXPECTED = "Failed to load resource: the server responded with a status of"


@pytest.fixture(params=SIZES)
def shots(request: pytest.FixtureRequest) -> Shots:
    return Shots(str(request.param))


@pytest.fixture
def page(browser: Browser, shots: Shots) -> Page:
    width, height = SIZES[shots._size]
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    page.problems = []

    def note(message: ConsoleMessage) -> None:
        """The provider's own page, of another host, looks for a style sheet on the internet."""
        ours = urlsplit(message.location.get("url", "")).hostname in {"localhost", None}
        if message.type == "error" and ours:
            page.problems.append(message.text)

    page.on("console", note)
    return page


def done(page: Page) -> None:
    """No script or style was refused, and nothing failed, but what a page answered on purpose."""
    assert [text for text in page.problems if not text.startswith(EXPECTED)] == []
    page.context.close()


def sign_up(page: Page, site: str, email: str) -> None:
    page.goto(f"{site}/signup")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("Organization").fill("Acme")
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_role("status")).to_be_visible()
    open_link(page, "Confirm your address")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Make my account").click()
    expect(page.get_by_role("heading", name="Organizations")).to_be_visible()


def log_in(page: Page, email: str) -> None:
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_passkeys(page: Page, site: str, shots: Shots) -> None:
    device = page.context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    key = device.send("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"]
    sign_up(page, site, "pass@example.com")
    page.goto(f"{site}/security")
    shots.take(page, "security")
    page.get_by_label("Name").focus()
    page.keyboard.type("My laptop")
    page.keyboard.press("Tab")
    page.keyboard.type("another password")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("do not fit")
    shots.take(page, "security-refused")
    page.locator("form[data-passkey]").get_by_label("Your password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Your passkey is added")
    expect(page.get_by_role("cell", name="My laptop")).to_be_visible()
    shots.take(page, "security-passkey")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in with a passkey").focus()
    shots.take(page, "login")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Organizations")).to_be_visible()
    page.get_by_role("link", name="pass@example.com").click()
    expect(page.get_by_text("passkey").first).to_be_visible()
    device.send("WebAuthn.setUserVerified", {"authenticatorId": key, "isUserVerified": False})
    page.get_by_role("button", name="Sign out", exact=True).first.click()
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator("form[data-passkey] [role=alert]")).to_contain_text("Nothing was signed")
    device.send("WebAuthn.setUserVerified", {"authenticatorId": key, "isUserVerified": True})
    log_in(page, "pass@example.com")
    page.goto(f"{site}/security")
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("status")).to_contain_text("removed")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator("form[data-passkey] [role=alert]")).to_contain_text("not known here")
    done(page)


def test_an_authenticator_app(page: Page, site: str, shots: Shots) -> None:
    sign_up(page, site, "app@example.com")
    page.goto(f"{site}/security")
    page.get_by_label("Your password").last.fill(PASSWORD)
    page.get_by_role("button", name="Set up an app").click()
    key = page.locator("code.secret").inner_text()
    shots.take(page, "security-app-key")
    page.get_by_label("Code of your").fill(pyotp.TOTP(key).at(int(time.time())))
    page.get_by_role("button", name="Turn it on").click()
    expect(page.locator(".codes li")).to_have_count(10)
    recovery = page.locator(".codes li").first.inner_text()
    shots.take(page, "security-recovery-codes")
    page.get_by_role("button", name="Sign out").click()
    log_in(page, "app@example.com")
    expect(page.get_by_role("heading", name="Your code")).to_be_visible()
    page.get_by_label("Code of your").fill("000000")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    shots.take(page, "code")
    page.get_by_label("Code of your").fill(recovery)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Organizations")).to_be_visible()
    done(page)


def test_a_provider(page: Page, site: str, shots: Shots, provider: OidcProvider) -> None:
    """Through the provider's own page and back: the page's policy lets the browser go there."""
    sign_up(page, site, "o@example.com")
    page.get_by_role("button", name="Sign out").click()
    provider.person("o", email="o@example.com", email_verified=True)
    page.get_by_role("link", name="Sign in with Example").click()
    page.locator("input[name=sub]").fill("o")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("status")).to_contain_text("There is an account of o@example.com here already")
    shots.take(page, "login-offer")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Organizations")).to_be_visible()
    page.goto(f"{site}/security")
    expect(page.get_by_role("cell", name=provider.url)).to_be_visible()
    shots.take(page, "security-linked")
    page.goto(f"{site}/login/oidc/deployment/callback?state=x&code=y")
    shots.take(page, "sign-in-again")
    done(page)


def test_an_organization(page: Page, site: str, shots: Shots, provider: OidcProvider) -> None:
    sign_up(page, site, "boss@example.com")
    shots.take(page, "organizations")
    page.get_by_role("link", name="SSO").click()
    page.get_by_label("Domain").fill("a-rather-long-name-of-a-company.example.com")
    page.get_by_role("button", name="Add it").click()
    page.get_by_label("Name", exact=True).fill("Acme login")
    page.get_by_label("URL").fill(provider.url)
    page.get_by_label("Client id").fill("acme")
    page.get_by_role("button", name="Add the provider").click()
    expect(page.get_by_role("status")).to_contain_text("The provider is added")
    shots.take(page, "sso-settings")
    page.goto(f"{site}/organizations")
    page.get_by_role("link", name="Export and close").click()
    shots.take(page, "organization")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export", exact=True).click()
    assert "boss@example.com" in download.value.path().read_text()
    page.get_by_label("Its name").fill("Acme")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Close it").click()
    expect(page.get_by_text("Closed, to be erased")).to_be_visible()
    shots.take(page, "organizations-closed")
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("link", name="Members")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Sign in with your organization").click()
    page.get_by_label("E-mail").fill("x@nowhere.example")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("alert")).to_contain_text("No organization")
    shots.take(page, "sso")
    done(page)
