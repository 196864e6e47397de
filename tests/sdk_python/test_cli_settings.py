"""The verbs about toolsets and tokens."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sdk_python.command import Run
from tests.sdk_python.fake_api import RUN_ID, FakeApi
from tests.sdk_python.http_server import Reply


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


async def test_outputs_toolsets_and_tokens(server: FakeApi, run: Run) -> None:
    output = {"text": '{"a":1}', "offset": 0, "bytes": 7, "total": 7, "next": None}
    server.on(f"GET /v1/runs/{RUN_ID}/output", output)
    assert (await run("runs", "output", RUN_ID)).out == '{"a":1}\n'
    tools = [{"name": "math.add", "kind": "host", "idempotent": True, "approval": False}]
    toolset = {"id": "1", "name": "math", "digest": "sha256:ab", "tools": tools, "warnings": ["careful"]}
    server.on("GET /v1/toolsets", {"data": [toolset], "next": None})
    assert (await run("toolsets", "list")).out.split() == [
        "TOOLSET",
        "TOOLS",
        "DIGEST",
        "math",
        "1",
        "sha256:ab",
    ]
    server.on("GET /v1/toolsets/math", toolset)
    shown = await run("toolsets", "get", "math")
    assert shown.out.split() == ["math@sha256:ab", "TOOL", "KIND", "math.add", "host", "idempotent"]
    assert shown.err == "warning: careful\n"
    token = {
        "id": "1",
        "token": "rwt_secret",
        "namespace": "alice",
        "scopes": ["runs:read"],
        "expires_at": None,
    }
    server.on("POST /v1/tokens", Reply(201, token))
    made = await run("tokens", "create", "--namespace", "alice", "--scope", "runs:read", "--ttl", "never")
    assert made.out == "rwt_secret\n"
    assert server.requests[-1].json() == {"namespace": "alice", "ttl": None, "scopes": ["runs:read"]}


async def test_a_token_is_narrowed(server: FakeApi, run: Run) -> None:
    narrow = {"toolset": "support", "workflows": ["refund"], "run": "r", "signals": ["yes", "no"]}
    token = {
        "id": "1",
        "token": "rwt_secret",
        "namespace": "alice",
        "scopes": [],
        "expires_at": None,
        "narrow": narrow,
    }
    server.on("POST /v1/tokens", Reply(201, token))
    options = (
        "--toolset",
        "support",
        "--workflow",
        "refund",
        "--run",
        "r",
        "--signal",
        "yes",
        "--signal",
        "no",
    )
    made = await run("tokens", "create", "--namespace", "alice", *options)
    assert server.requests[-1].json() == {"namespace": "alice", "narrow": narrow}
    assert "narrowed to {" in made.err


async def test_a_toolset_is_registered_from_a_file(server: FakeApi, run: Run, tmp_path: Path) -> None:
    toolset = {"id": "1", "name": "math", "digest": "sha256:ab", "tools": [], "warnings": []}
    server.on("POST /v1/toolsets", Reply(201, toolset))
    body = {
        "tools": [{"name": "add", "description": "", "input_schema": {}}],
        "http": {"allow": ["a.example"]},
    }
    file = tmp_path / "toolset.json"
    file.write_text(json.dumps({"name": "math", **body}))
    made = await run("toolsets", "register", "math", str(file))
    assert (made.code, made.out) == (0, "math@sha256:ab\n")
    assert server.requests[-1].json() == {"name": "math", **body}
    asked = len(server.requests)
    wrong = await run("toolsets", "register", "other", str(file))
    assert (wrong.code, "another name" in wrong.err) == (2, True)
    for text in ("[]", '{"tool": []}', "{"):
        file.write_text(text)
        assert (await run("toolsets", "register", "math", str(file))).code == 2
    assert len(server.requests) == asked, "what cannot be meant is not sent"


async def test_a_refresh_shows_what_changed_and_pins_what_is_accepted(server: FakeApi, run: Run) -> None:
    changes = [{"tool": "fs.read", "change": "changed"}]
    found = {"changes": changes, "digest": "sha256:ab"}
    server.on("POST /v1/toolsets/math/refresh", found, found, found, {"changes": [], "digest": "sha256:cd"})
    shown = await run("toolsets", "refresh", "math")
    assert shown.out.split() == ["TOOL", "CHANGE", "fs.read", "changed", "math@sha256:ab"]
    await run("toolsets", "refresh", "math", "--accept")
    await run("toolsets", "refresh", "math", "--accept", "fs.read")
    assert [sent.json()["accept"] for sent in server.requests[-3:]] == [False, True, ["fs.read"]]
    assert "nothing has changed" in (await run("toolsets", "refresh", "math")).err


async def test_tokens_are_listed_and_revoked(server: FakeApi, run: Run) -> None:
    token = {
        "id": "t1",
        "prefix": "rwt_ab",
        "namespace": "alice",
        "scopes": [],
        "expires_at": None,
        "name": "bot",
    }
    server.on("GET /v1/tokens", {"data": [token], "next": None}, {"data": [], "next": None})
    shown = await run("tokens", "list", "--namespace", "alice")
    assert shown.out.split("\n")[1].split() == ["t1", "rwt_ab", "alice", "never", "bot"]
    assert "no tokens" in (await run("tokens", "list")).err
    server.on("DELETE /v1/tokens/t1", Reply(204))
    assert (await run("tokens", "delete", "t1")).code == 0


async def test_declarations_and_search_of_a_toolset(server: FakeApi, run: Run) -> None:
    text = Reply(body=b"declare module\n", headers={"Content-Type": "text/plain; charset=utf-8"})
    server.on("GET /v1/toolsets/math/declarations", text)
    assert (await run("toolsets", "declarations", "math")).out == "declare module\n"
    shown = await run(
        "toolsets",
        "declarations",
        "math",
        "--format",
        "prompt",
        "--tools",
        "a,b",
        "--budget",
        "900",
        "--json",
    )
    assert json.loads(shown.out) == {"declarations": "declare module\n"}
    assert server.requests[-1].target.endswith("?format=prompt&tools=a%2Cb&budget=900")
    found = {
        "name": "add",
        "description": "Adds.",
        "declaration": "add(): any // Adds.",
        "kind": "host",
        "approval": None,
    }
    server.on("GET /v1/toolsets/math/search", {"data": [found]}, {"data": []})
    assert (await run("toolsets", "search", "math", "sum", "up")).out == "add(): any // Adds.\n"
    assert server.requests[-1].target.endswith("?q=sum%20up")
    assert "no tool fits" in (await run("toolsets", "search", "math", "x")).err
