"""The recorded tools of ten real servers, repeated under other names up to 386, all of them over MCP in one toolset."""

import contextlib
import json
import statistics
import time
from typing import Any

from sandbox.compiler.tokens import TOKENIZER, estimate_tokens
from tests.fixtures.api import Api
from tests.fixtures.cases import shared_cases
from tests.fixtures.hostile_mcp import HostileServer

TOOLS = 386
BUDGET_S = 2.0
PROMPT_TOKENS_MAX = 12_000
TRIES = 3


def recorded_lists() -> list[list[dict[str, Any]]]:
    return [
        json.loads(case.read_text())["tools"] for case in sorted(shared_cases("mcp-tools").glob("*.json"))
    ]


async def test_386_tools_of_many_servers_in_one_toolset(api: Api) -> None:
    lists = recorded_lists()
    assert (len(lists), sum(len(listed) for listed in lists)) == (10, 173)
    async with contextlib.AsyncExitStack() as running:
        servers: list[dict[str, Any]] = []
        left = TOOLS
        for turn in range(TOOLS):
            if not left:
                break
            server = await running.enter_async_context(HostileServer())
            server.tools = lists[turn % len(lists)][:left]
            left -= len(server.tools)
            servers.append({"name": f"s{turn}", "url": server.url})
        took, cpu = [], []
        for number in range(TRIES):
            began, spent = time.perf_counter(), time.process_time()
            answer = await api.call("POST", "/v1/toolsets", json={"name": f"many{number}", "mcp": servers})
            took.append(time.perf_counter() - began)
            cpu.append(time.process_time() - spent)
            assert answer.status_code == 201, answer.text
    view = answer.json()
    assert (len(view["tools"]), view["warnings"]) == (TOOLS, [])
    assert not [tool["name"] for tool in view["tools"] if "disabled" in tool]
    print(
        f"\n{TOOLS} tools of {len(servers)} servers: median {statistics.median(took):.2f} s, CPU {statistics.median(cpu):.2f} s,"
    )
    print(f"the servers' own included; all: {', '.join(f'{each:.2f}' for each in took)} s")
    assert statistics.median(cpu) < BUDGET_S

    prompt = await api.call(
        "GET", f"/v1/toolsets/many0/declarations?format=prompt&budget={PROMPT_TOKENS_MAX}"
    )
    tokens = estimate_tokens(prompt.text)
    print(f"prompt: {tokens:,} tokens of {TOKENIZER}")
    assert tokens <= PROMPT_TOKENS_MAX
    found = await api.call("GET", "/v1/toolsets/many0/search?q=create+pull+request")
    assert [hit["name"].partition(".")[2] for hit in found.json()["data"]][:1] == ["create_pull_request"]
