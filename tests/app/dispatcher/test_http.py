"""The `http` tool: what goes out, what comes back, where it may go."""

import base64
import gzip
import json
from typing import Any

import pytest

from app.body import VALUE_BYTES_MAX
from app.dispatcher.http_tool import REDIRECTS_MAX
from tests.app.dispatcher.test_egress import HOSTILE
from tests.app.dispatcher.test_loop import begin, call, crash, dispatching, outcomes
from tests.fixtures.api import Api, Puppet
from tests.fixtures.web_server import Asked, Reply, WebServer

JSON = (("Content-Type", "application/json"),)


REFUSED = ("not on the public internet", "is no URL")
"""Octal numbers are in no URL that a client takes."""


async def pin(api: Api, *allow: str, **fields: Any) -> dict[str, Any]:
    body = {"name": "support", "http": {"allow": list(allow) or ["127.0.0.1"], **fields}}
    answer = await api.call("POST", "/v1/toolsets", json=body)
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


async def request(api: Api, run: str, puppet: Puppet, **args: Any) -> Any:
    """The result, or (code, retryable, message)."""
    draft = {"timeout_ms": args.pop("timeout_ms")} if "timeout_ms" in args else {}
    number = await call(puppet, api, "http.request", args, **draft)
    found = await outcomes(api, run, number)
    (entry,) = [entry for entry in found if entry["call"] == number]
    if "error" in entry:
        error = entry["error"]
        assert error["name"] == "ToolError"
        return error["code"], error["retryable"], error["message"]
    return entry["result"].get("value", entry["result"]["bytes"])


def routes(asked: Asked) -> Reply | None:
    path = asked.path.partition("?")[0]
    replies: dict[str, Reply | None] = {
        "/json": Reply(200, b'{"a": [1, null]}', (*JSON, ("X-One", "1"), ("X-Many", "1"), ("X-Many", "2"))),
        "/missing": Reply(404, b'{"error": "no"}', JSON),
        "/broken": Reply(500, b"oh", (("Content-Type", "text/plain"),)),
        "/latin": Reply(200, "é".encode("latin-1"), (("Content-Type", "text/plain; charset=iso-8859-1"),)),
        "/bytes": Reply(200, b"\x00\xff", (("Content-Type", "application/octet-stream"),)),
        "/bad-json": Reply(200, b"{nope", JSON),
        "/deep": Reply(200, b"[" * 200 + b"]" * 200, JSON),
        "/surrogate": Reply(200, b'["\\ud800"]', JSON),
        "/empty": Reply(204),
        "/gzip": Reply(200, gzip.compress(b"unasked"), (("Content-Encoding", "gzip"), ("Content-Type", "text/plain"))),
        "/bomb": Reply(200, gzip.compress(bytes(VALUE_BYTES_MAX + 1)), (("Content-Encoding", "gzip"),)),
        "/huge": Reply(200, bytes(VALUE_BYTES_MAX + 1)),
        "/cut": Reply(200, b"half", cut=True),
        "/hang": None,
        "/loop": Reply(302, headers=(("Location", "/loop"),)),
        "/echo": Reply(200, asked.body, (("Content-Type", asked.headers.get("content-type", "")),)),
    }  # fmt: skip
    return replies[path]


