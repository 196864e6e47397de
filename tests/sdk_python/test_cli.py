"""The command `rewind`: what it prints and how it exits."""

import argparse
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from rewind import cli
from rewind._cli_base import Usage, json_argument, labels_argument, seconds
from rewind._cli_runs import age_text, pretty

from tests.sdk_python.command import Result, Run
from tests.sdk_python.fake_api import RUN_ID, FakeApi, problem, run_json, stream
from tests.sdk_python.http_server import Reply, refused_port
from tests.sdk_python.journals import EVERY_KIND
from tests.sdk_python.test_journal_text import GOLDEN


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


async def test_running_a_file(server: FakeApi, run: Run, tmp_path: Path) -> None:
    (tmp_path / "hello.ts").write_text("export default () => 1")
    server.on("POST /v1/runs", Reply(201, run_json()))
    result = await run("run", "hello.ts", "--toolset", "t", "--input", '{"n":1}', "--label", "a=b")
    assert result == Result(0, f'run {RUN_ID}  completed after 2.34s\n{{"greeting":"Hello Ada"}}\n', "")
    assert server.requests[0].json() == {
        "script": "export default () => 1",
        "toolset": "t",
        "input": {"n": 1},
        "wait": 1_000,
        "until": "ended",
        "labels": {"a": "b"},
        "namespace": "default",
    }


async def test_a_longer_run_is_waited_for_by_its_id(server: FakeApi, run: Run) -> None:
    server.on("POST /v1/runs", Reply(201, run_json(status="active", output=None, ended_at=None)))
    server.on(f"GET /v1/runs/{RUN_ID}", run_json())
    result = await run("run", "-", stdin="…")
    assert result.out.endswith('{"greeting":"Hello Ada"}\n')
    assert "wait=29000" in server.requests[1].target
    at_once = await run("run", "-", "--wait", "0", stdin="…")
    assert at_once.out.startswith(f"run {RUN_ID}  active\n  running\n")
    assert len(server.requests) == 3


