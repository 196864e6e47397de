"""The verbs about toolsets and tokens."""

import json
from collections.abc import AsyncIterator

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
