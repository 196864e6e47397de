"""`http` of "rewind:tools": its helpers are calls of http.request, with arguments in one form."""

import pytest

from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = 'import { http } from "rewind:tools";\nexport default async function main() { '
TOOLS = ("http.request",)


@pytest.mark.parametrize(
    ("call", "args"),
    [
        ("http.get('https://a.b/c')", {"method": "GET", "url": "https://a.b/c"}),
        ("http.delete(new URL('https://a.b'))", {"method": "DELETE", "url": "https://a.b/"}),
        (
            "http.post('https://a.b', { json: { n: 1, d: new Date(0) }, headers: { 'X-N': 1, skip: undefined } })",
            {
                "method": "POST",
                "url": "https://a.b",
                "json": {"n": 1, "d": "1970-01-01T00:00:00.000Z"},
                "headers": {"X-N": "1"},
            },
        ),
        (
            "http.put('https://a.b', { text: 'x', query: { a: true, b: [1, 2] } })",
            {"method": "PUT", "url": "https://a.b", "text": "x", "query": {"a": "true", "b": ["1", "2"]}},
        ),
        (
            "http.patch('https://a.b', { base64: 'AQ==' })",
            {"method": "PATCH", "url": "https://a.b", "base64": "AQ=="},
        ),
        (
            "http.request({ url: 'https://a.b', method: 'head', other: 1 })",
            {"method": "HEAD", "url": "https://a.b"},
        ),
        (
            "http.request({ url: 'https://a.b', json: null })",
            {"method": "GET", "url": "https://a.b", "json": None},
        ),
    ],
)
async def test_arguments_have_one_form(run: Run, call: str, args: dict[str, object]) -> None:
    world = await run(f"{HEAD}return await {call}; }}", tools=TOOLS)
    assert world.calls == [["http.request", args]]
    (command,) = world.of_type("schedule_tool_call")
    # For a name that is a keyword V8 gives the place of its parenthesis.
    assert (command["line"], command["column"]) == (2, 64 if "delete" in call else 58)
    assert world.output == args


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("http.get()", "http.request needs a url"),
        ("http.request('https://a.b' as any)", "http.request needs {url, …}"),
        ("http.get({ url: 'x' } as any)", "the first argument is the url"),
        ("http.post('x', { json: 1, text: 'a' })", "http.request takes one body: json or text, not both"),
        ("http.post('x', { text: 1 as any })", "http.request: text must be text"),
        ("http.get('x', { headers: [] as any })", "http.request: headers must be an object"),
        ("http.post('x', { json: { a: [1n] } })", "http.request: args.json.a[0] is a BigInt"),
    ],
)
async def test_what_is_refused_names_the_mistake(run: Run, call: str, what: str) -> None:
    world = await run(f"{HEAD}await (http as any).request; await {call}; }}", tools=TOOLS)
    assert world.calls == []
    assert world.error["name"] == "TypeError"
    assert world.error["message"].startswith(what)


async def test_timeout_and_signal_may_stand_in_the_request(run: Run) -> None:
    world = await run(
        f"{HEAD}const stop = new AbortController();\n"
        "await http.get('https://a.b', { timeout: '5s' });\n"
        "await http.request({ url: 'https://a.b' }, { timeout: 7 });\n"
        "const call = http.get('https://a.b', { signal: stop.signal }).catch((e: any) => e.name);\n"
        "stop.abort(); return await call; }",
        tools=TOOLS,
    )
    assert [c.get("timeout_ms") for c in world.of_type("schedule_tool_call")] == [5_000, 7, None]
    assert len(world.of_type("tool_call_cancelled")) == 1
    assert world.output == "CancelledError"


async def test_the_helpers_cannot_be_replaced(run: Run) -> None:
    world = await run(
        f"{HEAD}const h: any = http; const out: string[] = [];\n"
        "for (const f of [() => { h.get = 1 }, () => { h.request.x = 1 }, () => { h.extra = 1 }]) try { f(); out.push('ok') } catch (e: any) { out.push(e.name) }\n"
        "return out; }",
        tools=TOOLS,
    )
    assert world.output == ["TypeError"] * 3


async def test_a_toolset_without_http_has_none(run: Run) -> None:
    world = await run(f"{HEAD}await http.get('x'); }}", tools=("probe.echo",))
    assert world.error["message"].startswith('"rewind:tools" has no export "http"')


async def test_no_answer_is_an_error_of_the_tool(run: Run) -> None:
    error = {"code": "unreachable", "message": "no answer", "retryable": True}
    world = await run(
        f"{HEAD}return await http.get('https://a.b').catch((e: any) => [e.name, e.tool, e.code, e.retryable]); }}",
        tools=TOOLS,
        answer=lambda _call, _tool, _args: Outcome(error=error),
    )
    assert world.output == ["ToolError", "http.request", "unreachable", True]
