"""Bad input is answered by a problem document that says what is wrong and where; never by a 500."""

from typing import Any

import httpx2
import orjson
import pytest

from tests.fixtures.api import SCRIPT, Api

JSON = {"content-type": "application/json"}
MIB = 1024 * 1024


def assert_problem(
    answer: httpx2.Response, status: int, code: str, path: str | None = None
) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["code"] == code, problem
    assert problem["detail"] and problem["title"] and problem["type"].endswith(code)
    assert problem["request_id"] == answer.headers["x-request-id"]
    if path is not None:
        assert path in [error["path"] for error in problem["errors"]], problem
    return problem


async def start(api: Api, content: bytes | str, **headers: str) -> httpx2.Response:
    return await api.call("POST", "/v1/runs?namespace=acme", content=content, headers={**JSON, **headers})


@pytest.mark.parametrize(
    ("content", "code", "path"),
    [
        (b"", "invalid_json", None),
        (b"   ", "invalid_json", None),
        (b"{", "invalid_json", None),
        (b'{"script": "a",}', "invalid_json", None),
        (b"\xff\xfe", "invalid_json", None),
        (b'{"input": NaN, "script": "a"}', "invalid_request", "input"),
        (b'{"script": "a", "script": "b"}', "invalid_request", ""),
        (b'{"input": {"a": 1, "a": 2}, "script": "x"}', "invalid_request", "input"),
        (b'{"input": [1e999], "script": "x"}', "invalid_request", "input[0]"),
        (b"[]", "invalid_request", ""),
        (b"null", "invalid_request", ""),
        (b'"text"', "invalid_request", ""),
        (b'{"script": "x", "inptu": 1}', "invalid_request", "inptu"),
        (b'{"script": 5}', "invalid_request", "script"),
        (b'{"script": null, "wait": true}', "invalid_request", "wait"),
        (b'{"script": "x", "wait": "soon"}', "invalid_request", "wait"),
        (b'{"script": "x", "wait": "61s"}', "invalid_request", "wait"),
        (b'{"script": "x", "until": "done"}', "invalid_request", "until"),
        (b'{"script": "x", "labels": {"a": 1}}', "invalid_request", "labels.a"),
        (b'{"script": "x", "labels": {"a b": "1"}}', "invalid_request", "labels"),
        (b'{"script": "x", "ttl": -1}', "invalid_request", "ttl"),
        (b'{"script": "x", "ttl": 0}', "invalid_request", "ttl"),
        (b'{"script": "x", "namespace": "no spaces"}', "invalid_request", "namespace"),
        (b'{"script": "x", "namespace": "other"}', "invalid_request", "namespace"),
        (b"{}", "invalid_request", "script"),
        (b'{"script": "x", "workflow": "y"}', "invalid_request", "script"),
        (b'{"script": "x\\u0000", "input": 1}', "invalid_request", "script"),
        (b'{"script": "x", "start_at": "soon"}', "invalid_request", "start_at"),
        (b'{"script": "x", "input": {"a": ["\\ud800"]}}', "invalid_request", "input.a[0]"),
        (b'{"script": "x", "input": {"\\udc00": 1}}', "invalid_request", None),
        (b'{"script": "\\ud83d"}', "invalid_request", "script"),
    ],
)
async def test_wrong_bodies(api: Api, content: bytes, code: str, path: str | None) -> None:
    assert_problem(await start(api, content), 400, code, path)


async def test_a_null_in_an_optional_field_is_no_field(api: Api) -> None:
    optional = ("workflow", "toolset", "input", "wait", "until", "ttl", "labels", "start_at")
    answer = await start(api, orjson.dumps({"script": SCRIPT, **dict.fromkeys(optional)}))
    assert answer.status_code == 201, answer.text
    assert answer.json()["labels"] == {}
    fields = {"namespace": "acme", "scopes": None, "name": None, "narrow": {"run": None}}
    token = await api.call("POST", "/v1/tokens", json=fields)
    assert token.status_code == 201, token.text
    assert token.json()["scopes"] and token.json()["expires_at"]
    forever = await api.call("POST", "/v1/tokens", json={**fields, "ttl": None})
    assert forever.json()["expires_at"] is None, "where null says something it is kept"
    assert_problem(await start(api, b'{"script": "x", "inptu": null}'), 400, "invalid_request", "inptu")
    assert_problem(await api.call("POST", "/v1/tokens", json={"namespace": None}), 400, "invalid_request")


async def test_depth_is_limited_to_200(api: Api) -> None:
    def body(depth: int) -> str:
        return f'{{"script": "{SCRIPT}", "input": {"[" * depth}{"]" * depth}}}'

    assert (await start(api, body(200))).status_code == 201
    assert_problem(await start(api, body(201)), 400, "invalid_request", "input" + "[0]" * 24 + "…")
    assert_problem(await start(api, body(300)), 400, "invalid_request")
    assert_problem(await start(api, body(1_000_000)), 400, "invalid_request")
    objects = '{"script": "x", "input": ' + '{"a":' * 100_000 + "1" + "}" * 100_001
    assert_problem(await start(api, objects), 400, "invalid_request")


