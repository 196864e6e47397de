"""The verb `login`: what it remembers, when that is used, and who can read it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sdk_python.command import Run
from tests.sdk_python.fake_api import FakeApi, problem

KEY = "rwk_test_0123456789"
ME = {"principal": {"kind": "key", "id": "1", "organization": "o1", "namespace": None, "narrow": {}}}


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


async def test_what_is_remembered_is_used_until_it_is_forgotten(
    api: FakeApi, run: Run, tmp_path: Path
) -> None:
    api.on("GET /v1/me", ME)
    api.on("GET /v1/toolsets", {"data": [], "next": None})
    done = await run("login", "--url", api.url, stdin=f"{KEY}\n")
    assert (done.code, done.err) == (0, "")
    assert "organization o1" in done.out and KEY not in done.out
    file = tmp_path / "config" / "rewind" / "credentials.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text()) == {"url": api.url, "api_key": KEY}
    assert (await run("toolsets", "list")).code == 0
    assert api.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    elsewhere = await run("toolsets", "list", "--url", "http://127.0.0.1:1")
    assert (elsewhere.code, "No key for" in elsewhere.err) == (2, True), "a key is for its server only"
    assert (await run("login", "--forget")).code == 0
    assert (await run("toolsets", "list")).code == 2


async def test_the_server_of_the_folder_comes_first(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.on("GET /v1/me", ME)
    api.on("GET /v1/toolsets", {"data": [], "next": None})
    await run("login", "--url", api.url, stdin="rwt_of_login_1\n")
    await run("toolsets", "list")
    assert api.requests[-1].headers["authorization"] == "Bearer rwt_of_login_1"
    (tmp_path / ".rewind").mkdir()
    (tmp_path / ".rewind" / "dev.json").write_text(json.dumps({"url": api.url, "api_key": KEY}))
    await run("toolsets", "list")
    assert api.requests[-1].headers["authorization"] == f"Bearer {KEY}"


async def test_a_key_that_does_not_work_is_not_remembered(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.on("GET /v1/me", problem(401, "unauthenticated", "This key was revoked."))
    assert (await run("login", "--url", api.url, stdin=f"{KEY}\n")).code == 3
    assert (await run("login", "--url", "http://127.0.0.1:1", stdin=f"{KEY}\n")).code == 4
    for wrong in ("", "secret\n"):
        assert (await run("login", "--url", api.url, stdin=wrong)).code == 2
    assert not (tmp_path / "config").exists()
