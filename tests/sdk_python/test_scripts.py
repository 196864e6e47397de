"""`client.scripts` and `rewind check`."""

from pathlib import Path
from typing import Any

import pytest
from rewind import AsyncRewind

from tests.sdk_python.command import Run
from tests.sdk_python.fake_api import FakeApi
from tests.sdk_python.test_cli import api

__all__ = ["api"]

DIGEST = "sha256:" + "1" * 64
DIAGNOSTIC = {
    "severity": "error",
    "code": "TS2551",
    "message": "There is no tool `github.listIssues`.",
    "line": 4,
    "column": 23,
    "end_line": 4,
    "end_column": 33,
    "frame": "> 4 | github.listIssues()\n    |        ^",
    "hint": "did you mean `github.list_issues`?",
}


def checked(*, ok: bool, diagnostics: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "ok": ok,
        "digest": DIGEST,
        "input_type": "{ repo: string; }",
        "output_type": "number",
        "diagnostics": diagnostics,
    }


async def test_check_gives_errors_as_an_answer(api: FakeApi) -> None:
    api.on("POST /v1/scripts/check", checked(ok=False, diagnostics=[DIAGNOSTIC]))
    async with AsyncRewind(api_key="rwk_test_0123456789", base_url=api.url, namespace="acme") as client:
        found = await client.scripts.check("code", toolset="t")
        assert (found.ok, found.diagnostics, found.input_type) == (False, [DIAGNOSTIC], "{ repo: string; }")
        await client.scripts.check("code", input=None)
    bodies = [request.json() for request in api.requests]
    assert bodies == [{"script": "code", "toolset": "t"}, {"script": "code", "input": None}]


async def test_scripts_are_read(api: FakeApi) -> None:
    one = {"digest": DIGEST, "toolset": None, "input_type": None, "output_type": "number", "created_at": "x"}
    api.on("GET /v1/scripts", {"data": [one], "next": None})
    api.on("GET /v1/scripts/" + DIGEST.replace(":", "%3A"), {**one, "source": "code"})
    async with AsyncRewind(api_key="rwk_test_0123456789", base_url=api.url, namespace="acme") as client:
        assert [script.digest async for script in client.scripts.list()] == [DIGEST]
        assert (await client.scripts.get(DIGEST)).source == "code"


async def test_the_command_shows_what_is_wrong(server: FakeApi, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("code")
    server.on("POST /v1/scripts/check", checked(ok=False, diagnostics=[DIAGNOSTIC]))
    result = await run("check", "a.ts", "--toolset", "t", "--input", "null")
    assert (result.code, result.err) == (3, "1 error\n")
    assert result.out == (
        "a.ts:4:23 error TS2551: There is no tool `github.listIssues`.\n"
        "> 4 | github.listIssues()\n    |        ^\n"
        "hint: did you mean `github.list_issues`?\n\n"
    )
    assert server.requests[0].json() == {"script": "code", "toolset": "t", "input": None}


@pytest.mark.parametrize("json", [True, False])
async def test_the_command_says_that_all_is_well(
    server: FakeApi, run: Run, tmp_path: Path, *, json: bool
) -> None:
    (tmp_path / "a.ts").write_text("code")
    server.on("POST /v1/scripts/check", checked(ok=True, diagnostics=[]))
    result = await run("check", "a.ts", *(["--json"] if json else []))
    assert result.code == 0
    if json:
        assert result.out.startswith('{"ok":true,')
    else:
        assert result.out == "ok: main takes { repo: string; }, gives number\n"


async def test_a_test_without_an_input_leaves_it_to_the_cassette(api: FakeApi) -> None:
    api.on("POST /v1/scripts/test", {"status": "completed"})
    async with AsyncRewind(api_key="rwk_test_0123456789", base_url=api.url, namespace="acme") as client:
        await client.scripts.test("s", cassette={"cassette": 1})
        assert "input" not in api.requests[-1].json()
        await client.scripts.test("s", input=None)
        assert api.requests[-1].json()["input"] is None