async def test_answers_are_results_whatever_their_status(api: Api) -> None:
    async with WebServer(routes) as server, dispatching(api):
        pinned = await pin(api)
        assert [(tool["name"], tool["kind"], tool["approval"]) for tool in pinned["tools"]] == [
            ("http.request", "http", None)
        ]
        run, puppet = await begin(api)

        async def get(path: str) -> Any:
            return await request(api, run, puppet, method="GET", url=server.url + path)

        found = await get("/json")
        assert {name: found[name] for name in ("status", "ok", "json", "text")} == {
            "status": 200, "ok": True, "json": {"a": [1, None]}, "text": '{"a": [1, null]}',
        }  # fmt: skip
        assert (found["headers"]["x-one"], found["headers"]["x-many"]) == ("1", "1, 2")
        assert "base64" not in found
        missing = await get("/missing")
        assert (missing["status"], missing["ok"], missing["json"]) == (404, False, {"error": "no"})
        broken = await get("/broken")
        assert (broken["status"], broken["ok"], broken["json"], broken["text"]) == (500, False, None, "oh")
        assert (await get("/latin"))["text"] == "é"
        binary = await get("/bytes")
        assert (binary["text"], binary["json"], base64.b64decode(binary["base64"])) == ("", None, b"\x00\xff")
        for path in ("/bad-json", "/deep", "/surrogate"):
            odd = await get(path)
            assert (odd["json"], bool(odd["text"])) == (None, True), path
        empty = await get("/empty")
        assert (empty["status"], empty["ok"], empty["text"], empty["json"]) == (204, True, "", None)
        assert (await get("/gzip"))["text"] == "unasked"
        for path in ("/huge", "/bomb"):
            assert (await get(path))[:2] == ("too_large", False)
        assert (await get("/cut"))[:2] == ("unreachable", True)
        assert (await request(api, run, puppet, method="POST", url=f"{server.url}/cut"))[:2] == (
            "unreachable", False,
        )  # fmt: skip
        code, _, said = await get("/loop")
        assert (code, str(REDIRECTS_MAX) in said) == ("tool_failed", True)
        hung = await request(api, run, puppet, method="GET", url=f"{server.url}/hang", timeout_ms=200)
        assert hung[:2] == ("timeout", True)
    assert (await outcomes(api, run, 1))[0]["attempts"] == 1


async def test_what_goes_out(api: Api) -> None:
    async with WebServer(routes) as server, dispatching(api):
        await pin(api)
        run, puppet = await begin(api)
        url = f"{server.url}/echo"
        sent = await request(
            api, run, puppet, method="POST", url=f"{url}?a=1", query={"a": ["2", "3"], "q": "ä &"},
            headers={"X-A": "1", "X-B": ["2", "3"]}, json={"b": 1, "a": "ü"},
        )  # fmt: skip
        assert sent["json"] == {"a": "ü", "b": 1}
        asked = server.asked[-1]
        assert asked.path == "/echo?a=1&a=2&a=3&q=%C3%A4+%26"
        assert asked.headers["content-type"] == "application/json"
        assert (asked.headers["x-a"], asked.headers["x-b"]) == ("1", "3")
        assert asked.headers["idempotency-key"] == f"{run}/1"
        assert asked.headers["host"] == server.host
        await request(api, run, puppet, method="PUT", url=url, text="héllo")
        assert server.asked[-1].body.decode() == "héllo"
        raw = await request(
            api, run, puppet, method="PATCH", url=url, base64=base64.b64encode(b"\xff\x00").decode()
        )
        assert server.asked[-1].body == b"\xff\x00" == base64.b64decode(raw["base64"])
        await request(api, run, puppet, method="DELETE", url=url, headers={"Idempotency-Key": "mine"})
        assert (server.asked[-1].method, server.asked[-1].headers["idempotency-key"]) == ("DELETE", "mine")
        head = await request(api, run, puppet, method="HEAD", url=f"{server.url}/json")
        assert (head["status"], head["text"]) == (200, "")
        for wrong in (
            {"url": "ftp://x/"}, {"url": "no url"}, {"url": "http://user:pass@127.0.0.1/"}, {"url": "http:///x"}, {},
            {"url": url, "headers": {"Host": "x"}}, {"url": url, "headers": {"x-a": "a\r\nb: c"}},
            {"url": url, "headers": {"Content-Length": "1"}}, {"url": url, "json": 1, "text": "x"},
            {"url": url, "base64": "***"}, {"url": url, "method": "CONNECT"}, {"url": url, "other": 1},
        ):  # fmt: skip
            before = len(server.asked)
            assert (await request(api, run, puppet, **wrong))[0] == "invalid_arguments", wrong
            assert len(server.asked) == before


