"""Servers whose answers are made to cost: what they say is bounded before anything is done with it."""

import json
import time
from typing import Any

import pytest

from app.dispatcher.http_request import RequestRefused, outgoing, redirected, value_of_answer
from app.dispatcher.listing import PARTS_MAX
from app.dispatcher.mcp import LIST_BYTES_MAX, SAID_CHARS_MAX, ServerRefused
from app.dispatcher.results import failure_of
from tests.app.dispatcher.test_http import pin as pin_http
from tests.app.dispatcher.test_http import request
from tests.app.dispatcher.test_loop import begin, call, dispatching, outcomes, pin
from tests.app.dispatcher.test_mcp_failures import JSON, Sessions, rpc_error
from tests.fixtures.api import Api
from tests.fixtures.web_server import Asked, Reply, WebServer

QUICKLY_S = 1.0
"""What takes hours when its time grows with the square of the answer."""


@pytest.mark.parametrize("word", ["tool ", "session ", "unknown ", "… "])
def test_what_a_server_says_is_read_in_time(word: str) -> None:
    began = time.monotonic()
    said = failure_of(ServerRefused(-32602, word * 2_000_000, None), idempotent=False)
    assert said.code == "invalid_arguments"
    assert len(said.message) <= SAID_CHARS_MAX
    assert time.monotonic() - began < QUICKLY_S


def test_a_tool_that_is_gone_is_still_known() -> None:
    for said in ("Tool close_issue not found", "Unknown tool: a", "no such tool"):
        assert failure_of(ServerRefused(-32602, said, None), idempotent=False).code == "tool_removed"


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "utf-7", "unicode_escape", "raw_unicode_escape", "x"]
)
def test_charsets_are_those_of_the_web(charset: str) -> None:
    """Python's others cost the square of the body, or make lone surrogates."""
    began = time.monotonic()
    body = b"\\ud800+2AA-" + b"b" * 500_000 + b"-" + b"a" * 500_000
    found = value_of_answer(200, [("content-type", f"text/plain; charset={charset}")], body)
    assert found["text"] == ""
    assert isinstance(found["base64"], str)
    assert time.monotonic() - began < QUICKLY_S


@pytest.mark.parametrize(
    ("charset", "text"), [("Shift_JIS", "日本"), ("windows-1251", "да"), ("utf-16le", "é"), ('"UTF-8"', "ß")]
)
def test_charsets_of_the_web_are_read(charset: str, text: str) -> None:
    body = text.encode(charset.strip('"'))
    assert value_of_answer(200, [("content-type", f"text/html; charset={charset}")], body)["text"] == text


def test_a_query_that_makes_no_url_is_the_scripts_fault() -> None:
    with pytest.raises(RequestRefused, match="`query` makes no URL") as refused:
        outgoing({"url": "http://a.example/", "query": {"a": "x" * 100_000}}, "key")
    assert refused.value.code == "invalid_arguments"


def test_a_redirect_to_no_url_is_the_servers_fault() -> None:
    with pytest.raises(RequestRefused, match="is no URL") as refused:
        redirected(outgoing({"url": "http://a.example/"}, "key"), 302, "http://[")
    assert refused.value.code == "unreachable"


async def test_answers_of_http_servers_that_cost(api: Api) -> None:
    def routes(asked: Asked) -> Reply:
        if asked.path == "/to-nowhere":
            return Reply(302, headers=(("Location", "http://["),))
        return Reply(200, b"b-a", (("Content-Type", "text/plain; charset=punycode"),))

    async with WebServer(routes) as server, dispatching(api):
        await pin_http(api)
        run, puppet = await begin(api)
        found = await request(api, run, puppet, url=server.url + "/to-nowhere")
        assert found[0] == "unreachable"
        assert (await request(api, run, puppet, url=server.url + "/x"))["base64"] == "Yi1h"
        large = {"a": "é" * 30_000}
        assert (await request(api, run, puppet, url=server.url + "/x", query=large))[0] == "invalid_arguments"


async def test_results_of_very_many_parts(api: Api) -> None:
    server = Sessions(["most", "more", "refused"])
    part = {"type": "text", "text": ""}
    server.results = {"most": {"content": [part] * PARTS_MAX}, "more": {"content": [part] * (PARTS_MAX + 1)}}

    def answer(asked: Asked) -> Reply:
        message: Any = json.loads(asked.body) if asked.body else {}
        if message.get("params", {}).get("name") == "refused":
            return rpc_error(-32602, "tool " * 1_000_000, message["id"])
        return server(asked)

    async with WebServer(answer) as web, dispatching(api):
        await pin(api, web.url)
        run, puppet = await begin(api)
        errors = {}
        for name in ("most", "more", "refused"):
            number = await call(puppet, api, f"s0.{name}")
            found = await outcomes(api, run, number)
            errors[name] = found[-1].get("error", {}).get("code")
        assert errors == {"most": None, "more": "too_large", "refused": "invalid_arguments"}


async def test_a_list_of_tools_has_a_size(api: Api) -> None:
    pages = 0

    def answer(asked: Asked) -> Reply:
        nonlocal pages
        message: Any = json.loads(asked.body) if asked.body else {}
        if message.get("method") != "tools/list":
            return Sessions([])(asked)
        pages += 1
        schema = {"type": "object", "description": "x" * (LIST_BYTES_MAX // 4)}
        page = {"tools": [{"name": f"t{pages}", "inputSchema": schema}], "nextCursor": f"{pages}"}
        return Reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": page}).encode(), JSON)

    async with WebServer(answer) as web:
        body = {"name": "endless", "mcp": [{"name": "fake", "url": web.url}]}
        refused = await api.call("POST", "/v1/toolsets", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "toolset_invalid"), refused.text
        assert "more than 41,943,040 bytes" in refused.text
        assert pages == 4
