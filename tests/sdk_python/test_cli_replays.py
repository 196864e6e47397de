"""The verbs `cassette`, `replay`, `verify` and `test` of the command."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rewind._cli_base import Console
from rewind._cli_replays import _show_replay

from tests.sdk_python.command import Result, Run
from tests.sdk_python.fake_api import RUN_ID, FakeApi, run_json


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


async def test_what_is_no_override_is_wrong_usage(server: FakeApi, run: Run, tmp_path: Path) -> None:
    script = "sha256:" + "0" * 64
    server.on(f"GET /v1/runs/{RUN_ID}", run_json(script=script, toolset=None, namespace="default"))
    server.on(f"GET /v1/scripts/{script}", {"digest": script, "source": "export default () => 1"})
    server.on(f"GET /v1/runs/{RUN_ID}/journal", {"data": [], "next": None})
    result = await run("replay", RUN_ID, "--set", "three=1")
    assert (result.code, result.err) == (2, "error: --set takes CALL=JSON such as 3=null, not 'three=1'\n")


async def test_a_test_without_the_local_sandbox_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hello.ts").write_text("export default () => 1")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    result = await run("test", "hello.ts")
    assert result.code == 2
    assert "pip install 'rewind-sdk[local]'" in result.err


async def test_a_script_is_tried_on_this_machine(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pay.ts").write_text(
        'import { pay } from "rewind:tools";\n'
        "export default async function main(n: number) { console.log('pays', n); return pay({ n }); }"
    )
    (tmp_path / "mocks.json").write_text('{"pay": [{"args": {"n": 5}, "result": "paid"}]}')
    tried = ("test", "pay.ts", "--mocks", "mocks.json", "--input")
    assert await run(*tried, "5") == Result(
        0, 'log pays 5\ncompleted, 1 call, 0 answers unused\n"paid"\n', ""
    )
    missing = await run(*tried, "6")
    assert (missing.code, missing.out) == (1, "log pays 6\nfailed, 1 call, 1 answer unused\n")
    assert 'nothing answers pay({"n": 6})' in missing.err
    waiting = await run(*tried, "5", "--deny", "other", "--json")
    assert json.loads(waiting.out)["status"] == "completed"
    (tmp_path / "mocks.json").write_text("[]")
    assert (await run(*tried, "5")).code == 2
    (tmp_path / "mocks.json").write_text('{"pay": [{}]}')
    refused = await run(*tried, "5")
    assert (refused.code, refused.err[:12]) == (3, "error: mocks")


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"matches": True, "calls": [{}], "output": 1}, "matches: 1 call\n1\n"),
        (
            {"matches": True, "calls": [{}], "output": None, "status": "cancelled", "error": None},
            "matches: 1 call\nthe run is cancelled\n",
        ),
        (
            {"matches": False, "calls": [{}, {}], "changed": [], "status": "completed", "output": {"a": 2}},
            'differs: it would have ended completed, with 2 calls, none of them other than recorded\n{"a": 2}\n',
        ),
        (
            {
                "matches": False,
                "calls": [{}],
                "changed": [{}],
                "status": "failed",
                "output": None,
                "error": {"name": "Error", "message": "no\x1b[2J", "line": 3, "column": 1},
            },
            (
                "differs: it would have ended failed, with 1 call, 1 of them other than recorded\n"
                "Error: no�[2J (line 3, column 1)\n"
            ),
        ),
    ],
)
def test_a_what_if_says_how_the_run_would_have_ended(
    answer: dict[str, Any], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _show_replay(answer, Console.of(sys.stdout, sys.stderr))
    assert capsys.readouterr().out == shown