async def test_depth_is_said_before_what_main_takes(api: Api) -> None:
    deep: Any = 1
    for _ in range(201):
        deep = [deep]
    body = {"script": SCRIPT, "namespace": "acme", "input": {"a": deep}}
    api.desk.schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    for path in ("/v1/runs", "/v1/scripts/check"):
        answer = await api.call("POST", path, json=body)
        problem = assert_problem(answer, 400, "invalid_request")
        assert problem["errors"][0]["path"].startswith("input.a[0]")


async def test_sizes_are_limited(api: Api) -> None:
    problem = assert_problem(
        await start(api, f'{{"script": "{"x" * (256 * 1024 + 1)}"}}'), 413, "too_large", "script"
    )
    assert "262,144" in problem["detail"]
    big = "x" * (16 * MIB)
    body = f'{{"script": "{SCRIPT}", "input": "{big}"}}'
    assert_problem(await start(api, body), 413, "too_large", "input")
    assert_problem(await start(api, b" " * (33 * MIB)), 413, "too_large")
    tools = '{"name": "t", "tools": ["%s"]}' % ("x" * 9 * MIB)
    assert_problem(await api.call("POST", "/v1/toolsets", content=tools, headers=JSON), 413, "too_large")


async def test_an_unannounced_body_is_cut_off_too(api: Api) -> None:
    async def endless() -> Any:
        while True:
            yield b" " * MIB

    answer = await api.call("POST", "/v1/tokens", content=endless(), headers=JSON)
    assert_problem(answer, 413, "too_large")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""]
)
async def test_other_media_types(api: Api, content_type: str) -> None:
    for path in ("/v1/runs?namespace=acme", "/v1/tasks/claim"):
        answer = await api.call("POST", path, content=b"{}", headers={"content-type": content_type})
        assert_problem(answer, 415, "unsupported_media_type")
    problem_type = {"content-type": "application/json; charset=utf-8"}
    answer = await api.call("POST", "/v1/tasks/claim", content=b'{"max": 1}', headers=problem_type)
    assert answer.status_code == 200


async def test_a_script_without_main_is_refused_with_diagnostics(api: Api) -> None:
    answer = await start(api, b'{"script": "const x = 1;"}')
    problem = assert_problem(answer, 422, "script_refused", "script")
    (found,) = problem["diagnostics"]
    assert (found["line"], found["column"], found["code"]) == (1, 1, "missing_main")
    assert "const x = 1" in found["frame"]
    assert (await api.call("GET", "/v1/runs?namespace=acme")).json()["data"] == []


async def test_unknown_things_are_named(api: Api) -> None:
    unknown = "sha256:" + "a" * 64
    assert_problem(await start(api, b'{"script": "%b"}' % unknown.encode()), 404, "not_found")
    body = b'{"script": "main", "toolset": "%b"}'
    for toolset in (b"nope", b"nope@" + unknown.encode(), b"NOT A NAME", b"nope@sha256:1"):
        assert_problem(await start(api, body % toolset), 422, "unknown_toolset")
    assert_problem(await start(api, b'{"workflow": "onboard"}'), 422, "unknown_workflow")


async def test_a_ttl_beyond_the_limit_is_a_quota(api: Api) -> None:
    answer = await start(api, b'{"script": "main", "ttl": "31d"}')
    problem = assert_problem(answer, 429, "quota_exceeded")
    assert (problem["quota"], problem["resets_at"]) == ("ttl_max", None)
    assert problem["limit"] == 30 * 86_400_000 and problem["used"] == 31 * 86_400_000
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/v1/runs?namespace=acme&limit=0", "limit"),
        ("/v1/runs?namespace=acme&limit=201", "limit"),
        ("/v1/runs?namespace=acme&limit=x", "limit"),
        ("/v1/runs?namespace=acme&after=x", "after"),
        ("/v1/runs?namespace=acme&after=%00", "after"),
        ("/v1/runs?namespace=acme&status=done", "status"),
        ("/v1/runs?namespace=acme&from=yesterday", "from"),
        ("/v1/runs?namespace=acme&to=2026-01-01T00:00:00", "to"),
        ("/v1/runs?namespace=acme&script=x", "script"),
        ("/v1/runs?namespace=acme&toolset=%00", "toolset"),
        ("/v1/runs?namespace=acme&parent=x", "parent"),
        ("/v1/runs?namespace=acme&label.a=%00", "label.a"),
        ("/v1/runs", "namespace"),
        ("/v1/runs?namespace=%00", "namespace"),
        ("/v1/runs?namespace=", "namespace"),
        ("/v1/tokens?limit=-1", "limit"),
        ("/v1/toolsets?after=zzzz", "after"),
    ],
)
async def test_wrong_queries(api: Api, path: str, wrong: str) -> None:
    await api.start()
    assert_problem(await api.call("GET", path), 400, "invalid_request", wrong)