async def test_hosts_that_are_not_allowed(api: Api) -> None:
    async with WebServer(routes) as server, WebServer(routes) as other, dispatching(api):
        await pin(api, server.host, "*.example.test")
        run, puppet = await begin(api)
        assert (await request(api, run, puppet, method="GET", url=f"{server.url}/json"))["ok"]
        for url in (other.url, "http://example.test/", "http://2130706433:1/", "http://localhost/"):
            code, again, said = await request(api, run, puppet, method="GET", url=url)
            assert (code, again, "http.allow" in said) == ("unreachable", False, True), url
        assert other.asked == []


async def test_a_redirect_is_judged_like_a_request(api: Api) -> None:
    def redirecting(asked: Asked) -> Reply:
        status, _, to = asked.path[1:].partition("/")
        return Reply(int(status), headers=(("Location", to),))

    async with WebServer(redirecting) as first, WebServer(routes) as second, WebServer(routes) as closed:
        async with dispatching(api):
            secret = {"headers": {first.host: {"X-Key": {"secret": "k"}}}}
            await api.call("PUT", "/v1/secrets/k", json={"value": "the-key-of-first"})
            await pin(api, first.host, second.host, **secret)
            run, puppet = await begin(api)
            for method, status, then in (
                ("GET", 302, "GET"), ("POST", 302, "GET"), ("POST", 303, "GET"), ("PUT", 301, "PUT"),
                ("POST", 307, "POST"), ("POST", 308, "POST"), ("HEAD", 303, "HEAD"),
            ):  # fmt: skip
                body = {} if method in {"GET", "HEAD"} else {"text": "body"}
                await request(
                    api, run, puppet, method=method, url=f"{first.url}/{status}/{second.url}/echo",
                    headers={"Authorization": "of-the-script", "X-Own": "1"}, **body,
                )  # fmt: skip
                asked = second.asked[-1]
                assert (asked.method, asked.body) == (then, b"body" if then == method and body else b"")
                assert "authorization" not in asked.headers
                assert "x-key" not in asked.headers
                assert asked.headers["x-own"] == "1"
                assert first.asked[-1].headers["x-key"] == "the-key-of-first"
            for to in (closed.url, "http://[::1]/", "file:///etc/passwd", "http://169.254.169.254/latest/"):
                found = await request(api, run, puppet, method="GET", url=f"{first.url}/302/{to}")
                assert found[:2] == ("unreachable", False), to
        assert closed.asked == []


@pytest.mark.parametrize("through", ["http", "redirect", "mcp", "oauth"])
async def test_no_way_to_what_is_not_public(own_api: Api, through: str) -> None:
    """Every spelling of a private address, though the toolset allows all hosts, and a redirect to each.

    The deployment lists 127.0.0.0/8 for the tests' own servers: the loopback ones are tried in `test_egress`.
    """
    api = own_api
    hostile = [url.format(port=1) for url in HOSTILE if "{port}" not in url]
    hostile += [
        "http://[64:ff9b::a00:1]/",
        "http://167772161/",
        "http://0xa000001/",
        "http://012.0.0.1/",
        "http://10.1/",
    ]

    def redirecting(asked: Asked) -> Reply:
        return Reply(302, headers=(("Location", asked.path[1:]),))

    async with WebServer(redirecting) as server, dispatching(api):
        await pin(api, "*")
        await api.call("PUT", "/v1/secrets/k", json={"value": "abcdefgh"})
        run, puppet = await begin(api)
        for url in hostile:
            if through in {"mcp", "oauth"}:
                mcp: dict[str, Any] = {"name": "m", "url": url}
                if through == "oauth":
                    oauth = {"token_url": url, "client_id": "c", "client_secret": {"secret": "k"}}
                    mcp = {"name": "m", "url": f"{server.url}/mcp", "auth": {"oauth": oauth}}
                answer = await api.call("POST", "/v1/toolsets", json={"name": "x", "mcp": [mcp]})
                assert answer.status_code == 422, url
                assert any(why in answer.text for why in REFUSED), (url, answer.text)
                continue
            to = url if through == "http" else f"{server.url}/{url}"
            code, again, said = await request(api, run, puppet, method="GET", url=to)
            assert (code in {"unreachable", "invalid_arguments"}, again) == (True, False), url
            assert any(why in said for why in REFUSED), (url, said)