async def test_a_run_that_fails_shows_its_frame(server: FakeApi, run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.ts").write_text("…")
    error = {
        "name": "TypeError",
        "message": "x is undefined",
        "line": 3,
        "column": 7,
        "frame": "> 3 | x.y\n    |   ^\n",
    }
    server.on("POST /v1/runs", Reply(201, run_json(status="failed", output=None, error=error)))
    result = await run("run", "x.ts")
    assert result.code == 1
    assert result.out == (
        f"run {RUN_ID}  failed after 2.34s\n"
        "  TypeError: x is undefined (line 3, column 7)\n"
        "  > 3 | x.y\n"
        "      |   ^\n"
    )


async def test_a_run_that_waits_says_for_what(server: FakeApi, run: Run) -> None:
    waiting = [
        {"kind": "signal", "name": "decision", "line": 12, "until": "2026-11-29T11:00:00.000Z", "since": "…"},
        {"kind": "tool_call", "tool": "ask_user", "call": 2, "deferred": True, "line": None},
    ]
    active = run_json(status="active", waiting_for=waiting, waiting_count=25, output=None, ended_at=None)
    server.on(f"GET /v1/runs/{RUN_ID}", active)
    result = await run("runs", "get", RUN_ID)
    assert result.out == (
        f"run {RUN_ID}  active\n"
        '  waits for signal "decision" (line 12, until 2026-11-29T11:00:00.000Z)\n'
        "  waits for tool ask_user #2 (deferred)\n"
        "  and 23 more\n"
        f"  rewind runs signal {RUN_ID} decision JSON   sends it\n"
        f"  rewind runs journal {RUN_ID} -f   follows it\n"
    )


async def test_what_to_do_next_can_be_typed_as_it_stands(server: FakeApi, run: Run) -> None:
    waiting = [{"kind": "approval", "tool": "refund", "call": 5, "line": 3, "since": "…"}]
    active = run_json(
        status="active",
        namespace="a|da",
        waiting_for=waiting,
        waiting_count=1,
        output=None,
        ended_at=None,
    )
    server.on(f"GET /v1/runs/{RUN_ID}", active)
    result = await run("runs", "get", RUN_ID, "--namespace", "a|da")
    assert result.out.splitlines()[2:] == [
        f"  rewind approvals approve {RUN_ID} 5 --namespace 'a|da'   or `deny`",
        f"  rewind runs journal {RUN_ID} -f --namespace 'a|da'   follows it",
    ]
    halted = run_json(status="quarantined", output=None, ended_at=None, reason="drill")
    server.on(f"GET /v1/runs/{RUN_ID}", halted)
    result = await run("runs", "get", RUN_ID)
    assert (result.code, result.out.splitlines()) == (0, [
        f"run {RUN_ID}  quarantined",
        "  reason: drill",
        "  it stands still until an operator releases it, which tries again, or abandons it",
    ])  # fmt: skip


async def test_a_refused_script_shows_each_diagnostic(server: FakeApi, run: Run) -> None:
    diagnostic = {
        "severity": "error",
        "code": "syntax_error",
        "message": "Expected a semicolon.",
        "line": 2,
        "column": 9,
        "frame": "  1 | let a\n> 2 | let b c\n    |       ^",
        "hint": "Remove `c`.",
    }
    refusal = problem(422, "script_refused", "The script has 1 error.", diagnostics=[diagnostic])
    server.on("POST /v1/runs", refusal)
    result = await run("run", "-", stdin="let a\nlet b c")
    assert result.code == 3
    assert result.out == ""
    assert result.err == (
        "error: The script has 1 error. (422 script_refused)\n"
        "  line 2, column 9: error syntax_error: Expected a semicolon.\n"
        "      1 | let a\n"
        "    > 2 | let b c\n"
        "        |       ^\n"
        "  hint: Remove `c`.\n"
    )


async def test_a_call_that_nobody_takes_says_who_should(server: FakeApi, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("export default async function main() {}")
    tools = [{"name": "pay", "kind": "host"}, {"name": "web.get", "kind": "mcp"}]
    toolset = {"id": "1", "name": "shop", "digest": "sha256:ab", "tools": tools, "warnings": []}
    server.on(
        "GET /v1/toolsets/shop%40sha256%3Aab", toolset, toolset, problem(403, "insufficient_scope", "no")
    )
    for tool, said in (("pay", True), ("web.get", False), ("pay", False)):
        waiting = [{"kind": "tool_call", "tool": tool, "call": 1, "line": 3, "since": "…"}]
        active = run_json(status="active", waiting_for=waiting, waiting_count=1, output=None, ended_at=None)
        server.on("POST /v1/runs", Reply(201, {**active, "toolset": "shop@sha256:ab"}))
        result = await run("run", "a.ts", "--toolset", "shop", "--wait", "1ms")
        assert ("client.worker(toolset='shop'" in result.err) is said, result
        assert result.code == 0


async def test_approvals_are_of_all_namespaces_unless_one_is_named(server: FakeApi, run: Run) -> None:
    approval = {
        "run": RUN_ID,
        "call": 5,
        "namespace": "ada",
        "tool": "refund",
        "status": "pending",
        "args": {"order": "ü", "note": "x" * 80},
        "args_truncated": False,
        "args_preview": None,
        "expires_at": "2026-12-02T04:45:17.606Z",
    }
    server.on("GET /v1/approvals", {"data": [approval], "next": None})
    listed = await run("approvals", "list")
    assert "namespace=" not in server.requests[-1].target
    assert listed.out.splitlines()[1].endswith('{"order":"ü","note":"' + "x" * 38 + "…")
    assert " ada " in listed.out
    server.on(f"POST /v1/runs/{RUN_ID}/approvals/5", approval | {"status": "approved"})
    assert (await run("approvals", "approve", RUN_ID, "5")).out.startswith("approved: refund #5")
    assert "namespace=" not in server.requests[-1].target
    await run("approvals", "list", "--namespace", "ada")
    assert "namespace=ada" in server.requests[-1].target


async def test_a_namespace_without_a_run_has_no_approvals(server: FakeApi, run: Run) -> None:
    server.on("GET /v1/approvals", problem(404, "not_found", "There is no namespace 'default'."))
    result = await run("approvals", "list")
    assert (result.code, result.out, result.err) == (
        0,
        "",
        "no approvals: There is no namespace 'default'.\n",
    )
    assert (await run("approvals", "list", "--json")).code == 3
    assert (await run("approvals", "list", "--run", RUN_ID)).code == 3
    assert "1 to 10000" in (await run("approvals", "list", "--limit", "0")).err


async def test_refusals_for_programs_are_json(server: FakeApi, run: Run) -> None:
    server.on(f"GET /v1/runs/{RUN_ID}", problem(404, "not_found", "There is no such run in this namespace."))
    result = await run("runs", "get", RUN_ID, "--json")
    assert result.code == 3
    assert json.loads(result.out)["code"] == "not_found"
    assert "There is no such run in this namespace. (404 not_found)" in result.err
    assert "--namespace" in result.err


async def test_nobody_answers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewind._core.delay_s", lambda *_: 0.001)
    monkeypatch.setenv("REWIND_API_KEY", "rwk_x")
    result = await run("runs", "list", "--url", f"http://127.0.0.1:{await refused_port()}")
    assert result.code == 4
    assert "Connection refused" in result.err
    assert "rewind dev" in result.err


async def test_no_server_is_known(run: Run) -> None:
    result = await run("runs", "list")
    assert (result.code, result.out) == (2, "")
    assert "REWIND_URL" in result.err
    named = await run("runs", "list", "--url", "http://127.0.0.1:1")
    assert (named.code, named.err) == (
        2,
        "error: No key for http://127.0.0.1:1: set REWIND_API_KEY (or REWIND_TOKEN).\n",
    )


async def test_a_run_that_was_given_no_tools(server: FakeApi, run: Run) -> None:
    error = {"name": "TypeError", "message": '"rewind:tools" has no export "shop": it has none'}
    server.on("POST /v1/runs", run_json(status="failed", output=None, error=error))
    assert "--toolset" in (await run("run", "-", stdin="")).err
    server.on("POST /v1/runs", run_json(status="failed", output=None, error=error))
    assert (await run("run", "-", "--toolset", "shop", stdin="")).err == ""


async def test_a_run_without_output_is_in_the_right_namespace(server: FakeApi, run: Run) -> None:
    refusal = problem(404, "not_found", "The run has no output: it is failed.")
    server.on(f"GET /v1/runs/{RUN_ID}/output", refusal)
    result = await run("runs", "output", RUN_ID)
    assert (result.code, result.err) == (3, "error: The run has no output: it is failed. (404 not_found)\n")


async def test_an_unknown_run_has_no_journal(server: FakeApi, run: Run) -> None:
    refusal = problem(404, "not_found", "There is no such run in this namespace.")
    server.on(f"GET /v1/runs/{RUN_ID}/journal", refusal)
    result = await run("runs", "journal", RUN_ID)
    assert (result.code, result.out) == (3, "")


async def test_the_dev_server_of_the_folder_is_found(api: FakeApi, run: Run, tmp_path: Path) -> None:
    (tmp_path / ".rewind").mkdir()
    dev = {"url": api.url, "api_key": "rwk_dev", "organization": "dev", "pid": 1}
    (tmp_path / ".rewind" / "dev.json").write_text(json.dumps(dev))
    api.on("GET /v1/runs", {"data": [run_json()], "next": None})
    result = await run("runs", "list")
    assert result.code == 0, result.err
    assert api.requests[0].headers["authorization"] == "Bearer rwk_dev"
    assert "namespace=default" in api.requests[0].target
    # Its key is for its own address, and for no other that is named.
    assert (await run("runs", "list", "--url", api.url + "/")).code == 0
    other = await run("runs", "list", "--url", "http://127.0.0.1:1")
    assert (other.code, len(api.requests)) == (2, 2)
    assert "No key for http://127.0.0.1:1" in other.err


async def test_listing_runs(server: FakeApi, run: Run) -> None:
    failed = run_json(id="b", status="failed", output=None, error={"name": "Error", "message": "no"})
    waiting = run_json(id="a", status="active", waiting_for=[{"kind": "timer"}], started_at=None)
    server.on("GET /v1/runs", {"data": [run_json(id="c"), failed, waiting], "next": None})
    result = await run("runs", "list", "--limit", "3")
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["RUN", "STATUS", "STARTED"]
    assert lines[1][:2] == ["c", "completed"]
    assert lines[1][-2:] == ['{"greeting":"Hello', 'Ada"}']
    assert lines[2][-2:] == ["Error:", "no"]
    assert lines[3][-3:] == ["for", "a", "timer"]
    assert len(server.requests) == 1
    assert result.err == ""
    cut = await run("runs", "list", "--limit", "2")
    assert len(cut.out.splitlines()) == 3
    assert "newest 2: --limit shows more" in cut.err
    as_json = await run("runs", "list", "--json", "--limit", "3")
    assert [item["id"] for item in json.loads(as_json.out)["data"]] == ["c", "b", "a"]


async def test_a_journal_as_text_and_as_lines_of_json(server: FakeApi, run: Run) -> None:
    server.on(f"GET /v1/runs/{RUN_ID}/journal", {"data": EVERY_KIND, "next": None})
    assert (await run("runs", "journal", RUN_ID)).out == GOLDEN
    as_json = await run("runs", "journal", RUN_ID, "--json")
    assert [json.loads(line)["seq"] for line in as_json.out.splitlines()] == list(range(24))


async def test_following_a_journal_until_its_end(
    server: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewind._core.delay_s", lambda *_: 0.001)
    entries = [("entry", entry, entry["seq"]) for entry in EVERY_KIND[:20]]
    server.on(
        f"GET /v1/runs/{RUN_ID}/events",
        stream(*entries[:5], broken=True),
        problem(503, "unavailable", "The server is leaving."),
        stream(*entries[5:], ("end", {"status": "completed"}, None)),
    )
    result = await run("runs", "journal", RUN_ID, "-f")
    assert result.out == "".join(GOLDEN.splitlines(keepends=True)[:21])
    assert [request.headers.get("last-event-id") for request in server.requests] == [None, "4", "4"]


async def test_logs_are_the_entries_that_a_script_logged(server: FakeApi, run: Run) -> None:
    server.on(f"GET /v1/runs/{RUN_ID}/journal", {"data": EVERY_KIND, "next": None})
    logged = [entry for entry in EVERY_KIND if entry["type"] == "log"]
    assert logged
    lines = GOLDEN.splitlines(keepends=True)[1:]
    assert (await run("runs", "logs", RUN_ID)).out == "".join(lines[entry["seq"]] for entry in logged)
    as_json = await run("runs", "logs", RUN_ID, "--json")
    assert [json.loads(line) for line in as_json.out.splitlines()] == logged


async def test_signals_and_cancels(server: FakeApi, run: Run) -> None:
    server.on(f"POST /v1/runs/{RUN_ID}/signals", Reply(202, {"id": "s1", "duplicate": False}))
    result = await run("runs", "signal", RUN_ID, "decision", '{"close":true}', "--by", "ada", "--id", "s1")
    assert result.out == "sent\n"
    assert server.requests[0].json() == {
        "name": "decision",
        "payload": {"close": True},
        "id": "s1",
        "by": "ada",
    }
    server.on(f"POST /v1/runs/{RUN_ID}/cancel", Reply(202, run_json(status="active", cancelling=True)))
    assert "cancelling" in (await run("runs", "cancel", RUN_ID, "--reason", "no need")).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere.ts"], "can't read nowhere.ts"),
        (["run", "-", "--input", "{bad"], "--input is no JSON"),
        (["run", "-", "--input", "hello"], "Text needs quotes: '\"hello\"'"),
        (["run", "-", "--input", "-"], "only one of"),
        (["run", "-", "--label", "novalue"], "key=value"),
        (["run", "-", "--wait", "soon"], "is no duration"),
        (["runs", "list", "--limit", "0"], "1 to 10000"),
        (["runs", "get", ""], "run id is empty"),
        (["runs", "list", "--url", "nonsense"], "is no address"),
        (["sing"], "invalid choice"),
        (["runs", "list", "--toolset", "x"], "usage: rewind runs list"),
        (["test", "a.ts", "--toolset", "x"], "rewind test: error: unknown arguments: --toolset x"),
    ],
)
async def test_wrong_usage(server: FakeApi, run: Run, arguments: list[str], message: str) -> None:
    result = await run(*arguments)
    assert result.code == 2
    assert message in result.err
    assert not server.requests


async def test_verbs_of_the_server(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "entry_points", lambda **_: [])
    missing = await run("dev")
    assert (missing.code, missing.out) == (2, "")
    assert "pip install rewind-server" in missing.err

    class Point:
        value = "app.cli:register"

        def load(self) -> Callable[..., None]:
            def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
                verbs.add_parser("dev").set_defaults(handler=lambda _: 7)

            return register

    monkeypatch.setattr(cli, "entry_points", lambda **_: [Point()])
    assert (await run("dev")).code == 7


async def test_help_is_no_error(run: Run) -> None:
    assert (await run("--help")).code == 0
    assert (await run()).code == 0
    assert (await run("runs")).code == 2


def test_values_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"a":[1]}')
    assert json_argument(f"@{tmp_path}/in.json", "x") == {"a": [1]}
    with pytest.raises(Usage):
        json_argument("@/nowhere/at/all", "x")
    assert labels_argument(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    assert [seconds(text) for text in ("500", "30s", "1h 30m", "250ms", "1.5m")] == [0.5, 30, 5400, 0.25, 90]


def test_ages_and_wide_values() -> None:
    assert age_text("2020-01-01T00:00:00.000Z").endswith("d ago")
    assert age_text(None) == ""
    assert pretty({"a": [1, 2]}) == '{"a":[1,2]}'
    wide = pretty({"list": ["x" * 60, "y" * 60], "n": 1})
    assert wide == '{\n  "list": [\n    "' + "x" * 60 + '",\n    "' + "y" * 60 + '"\n  ],\n  "n": 1\n}'
