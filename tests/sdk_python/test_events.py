"""`runs.events()`: what it yields, how it resumes, and how it stops."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from rewind import AsyncRewind, ConnectionFailed, NotFound, Rewind
from rewind._errors import RequestTimeout
from rewind._events import EventParser

from tests.sdk_python.fake_api import RUN_ID, FakeApi, problem, stream
from tests.sdk_python.http_server import Reply

ROUTE = f"GET /v1/runs/{RUN_ID}/events"
END: tuple[str, dict[str, Any], None] = ("end", {"status": "completed"}, None)


def entry(seq: int, **fields: Any) -> tuple[str, dict[str, Any], int]:
    return ("entry", {"seq": seq, "type": "log", "time": 1, **fields}, seq)


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    monkeypatch.setattr("rewind._core.delay_s", lambda *_: 0.001)
    async with FakeApi() as made:
        yield made


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[AsyncRewind]:
    async with AsyncRewind(api_key="rwk_x", base_url=api.url, namespace="alice") as made:
        yield made


async def test_entries_come_in_order_until_the_end(api: FakeApi, client: AsyncRewind) -> None:
    api.on(ROUTE, stream(entry(0, values=["ü\u2028\n"]), entry(1), END))
    found = [item async for item in client.runs.events(RUN_ID)]
    assert [item["seq"] for item in found] == [0, 1]
    assert dict(found[0])["values"] == ["ü\u2028\n"]
    request = api.requests[0]
    assert request.headers["accept"].split(",")[0] in {"text/event-stream", "application/json"}
    assert "namespace=alice" in request.target
    assert "last-event-id" not in request.headers


async def test_a_stream_that_breaks_off_is_resumed(api: FakeApi, client: AsyncRewind) -> None:
    api.on(
        ROUTE,
        stream(entry(5), entry(6), broken=True),
        Reply(drop=True),
        problem(503, "unavailable", "Not now."),
        stream(),
        stream(entry(7), END),
    )
    found = [item["seq"] async for item in client.runs.events(RUN_ID, after=4)]
    assert found == [5, 6, 7]
    assert [request.headers["last-event-id"] for request in api.requests] == ["4", "6", "6", "6", "6"]


async def test_what_is_refused_is_raised(api: FakeApi, client: AsyncRewind) -> None:
    api.on(ROUTE, problem(404, "not_found", "There is no such run."))
    with pytest.raises(NotFound):
        await anext(client.runs.events(RUN_ID))


async def test_a_server_that_stays_away_is_given_up(
    api: FakeApi, client: AsyncRewind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewind._core.RESUMES_MAX", 3)
    api.on(ROUTE, Reply(drop=True))
    with pytest.raises(ConnectionFailed):
        await anext(client.runs.events(RUN_ID))
    assert len(api.requests) == 4


async def test_silence_is_taken_for_death(
    api: FakeApi, client: AsyncRewind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewind._core.RESUMES_MAX", 0)
    monkeypatch.setattr("rewind._core.STREAM_SILENCE_S", 0.05)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    api.on(ROUTE, Reply(raw=[head]))
    with pytest.raises(RequestTimeout):
        await anext(client.runs.events(RUN_ID))


async def test_stopping_early_closes_the_connection(api: FakeApi, client: AsyncRewind) -> None:
    open_end = stream(entry(0))
    assert open_end.raw is not None
    open_end.raw.pop()
    api.on(ROUTE, open_end)
    events = client.runs.events(RUN_ID)
    assert (await anext(events))["seq"] == 0
    await events.aclose()
    await client._core.pause(0)  # the loop tells a connection that it is closed one turn later
    assert not client._core.transport._open


async def test_the_blocking_client_iterates(api: FakeApi) -> None:
    api.on(ROUTE, stream(entry(0), entry(1), END))

    def collect() -> tuple[list[int], int]:
        with Rewind(api_key="rwk_x", base_url=api.url) as client:
            found = [item["seq"] for item in client.runs.events(RUN_ID)]
            first = next(iter(client.runs.events(RUN_ID)))
            return found, first["seq"]

    assert await asyncio.to_thread(collect) == ([0, 1], 0)


def test_events_are_whole_however_they_are_cut() -> None:
    text = b': hello\n\nid: 7\r\nevent: entry\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata:x\n\nevent: none\n\n'
    for size in (1, 2, 3, 7, len(text)):
        parser = EventParser()
        found = [
            event for start in range(0, len(text), size) for event in parser.feed(text[start : start + size])
        ]
        assert [(event.event, event.data, event.id) for event in found] == [
            ("entry", b'{"a":\n1}', "7"),
            ("message", b"x", "7"),
        ]


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewind._events.EVENT_BYTES_MAX", 100)
    parser = EventParser()
    with pytest.raises(ConnectionFailed):
        for _ in range(11):
            list(parser.feed(b"data: 1234"))