async def test_only_what_may_be_repeated_is_repeated(own_api: Api) -> None:
    """By the method: a lost POST is unknown, a lost PUT is sent again with the same key."""
    api = own_api
    async with WebServer(lambda _: None) as server:
        await pin(api)
        run, puppet = await begin(api)
        async with dispatching(api) as first:
            await call(puppet, api, "http.request", {"method": "POST", "url": server.url})
            await server.hanging.wait()
            await crash(first)
        await api.store.pool.system.execute("update pending set lease_until = 0 where route = 1")
        from app.scheduler.loop import fire_due

        await fire_due(api.store)
        (entry,) = await outcomes(api, run)
        assert entry["error"]["name"] == "OutcomeUnknownError"
        assert len(server.asked) == 1


async def test_secrets_by_host(api: Api) -> None:
    def echo(asked: Asked) -> Reply:
        return Reply(200, json.dumps({"headers": asked.headers, "path": asked.path}).encode(), JSON)

    async with WebServer(echo) as server, WebServer(echo) as other, dispatching(api):
        for name, value, namespace in (
            ("k", "of-the-organization", None), ("k", "of-acme-alone", "acme"), ("gone", "soon-deleted", None),
        ):  # fmt: skip
            body = {"value": value} | ({} if namespace is None else {"namespace": namespace})
            await api.call("PUT", f"/v1/secrets/{name}", json=body)
        shown = await pin(
            api, "127.0.0.1",
            headers={
                server.host: {"Authorization": {"secret": "k"}, "X-Plain": "plain"},
                other.host: {"X-Gone": {"secret": "gone"}},
            },
        )  # fmt: skip
        assert "secret" not in json.dumps(shown)
        run, puppet = await begin(api)
        found = await request(
            api, run, puppet, method="GET", url=server.url, headers={"authorization": "own"}
        )
        assert server.asked[-1].headers["authorization"] == "of-acme-alone"
        assert server.asked[-1].headers["x-plain"] == "plain"
        assert found["json"]["headers"]["authorization"] == "[secret k]"
        assert "of-acme-alone" not in json.dumps(found)
        elsewhere, there = await begin(api, "elsewhere")
        number = await call(there, api, "http.request", {"method": "GET", "url": server.url})
        await outcomes(api, elsewhere, number, "elsewhere")
        assert server.asked[-1].headers["authorization"] == "of-the-organization"
        await api.call("DELETE", "/v1/secrets/gone")
        code, _, said = await request(api, run, puppet, method="GET", url=other.url)
        assert (code, "'gone'" in said, other.asked) == ("unauthorized", True, [])


@pytest.mark.parametrize(
    ("http", "path"),
    [
        ({"allow": ["https://x.com"]}, "http.allow[0]"), ({"allow": ["x.com/"]}, "http.allow[0]"),
        ({"allow": ["a b"]}, "http.allow[0]"), ({"allow": ["x.com", "x.com:0"]}, "http.allow[1]"),
        ({"allow": ["*x.com"]}, "http.allow[0]"), ({"allow": ["::1"]}, "http.allow[0]"), ({"allow": [""]}, "http.allow[0]"),
        ({"allow": ["x.com"], "approval": "yes"}, "http.approval"),
        ({"allow": ["x.com"], "headers": {"x.com": {"Host": "y"}}}, "http.headers.x.com.Host"),
        ({"allow": ["x.com"], "headers": {"x.com": {"A": {"secret": "a b"}}}}, "http.headers.x.com.A"),
        ({"allow": ["x.com"], "headers": {"x/": {}}}, "http.headers.x/"),
    ],
)  # fmt: skip
async def test_what_is_refused_of_http(api: Api, http: dict[str, Any], path: str) -> None:
    answer = await api.call("POST", "/v1/toolsets", json={"name": "support", "http": http})
    assert answer.status_code == 422, answer.text
    assert [error["path"] for error in answer.json()["errors"]] == [path]