@pytest.mark.parametrize(
    ("tail", "wrong"),
    [
        ("?wait=61s", "wait"),
        ("?wait=x", "wait"),
        ("?until=never", "until"),
        ("/output?offset=-1", "offset"),
        ("/output?limit=262145", "limit"),
        ("/output?offset=99999999999999999999", "offset"),
        ("/journal?limit=1001", "limit"),
        ("/journal?after=-2", "after"),
        ("/journal?after=2147483648", "after"),
        ("/journal?as=story", "as"),
    ],
)
async def test_wrong_queries_of_one_run(api: Api, tail: str, wrong: str) -> None:
    run = await api.start()
    secret = await api.token("acme")
    answer = await api.call("GET", f"/v1/runs/{run['id']}{tail}", secret=secret)
    assert_problem(answer, 400, "invalid_request", wrong)


@pytest.mark.parametrize(
    "path",
    [
        "/v1", "/v1/", "/v1/runs/", "/v1/nothing", "/v1/runs/x?namespace=acme", "/v1/runs/%00?namespace=acme",
        "/v1/runs/01890000-0000-7000-8000-000000000000?namespace=acme",
        "/v1/runs/%F0%9F%92%A9?namespace=acme", "/v1/toolsets/%00", "/v1/toolsets/UPPER", "/v1/tokens/x",
        "/v1/namespaces/%00", "/v1/namespaces/none", "/v1/runs/01890000-0000-7000-8000-000000000000?namespace=unknown",
    ],
)  # fmt: skip
async def test_nothing_there(api: Api, path: str) -> None:
    await api.start()
    assert_problem(await api.call("GET", path), 404, "not_found")


async def test_deleting_what_is_not_there(api: Api) -> None:
    for path in ("/v1/toolsets/%00", "/v1/toolsets/none", "/v1/tokens/%00"):
        assert_problem(await api.call("DELETE", path), 404, "not_found")


async def test_wrong_methods_name_the_right_ones(api: Api) -> None:
    answer = await api.call("PATCH", "/v1/runs")
    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"
    assert_problem(await api.call("GET", "/v1/tasks/claim"), 405, "method_not_allowed")


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "grün"])
async def test_wrong_idempotency_keys(api: Api, key: str) -> None:
    headers = {"idempotency-key": key.encode()}
    answer = await api.call("POST", "/v1/tokens", json={"namespace": "acme"}, headers=headers)
    assert_problem(answer, 400, "invalid_request", "Idempotency-Key")


@pytest.mark.parametrize(
    ("authorization", "says"),
    [
        ("", "Authorization: Bearer"),
        ("Basic abc", "Bearer"),
        ("Bearer", "Bearer"),
        ("Bearer x", "no API key"),
        ("Bearer rwk_" + "0" * 49, "mistyped"),
        ("Bearer grün".encode("latin-1"), "no API key"),
    ],
)
async def test_wrong_credentials(api: Api, authorization: str | bytes, says: str) -> None:
    answer = await api.call("GET", "/v1/me", secret="", headers={"authorization": authorization})
    assert says in assert_problem(answer, 401, "unauthenticated")["detail"]


async def test_a_missing_worker_is_unavailable(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox.journal.errors import Unavailable

    async def nobody(*_: object, **__: object) -> bytes:
        raise Unavailable("no worker answered", retry_after_ms=1_500)

    monkeypatch.setattr(api.desk, "ask", nobody)
    answer = await start(api, b'{"script": "main // new"}')
    assert_problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "2"


@pytest.mark.parametrize(
    ("method", "path", "body", "where", "told"),
    [
        (
            "POST",
            "/v1/runs?namespace=acme",
            {"script": "a", "tooolset": "t"},
            "tooolset",
            "did you mean `toolset`?",
        ),
        (
            "POST",
            "/v1/runs?namespace=acme",
            {"script": "a", "zzz": 1},
            "zzz",
            "there are: input, labels, namespace, script, ",
        ),
        ("POST", "/v1/tokens", {"namespace": "a", "narrow": {"tolset": "x"}}, "narrow.tolset", "`toolset`?"),
        (
            "POST",
            "/v1/toolsets",
            {"name": "t", "tools": [{"name": "a", "description": "", "input_shema": {}}]},
            "tools[0].input_shema",
            "`input_schema`?",
        ),
        (
            "POST",
            "/v1/runs/cancel?namespace=acme",
            {"filter": {"stattus": "active"}},
            "filter.stattus",
            "`status`?",
        ),
        (
            "POST",
            "/v1/keys/01a22ac7-f648-7df0-8e05-fa322571a6ab/rotate",
            {"ovrlap": 0},
            "ovrlap",
            "`overlap`?",
        ),
    ],
)
async def test_an_unknown_field_is_answered_with_those_there_are(
    api: Api, method: str, path: str, body: dict[str, Any], where: str, told: str
) -> None:
    problem = assert_problem(await api.call(method, path, json=body), 400, "invalid_request", where)
    (message,) = [error["message"] for error in problem["errors"] if error["path"] == where]
    assert told in message
