"""The clients against prepared answers: what is sent, what comes back, what is sent again."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import rewind
from rewind import AsyncRewind, Rewind, tool
from rewind._config import Config, MaskingFormatter, mask_secrets

from tests.sdk_python.fake_api import RUN_ID, FakeApi, problem, run_json
from tests.sdk_python.http_server import Reply

KEY = "rwk_live_abcdefghijklmnop"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


@pytest.fixture
async def client(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncRewind]:
    monkeypatch.setattr("rewind._core.delay_s", lambda *_: 0.001)
    async with AsyncRewind(api_key=KEY, base_url=api.url + "/prefix/..", namespace="alice") as made:
        made._core.config = dataclasses.replace(
            made._core.config, address=dataclasses.replace(made._core.config.address, prefix="")
        )
        yield made


async def test_starting_a_run(api: FakeApi, client: AsyncRewind) -> None:
    api.on("POST /v1/runs", Reply(201, run_json(brand_new_field=1)))
    run = await client.runs.start(
        script="export default () => 1",
        toolset="support",
        input={"n": 1},
        wait=timedelta(seconds=30),
        ttl="2d",
        labels={"a": "b"},
        start_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    sent = api.requests[0]
    assert sent.json() == {
        "script": "export default () => 1",
        "toolset": "support",
        "input": {"n": 1},
        "wait": 30_000,
        "ttl": "2d",
        "labels": {"a": "b"},
        "namespace": "alice",
        "start_at": "2026-01-02T00:00:00+00:00",
    }
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["user-agent"].startswith("rewind-python/")
    assert len(sent.headers["idempotency-key"]) == 36
    assert (run.id, run.status, run.output, run.request_id) == (
        RUN_ID,
        "completed",
        {"greeting": "Hello Ada"},
        "req-1",
    )
    assert run.raw["brand_new_field"] == 1
    assert run.output_as(dict[str, str]) == {"greeting": "Hello Ada"}


async def test_a_start_is_repeated_under_one_key(api: FakeApi, client: AsyncRewind) -> None:
    busy = problem(503, "unavailable", "busy")
    api.on("POST /v1/runs", Reply(drop=True), busy, Reply(201, run_json()))
    await client.runs.start(script="x")
    keys = {request.headers["idempotency-key"] for request in api.requests}
    assert len(api.requests) == 3
    assert len(keys) == 1


async def test_what_is_not_repeatable_is_sent_once(api: FakeApi, client: AsyncRewind) -> None:
    api.on("POST /v1/tokens", Reply(drop=True))
    with pytest.raises(rewind.ConnectionFailed):
        await client.tokens.create("alice")
    assert len(api.requests) == 1


async def test_options_of_a_call(api: FakeApi, client: AsyncRewind) -> None:
    api.on("GET /v1/runs/" + RUN_ID, problem(503, "unavailable", "busy"))
    with pytest.raises(rewind.Unavailable):
        await client.runs.get(RUN_ID, max_retries=0, extra_headers={"X-Trace": "t"})
    assert len(api.requests) == 1
    assert api.requests[0].headers["x-trace"] == "t"
    api.on("POST /v1/runs", run_json())
    await client.runs.start(script="x", idempotency_key="mine")
    assert api.requests[-1].headers["idempotency-key"] == "mine"
    for bad in ("", "ü", "a\nb", "k" * 256):
        with pytest.raises(rewind.ConfigurationError):
            await client.runs.start(script="x", idempotency_key=bad)


async def test_a_call_that_takes_too_long(api: FakeApi, client: AsyncRewind) -> None:
    async def never(_: Any) -> Reply:
        await asyncio.Event().wait()
        return Reply()

    api.server._handler = never
    with pytest.raises(rewind.RequestTimeout):
        await client.runs.get(RUN_ID, timeout=0.02, max_retries=0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, rewind.BadRequest),
        (401, rewind.Unauthenticated),
        (403, rewind.PermissionDenied),
        (404, rewind.NotFound),
        (409, rewind.Conflict),
        (413, rewind.TooLarge),
        (415, rewind.UnsupportedMediaType),
        (418, rewind.ApiError),
        (422, rewind.Refused),
        (429, rewind.TooManyRequests),
        (500, rewind.ServerError),
        (503, rewind.Unavailable),
        (599, rewind.ServerError),
    ],
)
async def test_one_error_class_per_status(
    api: FakeApi, client: AsyncRewind, status: int, kind: type[rewind.ApiError]
) -> None:
    errors = [{"path": "items[3].name", "code": "too_long", "message": "at most 64 characters"}]
    api.on("GET /v1/runs/" + RUN_ID, problem(status, "some_code", "Some detail.", errors=errors))
    with pytest.raises(kind) as caught:
        await client.runs.get(RUN_ID, max_retries=0)
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.detail, error.request_id) == (
        status,
        "some_code",
        "Some detail.",
        "req-1",
    )
    assert str(error) == f"Some detail. ({status} some_code)\n  items[3].name: at most 64 characters"


async def test_what_the_detail_says_is_not_said_twice(api: FakeApi, client: AsyncRewind) -> None:
    errors = [{"path": "ttl", "code": "wrong_value", "message": "'soon' is no duration"}]
    api.on("GET /v1/runs/" + RUN_ID, problem(400, "some_code", "ttl: 'soon' is no duration", errors=errors))
    with pytest.raises(rewind.BadRequest) as caught:
        await client.runs.get(RUN_ID)
    assert str(caught.value) == "ttl: 'soon' is no duration (400 some_code)"


async def test_a_refusal_that_is_no_problem_document(api: FakeApi, client: AsyncRewind) -> None:
    api.on("GET /v1/me", Reply(raw=[b"HTTP/1.1 502 Bad\r\nContent-Length: 11\r\n\r\n<h1>oh</h1>"]))
    with pytest.raises(rewind.ServerError, match="the server answered 502: <h1>oh</h1>"):
        await client._core.call(rewind._client.ME, {"max_retries": 0})


async def test_an_answer_that_is_no_json(api: FakeApi, client: AsyncRewind) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{"
    api.on("GET /v1/me", Reply(raw=[raw]))
    with pytest.raises(rewind.ConnectionFailed, match="not JSON"):
        await client._core.call(rewind._client.ME, {"max_retries": 0})


async def test_waiting_polls_until_the_run_has_ended(api: FakeApi, client: AsyncRewind) -> None:
    active = run_json(status="active", output=None, ended_at=None)
    api.on("GET /v1/runs/" + RUN_ID, active, active, run_json())
    assert (await client.runs.wait(RUN_ID)).status == "completed"
    assert all("wait=" in request.target and "namespace=alice" in request.target for request in api.requests)


async def test_waiting_ends_when_the_time_is_over_or_the_run_blocked(
    api: FakeApi, client: AsyncRewind
) -> None:
    active = run_json(status="active", output=None, ended_at=None)
    api.on("GET /v1/runs/" + RUN_ID, active)
    assert (await client.runs.wait(RUN_ID, timeout_s=0)).status == "active"
    with pytest.raises(TypeError, match=r"timeout_s= of runs\.wait"):
        await client.runs.wait(RUN_ID, timeout="20s")  # type: ignore[typeddict-item]
    assert (await client.runs.wait(RUN_ID, until="blocked")).status == "active"
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("failed", rewind.RunFailed),
        ("cancelled", rewind.RunCancelled),
        ("aborted", rewind.RunAborted),
        ("quarantined", rewind.RunQuarantined),
    ],
)
async def test_waiting_raises_when_asked_to(
    api: FakeApi, client: AsyncRewind, status: str, kind: type[rewind.RunEnded]
) -> None:
    error = {"name": "TypeError", "message": "x is undefined", "line": 3}
    api.on("GET /v1/runs/" + RUN_ID, run_json(status=status, output=None, error=error))
    assert (await client.runs.wait(RUN_ID)).status == status
    with pytest.raises(kind, match=rf"{status}: TypeError: x is undefined \(line 3\)") as caught:
        await client.runs.wait(RUN_ID, raise_=True)
    assert caught.value.run.id == RUN_ID


async def test_lists_fetch_their_pages(api: FakeApi, client: AsyncRewind) -> None:
    pages = [
        {"data": [run_json(id="a"), run_json(id="b")], "next": "c1"},
        {"data": [], "next": "c2"},
        {"data": [run_json(id="c")], "next": None},
    ]
    api.on("GET /v1/runs", *pages)
    listing = client.runs.list(status="failed", labels={"team": "a&b"}, limit=2)
    assert [run.id async for run in listing] == ["a", "b", "c"]
    assert api.requests[0].target == "/v1/runs?status=failed&limit=2&label.team=a%26b&namespace=alice"
    assert api.requests[2].target.endswith("&after=c2")
    api.on("GET /v1/runs", pages[0])
    page = await client.runs.list().page()
    assert ([run.id for run in page.data], page.next) == (["a", "b"], "c1")


async def test_a_journal_and_an_output_of_several_pages(api: FakeApi, client: AsyncRewind) -> None:
    api.on(
        f"GET /v1/runs/{RUN_ID}/journal",
        {"data": [{"seq": 0}, {"seq": 1}], "next": 1},
        {"data": [{"seq": 2}], "next": None},
    )
    assert [entry["seq"] for entry in await client.runs.journal(RUN_ID)] == [0, 1, 2]
    assert "after=1" in api.requests[1].target
    api.on(
        f"GET /v1/runs/{RUN_ID}/output",
        {"text": '{"a":"', "offset": 0, "bytes": 6, "total": 11, "next": 6},
        {"text": 'üb"}', "offset": 6, "bytes": 5, "total": 11, "next": None},
    )
    assert await client.runs.output(RUN_ID) == {"a": "üb"}


async def test_signals_carry_an_id(api: FakeApi, client: AsyncRewind) -> None:
    api.on(f"POST /v1/runs/{RUN_ID}/signals", Reply(drop=True), Reply(202, {"id": "s", "duplicate": True}))
    receipt = await client.runs.signal(RUN_ID, "approval", {"yes": True}, by="ada")
    assert receipt.duplicate
    first, second = (request.json() for request in api.requests)
    assert first == second
    assert first["name"] == "approval"
    assert first["by"] == "ada"


async def test_registering_functions(api: FakeApi, client: AsyncRewind) -> None:
    @tool(name="math.add")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    api.on(
        "POST /v1/toolsets",
        Reply(201, {"id": "1", "name": "math", "digest": "sha256:00", "tools": [], "warnings": []}),
    )
    made = await client.toolsets.register("math", tools=[add, len_of], http={"allow": ["example.com"]})
    assert made.digest == "sha256:00"
    sent = api.requests[0].json()
    assert [declared["name"] for declared in sent["tools"]] == ["math.add", "len_of"]
    assert sent["http"] == {"allow": ["example.com"]}
    assert "mcp" not in sent


def len_of(text: str) -> int:
    return len(text)


async def test_ids_cannot_reach_other_routes(api: FakeApi, client: AsyncRewind) -> None:
    api.on("GET /v1/runs/a%2Fb%3Fc", run_json())
    await client.runs.get("a/b?c")
    with pytest.raises(rewind.ConfigurationError, match="run id is empty"):
        await client.runs.get("")
    assert len(api.requests) == 1


async def test_values_that_are_no_json(client: AsyncRewind) -> None:
    with pytest.raises(TypeError, match="can't be sent as JSON"):
        await client.runs.start(script="x", input={"a": object()})
    with pytest.raises(TypeError, match="can't be sent as JSON"):
        await client.runs.start(script="x", input=10**400)


async def test_numbers_are_those_of_javascript(api: FakeApi, client: AsyncRewind) -> None:
    api.on("POST /v1/runs", run_json())
    await client.runs.start(script="x", input={"a": [10**21, -(2**70), (2**64,)], "b": 2**53 + 1})
    assert api.requests[-1].json()["input"] == {"a": [1e21, -(2.0**70), [2.0**64]], "b": 2**53 + 1}


# -- blocking


async def test_the_blocking_client_works_outside_and_inside_of_event_loops(api: FakeApi) -> None:
    api.on("GET /v1/runs/" + RUN_ID, run_json())
    api.on("GET /v1/runs", {"data": [run_json(), run_json()], "next": None})

    def use() -> int:
        with Rewind(token="rwt_x", base_url=api.url) as client:
            assert client.runs.wait(RUN_ID).status == "completed"
            return len(list(client.runs.list()))

    def use_within_a_loop() -> int:
        async def inner() -> int:
            return use()

        return asyncio.run(inner())

    assert await asyncio.to_thread(use) == 2
    assert await asyncio.to_thread(use_within_a_loop) == 2


async def test_the_blocking_client_raises_the_same_errors(api: FakeApi) -> None:
    def use() -> None:
        with Rewind(api_key="rwk_x", base_url=api.url) as client:
            client.runs.get(RUN_ID)

    with pytest.raises(rewind.NotFound):
        await asyncio.to_thread(use)


async def test_many_threads_share_a_blocking_client(api: FakeApi) -> None:
    api.on("GET /v1/runs/" + RUN_ID, run_json())
    with Rewind(api_key="rwk_x", base_url=api.url) as client:
        runs = await asyncio.gather(*(asyncio.to_thread(client.runs.get, RUN_ID) for _ in range(20)))
        assert {run.id for run in runs} == {RUN_ID}


# -- configuration


def test_where_settings_come_from() -> None:
    env = {"REWIND_API_KEY": "rwk_env", "REWIND_URL": "https://rewind.example/base/"}
    config = Config.resolve(environment=env)
    assert (config.secret, config.address.url) == ("rwk_env", "https://rewind.example/base")
    config = Config.resolve(token="rwt_mine", base_url="http://localhost:1", environment=env)
    assert (config.secret, config.address.port) == ("rwt_mine", 1)
    assert Config.resolve(environment={"REWIND_TOKEN": "rwt_t"}).address.url == "http://127.0.0.1:8484"
    with pytest.raises(rewind.ConfigurationError, match="no credential"):
        Config.resolve(environment={})
    with pytest.raises(rewind.ConfigurationError, match="not both"):
        Config.resolve(api_key="a", token="b", environment={})


def test_secrets_are_not_shown() -> None:
    config = Config.resolve(api_key=KEY, environment={})
    assert KEY not in repr(config)
    assert (
        mask_secrets(f"Bearer {KEY}, rwt_tokentoken and whsec_aGVsbG8=")
        == "Bearer rwk_live…, rwt_toke… and whsec_aG…"
    )
    record = logging.LogRecord("rewind", logging.DEBUG, "", 1, "sent %s", (KEY,), None)
    assert MaskingFormatter("%(message)s").format(record) == "sent rwk_live…"


async def test_the_debug_log(api: FakeApi, client: AsyncRewind, caplog: pytest.LogCaptureFixture) -> None:
    api.on("POST /v1/runs", run_json())
    with caplog.at_level(logging.DEBUG, logger="rewind"):
        await client.runs.start(script="x" * 1000)
    assert "→ POST /v1/runs" in caplog.text
    assert "← 200 in" in caplog.text
    assert KEY not in caplog.text


async def test_declarations_and_search_of_a_toolset(api: FakeApi, client: AsyncRewind) -> None:
    api.on(
        "GET /v1/toolsets/math/declarations",
        Reply(body=b"declare module", headers={"Content-Type": "text/plain; charset=utf-8"}),
    )
    assert await client.toolsets.declarations("math") == "declare module"
    await client.toolsets.declarations("math", format="prompt", tools=["add", "len"], budget=2_000)
    assert api.requests[-1].target.endswith("?format=prompt&tools=add%2Clen&budget=2000")
    found = {
        "name": "add",
        "description": "Adds.",
        "declaration": "add(): any",
        "kind": "host",
        "approval": None,
    }
    api.on("GET /v1/toolsets/math/search", {"data": [found]})
    answer = await client.toolsets.search("math", "sum up", limit=3)
    assert [(tool.name, tool.declaration) for tool in answer.data] == [("add", "add(): any")]
    assert api.requests[-1].target.endswith("?q=sum%20up&limit=3")


async def test_a_long_replay_is_waited_for(
    api: FakeApi, client: AsyncRewind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewind._async.runs.REPLAY_POLL_S", 0.0)
    replay = "01920000-0000-7000-8000-000000000009"
    api.on(f"POST /v1/runs/{RUN_ID}/replay", Reply(202, {"id": replay}))
    api.on(
        f"GET /v1/runs/{RUN_ID}/replays/{replay}", Reply(202, {"id": replay}), {"matches": True, "output": 1}
    )
    answer = await client.runs.replay(RUN_ID, script="fixed", overrides={3: {"result": None}})
    assert answer == {"matches": True, "output": 1}
    assert api.requests[0].json() == {"script": "fixed", "overrides": {"3": {"result": None}}}
    assert len(api.requests) == 3
