"""Toolsets as TypeScript, as a prompt, and searched; bad tools of servers are disabled, the rest works."""

import json
import time
from typing import Any

import pytest

from sandbox.compiler.tokens import TOKENIZER, estimate_tokens
from tests.fixtures.api import Api
from tests.fixtures.cases import shared_cases
from tests.fixtures.hostile_mcp import HostileServer
from tests.fixtures.typescript import type_check

ISSUES = {
    "name": "github.list_issues",
    "description": "List the issues of a repository. Newest first.",
    "input_schema": {"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]},
    "output_schema": {"type": "array", "items": {"$ref": "#/$defs/Issue"}, "$defs": {"Issue": {
        "type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}}},
}  # fmt: skip
REFUND = {
    "name": "refund",
    "description": "Pay money back",
    "input_schema": {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]},
    "approval": True,
}


async def declared(api: Api, query: str = "", **fields: Any) -> str:
    answer = await api.call("GET", f"/v1/toolsets/support/declarations{query}", **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    return answer.text


@pytest.fixture
async def support(api: Api) -> Api:
    body = {"name": "support", "tools": [ISSUES, REFUND]}
    assert (await api.call("POST", "/v1/toolsets", json=body)).status_code == 201
    return api


async def test_what_scripts_are_checked_against(support: Api) -> None:
    script = """import { github, refund } from "rewind:tools";
export default async function main() {
  const issues = await github.list_issues({ repo: "a" }, { timeout: "30s", signal: new AbortController().signal });
  const first: number | undefined = issues[0]?.number;
  const money = await refund({ cents: 1 });
  return { first, id: money.id };
}"""
    text = await declared(support)
    assert type_check({"tools.d.ts": text, "script.ts": script}) == []
    assert text == await declared(support, "?format=dts")
    wrong = script.replace('{ repo: "a" }', "{ repo: 42 }").replace("?.number", "?.numbr")
    assert [found.line for found in type_check({"tools.d.ts": text, "script.ts": wrong})] == [3, 4]


async def test_a_prompt_has_a_line_a_tool(support: Api) -> None:
    text = await declared(support, "?format=prompt")
    assert text.splitlines()[1:] == [
        "github.list_issues({ repo: string }): { number: number }[] // List the issues of a repository.",
        "refund({ cents: number }): any // [waits for approval] Pay money back",
    ]
    many = [{**ISSUES, "name": f"github.list_{kind}"} for kind in ("issues", "pulls", "forks")]
    await support.call("POST", "/v1/toolsets", json={"name": "support", "tools": many})
    small = await declared(support, "?format=prompt&budget=100")
    assert estimate_tokens(small) <= 100
    *lines, closing = small.splitlines()
    assert lines[1:] == [f"github.list_{kind}({{ repo }})" for kind in ("issues", "pulls", "forks")]
    assert closing.startswith("// 0 of 3 tools are shown in full. search_tools finds")


async def test_only_some_tools(support: Api) -> None:
    for only in ("github", "github.list_issues", " github.list_issues ,"):
        text = await declared(support, f"?format=prompt&tools={only}")
        assert [line.split("(")[0] for line in text.splitlines()[1:]] == ["github.list_issues"]
    assert "refund" not in await declared(support, "?tools=github")
    refused = await support.call("GET", "/v1/toolsets/support/declarations?tools=github.list_isues")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert "Did you mean 'github.list_issues'?" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("declarations?format=json", "format"),
        ("declarations?format=prompt&budget=99", "budget"),
        ("declarations?format=prompt&budget=x", "budget"),
        ("declarations?budget=5000", "budget"),
        ("search", "q"),
        ("search?q=", "q"),
        ("search?q=" + "x" * 1_001, "q"),
        ("search?q=x&limit=51", "limit"),
    ],
)
async def test_queries_that_are_refused(support: Api, query: str, path: str) -> None:
    answer = await support.call("GET", f"/v1/toolsets/support/{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert [error["path"] for error in answer.json()["errors"]] == [path]


async def test_versions_and_tokens(support: Api) -> None:
    digest = (await support.call("GET", "/v1/toolsets/support")).json()["digest"]
    before = await declared(support)
    await support.call("POST", "/v1/toolsets", json={"name": "support", "tools": [REFUND]})
    old = await support.call("GET", f"/v1/toolsets/support@{digest}/declarations")
    assert (old.text, "github" in await declared(support)) == (before, False)
    secret = await support.token("acme", ["runs:read"], narrow={"toolset": "other"})
    for path in ("declarations", "search?q=x"):
        assert (await support.call("GET", f"/v1/toolsets/support/{path}", secret=secret)).status_code == 403
        assert (await support.call("GET", f"/v1/toolsets/unknown/{path}")).status_code == 404
    assert await declared(support, secret=await support.token("acme", ["runs:read"])) == await declared(
        support
    )


async def test_search_ranks_tools(support: Api) -> None:
    answer = (await support.call("GET", "/v1/toolsets/support/search?q=listing issue")).json()
    assert answer == {
        "data": [
            {
                "name": "github.list_issues",
                "description": "List the issues of a repository. Newest first.",
                "declaration": "github.list_issues({ repo: string }): { number: number }[] "
                "// List the issues of a repository.",
                "kind": "host",
                "approval": None,
            }
        ]
    }
    assert (await support.call("GET", "/v1/toolsets/support/search?q=weather")).json() == {"data": []}


DEEP: dict[str, Any] = {"type": "string"}
for _ in range(92):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
BAD_SCHEMAS = {
    "no-type": ({"type": "objekt"}, "input_schema.type"),
    "no-schema": ({"type": "object", "properties": {"x": 3}}, "input_schema.properties.x"),
    "other-dialect": ({"type": "object", "$schema": "http://json-schema.org/draft-03/schema#"}, "input_schema.$schema"),
    "too-deep": ({"type": "object", "properties": {"x": DEEP}}, "nested deeper than 180"),
    "too-large": ({"type": "object", "properties": {"x": {"enum": list(range(100_000))}}}, "262,144"),
    "with-nul": ({"type": "object", "title": "a\0b"}, "U+0000"),
}  # fmt: skip


async def test_one_bad_tool_is_disabled_and_the_rest_works(api: Api) -> None:
    async with HostileServer() as server:
        server.tools = [{"name": "fine", "inputSchema": ISSUES["input_schema"]}]
        server.tools += [{"name": name, "inputSchema": schema} for name, (schema, _) in BAD_SCHEMAS.items()]
        server.tools.append(
            {
                "name": "result",
                "inputSchema": {"type": "object"},
                "outputSchema": {"type": "object", "required": 1},
            }
        )
        body = {"name": "support", "mcp": [{"name": "fs", "url": server.url}]}
        answer = await api.call("POST", "/v1/toolsets", json=body)
    assert answer.status_code == 201, answer.text
    view = answer.json()
    disabled = {tool["original"]: tool["disabled"] for tool in view["tools"] if "disabled" in tool}
    assert disabled.keys() == {*BAD_SCHEMAS, "result"}
    for name, (_, said) in BAD_SCHEMAS.items():
        assert said in disabled[name]
        assert f"fs: the tool {name!r} is disabled: {disabled[name]}." in view["warnings"]
    assert disabled["result"].startswith("output_schema.required: ")
    text = await declared(api)
    script = (
        'import { fs } from "rewind:tools";\nexport default () => fs.fine({ repo: "x" });\nfs.no_type({});'
    )
    assert [found.line for found in type_check({"tools.d.ts": text, "script.ts": script})] == [3]
    assert "no_type" not in await declared(api, "?format=prompt")
    puppet = await api.puppet((await api.start(toolset="support"))["id"])
    facts = await puppet.facts()
    assert [tool["name"] for tool in facts.tools] == ["fs.fine"]


async def test_what_references_lead_to_nowhere_does_not_take_the_rest_along(api: Api) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/Nope"}, "b": {"type": "number"}},
        "required": ["b"],
    }
    tool = {"name": "odd", "description": "", "input_schema": schema}
    answer = await api.call("POST", "/v1/toolsets", json={"name": "support", "tools": [tool]})
    assert answer.json()["warnings"] == [
        "odd: input_schema: properties.a.$ref: '#/$defs/Nope' leads nowhere; it is typed `unknown`, and not checked."
    ]
    run = await api.start(toolset="support")
    puppet = await api.puppet(run["id"])
    await puppet.call_tool("odd", {"a": 1, "b": "no number"})
    assert (await api.call("POST", "/v1/tasks/claim", json={"max": 5})).json()["tasks"] == []
    journal = (await api.call("GET", f"/v1/runs/{run['id']}/journal?namespace=acme")).json()["data"]
    assert journal[-1]["error"]["code"] == "invalid_arguments"


async def test_386_tools_in_one_toolset(api: Api) -> None:
    """The recorded servers, repeated under other names: registered at once, and a prompt within its budget."""
    tools: list[dict[str, Any]] = []
    cases = sorted(shared_cases("mcp-tools").glob("*.json"))
    for turn in range(3):
        for number, case in enumerate(cases):
            for tool in json.loads(case.read_text())["tools"]:
                output = {"output_schema": tool["outputSchema"]} if "outputSchema" in tool else {}
                tools.append({
                    "name": f"s{number}_{turn}.{tool['name']}", "description": tool.get("description", ""),
                    "input_schema": tool["inputSchema"], **output,
                })  # fmt: skip
    began, cpu = time.perf_counter(), time.process_time()
    answer = await api.call("POST", "/v1/toolsets", json={"name": "support", "tools": tools[:386]})
    assert answer.status_code == 201, answer.text
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"386 tools registered in {took:.2f} s, {cpu:.2f} s of CPU in the api")
    assert (len(answer.json()["tools"]), answer.json()["warnings"]) == (386, [])
    text = await declared(api, "?format=prompt&budget=12000")
    assert await declared(api, "?format=prompt") == text, "that is what a prompt has by default"
    assert 11_000 <= estimate_tokens(text) <= 12_000
    print(f"prompt of {estimate_tokens(text):,} tokens of {TOKENIZER} for a budget of 12,000")
    lines = text.splitlines()
    assert len(lines) == 386 + 2
    assert lines[-1].startswith("// ")
    assert type_check({"tools.d.ts": await declared(api)}) == []
