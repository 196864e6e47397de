"""The pages in a real browser: a team signs up, on a wide and on a narrow screen, with the keyboard alone.

REWIND_SHOTS=folder keeps a picture of every page, light and dark.
"""

import asyncio
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from infra.chromium import chromium_path
from tests.e2e.stack import Stack
from tests.fixtures.oidc import OidcProvider
from tests.fixtures.oidc import provider as provider

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SIZES = {"wide": (1280, 900), "narrow": (390, 800)}
PASSWORD = "seven purple tractors"

pytestmark = pytest.mark.e2e


class Shots:
    """Pictures of the pages, when somebody wants to look at them."""

    def __init__(self, size: str) -> None:
        folder = os.environ.get("REWIND_SHOTS")
        self._folder = None if not folder else Path(folder)
        self._size = size

    def take(self, page: Page, name: str) -> None:
        """The page has no scroll bar sideways, whatever it shows."""
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} px wider than the screen"
        hidden = page.evaluate(
            "[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth)"
        )
        assert all(px <= 0 for px in hidden), f"{name} has a table of which {max(hidden)} px are out of sight"
        if self._folder is None:
            return
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=self._folder / f"{name}-{self._size}-{scheme}.png", full_page=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium_path()
    assert path is not None, "run `make test`: it installs Chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def site(database_url: str, s3_url: str, tmp_path: Path, provider: OidcProvider) -> Iterator[str]:
    """The address of a real serve process, which shows its mails; a name, because passkeys need one."""
    secret = tmp_path / "client-secret"
    secret.write_text("a secret of the provider\n")
    environ = {
        "REWIND_OIDC_CLIENT_SECRET_FILE": str(secret),
        "REWIND_DEV_MAILS": "1",
        "REWIND_OIDC_URL": provider.url,
        "REWIND_OIDC_CLIENT_ID": "rewind",
        "REWIND_OIDC_NAME": "Example",
        "REWIND_EGRESS_ALLOW": "127.0.0.0/8",
    }
    stack = Stack(database_url, s3_url, tmp_path, environ=environ)
    url = stack.url.replace("127.0.0.1", "localhost")
    stack._environ["REWIND_PUBLIC_URL"] = url
    done, ready = threading.Event(), threading.Event()

    async def hold() -> None:
        async with stack:
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert ready.wait(90), stack.logs()
        yield url
    finally:
        done.set()
        thread.join()


def open_link(page: Page, subject: str) -> None:
    """Follow the link of the latest mail of this subject."""
    page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + "/dev/mails")
    mail = page.locator("article").filter(has_text=subject).first
    page.goto(str(mail.locator("pre a[href^=http]").first.get_attribute("href")))


def make_key_and_invite(page: Page, site: str, shots: Shots) -> None:
    page.get_by_role("link", name="API keys").click()
    expect(page.get_by_role("heading", name="API keys of")).to_be_visible()
    shots.take(page, "keys-none")
    page.get_by_label("Name").fill("production")
    page.get_by_role("button", name="Make it").click()
    key = page.locator("code.secret").inner_text()
    expect(page.get_by_role("status")).to_contain_text(site)
    assert re.fullmatch(r"rwk_\w{49}", key)
    shots.take(page, "keys")
    page.goto(f"{site}/organizations")
    page.get_by_role("link", name="Members").click()
    page.get_by_label("E-mail").fill("<script>alert(1)</script>@example.com")
    page.get_by_label("E-mail").fill("bob@example.com")
    page.get_by_role("button", name="Invite").click()
    expect(page.get_by_role("status")).to_contain_text("bob@example.com")
    shots.take(page, "members")


@pytest.mark.parametrize("size", SIZES)
def test_a_team_signs_up(browser: Browser, site: str, size: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    shots = Shots(size)

    page.goto(site)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_role("link", name="API").click()
    page.locator("summary").filter(has_text="/v1/runs").first.click()
    shots.take(page, "docs")
    page.goto(f"{site}/signup")
    shots.take(page, "signup")
    page.keyboard.press("Tab")  # the brand, then the three links, then the form
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.type("ann@example.com")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Tab")
    page.keyboard.type("A" + "verylongnameofanorganization" * 7)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("ann@example.com")
    shots.take(page, "signup-sent")
    page.get_by_role("link", name="its mails are shown here").click()
    expect(page.get_by_role("heading", name="Confirm your address for Rewind")).to_be_visible()
    open_link(page, "Confirm your address")
    shots.take(page, "confirm")
    page.get_by_label("Password").fill("something else entirely")
    page.get_by_role("button", name="Make my account").click()
    expect(page.get_by_role("alert")).to_contain_text("do not fit")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Make my account").click()
    expect(page.get_by_role("heading", name="Organizations")).to_be_visible()
    shots.take(page, "organizations")

    make_key_and_invite(page, site, shots)
    page.get_by_role("link", name="ann@example.com").click()
    shots.take(page, "sessions")
    page.get_by_role("button", name="Sign out", exact=True).first.click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    shots.take(page, "login")
    open_link(page, "invites you")
    shots.take(page, "invitation")
    page.get_by_label("New password").fill("four green umbrellas")
    page.get_by_role("button", name="Make my account and join").click()
    expect(page.get_by_role("heading", name="Members of")).to_be_visible()
    shots.take(page, "members-developer")
    page.goto(f"{site}/reset")
    shots.take(page, "reset")
    page.goto(f"{site}/dev/mails")
    shots.take(page, "mails")
    page.goto(f"{site}/members?organization=nonsense")
    shots.take(page, "refused")
    expected = "Failed to load resource: the server responded with a status of"
    assert [text for text in problems if not text.startswith(expected)] == []
    context.close()
