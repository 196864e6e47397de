"""Codes of an authenticator app at sign-in: once each, throttled by themselves, with recovery codes in their place."""

import re

import pyotp

from sandbox.store.postgres.connection import acquired
from tests.app.test_people import PASSWORD, Browser, mails
from tests.fixtures.api import Api
from tests.fixtures.database import Clock

STEP_MS = 30_000


def code_at(key: str, now_ms: int, steps: int = 0) -> str:
    return pyotp.TOTP(key).generate_otp(now_ms // STEP_MS + steps)


async def turned_on(browser: Browser, clock: Clock) -> tuple[str, list[str]]:
    """Set an app up: its key and the recovery codes."""
    page = await browser.post("/security", {"do": "totp_begin", "password": PASSWORD})
    key = re.search(r'class="secret">([A-Z2-7]{32})<', page.text)
    assert key is not None, page.text
    wrong = await browser.post("/security", {"do": "totp_confirm", "code": "000000"})
    assert wrong.status_code == 401
    page = await browser.post("/security", {"do": "totp_confirm", "code": code_at(key[1], clock.now())})
    codes = re.findall(r"<li><code>([A-Z2-7-]{19})</code>", page.text)
    assert len(codes) == 10
    return key[1], codes


async def test_a_code_is_the_second_step(own_api: Api, clock: Clock) -> None:
    browser, other = Browser(own_api), Browser(own_api)
    await browser.sign_up("ann@example.com")
    await other.log_in("ann@example.com")
    key, _ = await turned_on(browser, clock)
    assert (await other.get("/sessions")).status_code == 303, (
        "what was signed in by password alone is signed out"
    )
    assert (await other.get("/login/code")).headers["location"] == "/login"
    asked = await other.post(
        "/login", {"email": "ann@example.com", "password": PASSWORD, "next": "/sessions"}
    )
    assert asked.headers["location"] == "/login/code"
    assert (await other.get("/organizations")).status_code == 303, "a password alone opens nothing"
    used = await other.post("/login/code", {"code": code_at(key, clock.now())})
    assert used.status_code == 401, "the code that turned the app on has been used"
    clock.advance(STEP_MS)
    code = code_at(key, clock.now())
    done = await other.post("/login/code", {"code": f" {code[:3]} {code[3:]} "})
    assert (done.status_code, done.headers["location"]) == (303, "/sessions")
    assert "password+code" in (await other.get("/sessions")).text
    again = Browser(own_api)
    await again.log_in("ann@example.com")
    assert (await again.post("/login/code", {"code": code})).status_code == 401, "no code works twice"
    earlier = code_at(key, clock.now(), -1)
    assert (await again.post("/login/code", {"code": earlier})).status_code == 401, "nor one before it"
    assert (await again.post("/login/code", {"code": code_at(key, clock.now(), 1)})).status_code == 303
    assert "takes a code" in (await mails(own_api, "ann@example.com"))[0]
    async with acquired(own_api.store.pool) as connection:
        told = await connection.fetch(
            "select action, coalesce(after ->> 'method', '') as method from audit_log a join people p "
            "on a.target = 'person:' || p.id where p.email = 'ann@example.com' and a.action like 'person.%' order by a.id"
        )
    found = [(row["action"], row["method"]) for row in told]
    assert ("person.begin_totp", "") in found
    assert found.count(("person.sign_in_failed", "code")) == 3, "each wrong code"
    assert found.count(("person.sign_in", "password+code")) == 2
    assert ("person.sign_out", "password") in found, "what the app ended when it was turned on"


async def test_wrong_codes_wait_whatever_passwords_are_sent(own_api: Api, clock: Clock) -> None:
    browser = Browser(own_api)
    await browser.sign_up("ann@example.com")
    key, _ = await turned_on(browser, clock)
    clock.advance(STEP_MS)
    thief = Browser(own_api, "198.51.100.66")
    statuses = []
    for _ in range(8):
        await thief.log_in("ann@example.com")
        statuses.append((await thief.post("/login/code", {"code": "123456"})).status_code)
    assert statuses[:5] == [401] * 5
    assert statuses[-1] == 429
    right = await thief.post("/login/code", {"code": code_at(key, clock.now())})
    assert right.status_code == 429
    assert int(right.headers["retry-after"]) > 0


async def test_recovery_codes_work_once(own_api: Api, clock: Clock) -> None:
    browser = Browser(own_api)
    await browser.sign_up("ann@example.com")
    _, codes = await turned_on(browser, clock)
    for code, status in (
        (codes[0].lower(), 303),
        (codes[0], 401),
        ("AAAA-AAAA-AAAA-AAAA", 401),
        (codes[1], 303),
    ):
        fresh = Browser(own_api)
        await fresh.log_in("ann@example.com")
        assert (await fresh.post("/login/code", {"code": code})).status_code == status
    assert "8 are left" in (await mails(own_api, "ann@example.com"))[0]
    refused = await browser.post("/security", {"do": "totp_codes", "password": "another password"})
    assert refused.status_code == 401
    page = await browser.post("/security", {"do": "totp_codes", "password": PASSWORD})
    assert len(re.findall(r"<li><code>", page.text)) == 10
    fresh = Browser(own_api)
    await fresh.log_in("ann@example.com")
    assert (await fresh.post("/login/code", {"code": codes[2]})).status_code == 401, (
        "the earlier ones are gone"
    )
    async with acquired(own_api.store.pool) as connection:
        sealed = await connection.fetchval("select totp_secret from people where email = 'ann@example.com'")
        kept = await connection.fetch("select code_sha256 from recovery_codes")
    assert len(sealed) > 32
    assert {len(row["code_sha256"]) for row in kept} == {32}


async def test_on_and_off_take_the_password(own_api: Api, clock: Clock) -> None:
    browser = Browser(own_api)
    await browser.sign_up("ann@example.com")
    refused = await browser.post("/security", {"do": "totp_begin", "password": "another password"})
    assert refused.status_code == 401
    early = await browser.post("/security", {"do": "totp_confirm", "code": "123456"})
    assert early.status_code == 401
    key, codes = await turned_on(browser, clock)
    twice = await browser.post("/security", {"do": "totp_begin", "password": PASSWORD})
    assert twice.status_code == 400
    assert (await browser.post("/security", {"do": "totp_end", "password": "wrong again"})).status_code == 401
    off = await browser.post("/security", {"do": "totp_end", "password": PASSWORD})
    assert "turned off" in off.text
    assert key not in off.text
    fresh = Browser(own_api)
    assert (await fresh.log_in("ann@example.com")).headers["location"] == "/organizations"
    assert codes


async def test_a_second_step_ends(own_api: Api, clock: Clock) -> None:
    browser, other = Browser(own_api), Browser(own_api)
    await browser.sign_up("ann@example.com")
    key, _ = await turned_on(browser, clock)
    await other.log_in("ann@example.com")
    clock.advance(300_001)
    late = await other.client.post("/login/code", data={"code": code_at(key, clock.now())})
    assert late.headers["location"] == "/login"
    assert (await other.get("/organizations")).status_code == 303


async def test_a_new_password_leaves_the_app(own_api: Api, clock: Clock) -> None:
    """Whoever reads the mails of a person does not get in with that alone."""
    browser = Browser(own_api)
    await browser.sign_up("ann@example.com")
    await turned_on(browser, clock)
    await browser.post("/reset", {"email": "ann@example.com"})
    found = re.search(r"http://rewind\.test(/reset/\S+)", (await mails(own_api, "ann@example.com"))[0])
    assert found is not None
    await browser.post(found[1], {"password": "nine orange submarines"})
    asked = await browser.log_in("ann@example.com", "nine orange submarines")
    assert asked.headers["location"] == "/login/code"


# -- Passkeys, where no browser is needed to see that they are refused


async def test_what_is_no_passkey(own_api: Api) -> None:
    browser = Browser(own_api)
    await browser.sign_up("ann@example.com")
    csrf = await browser.csrf()
    options = await browser.client.post(
        "/security/passkey/options", data={"csrf": csrf, "password": "wrong one"}
    )
    assert (options.status_code, "do not fit" in options.json()["problem"]) == (401, True)
    for credential in (
        "",
        "{}",
        "[]",
        "null",
        '{"response": {"clientDataJSON": "e30"}, "id": "x"}',
        "\u00e9",
    ):
        made = await browser.client.post("/security/passkey", data={"csrf": csrf, "credential": credential})
        used = await Browser(own_api).client.post("/login/passkey", data={"credential": credential})
        assert (made.status_code, used.status_code) == (400, 401), credential
    without = await browser.client.post("/security/passkey/options", data={"password": PASSWORD})
    assert without.status_code == 400
    gone = await browser.post("/security", {"do": "remove_passkey", "passkey": "AAAA"})
    assert gone.status_code == 404
