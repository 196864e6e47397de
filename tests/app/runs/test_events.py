"""Following a run: what is recorded, what is being recorded, and where a stream begins and ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import orjson

from app.runs.live import Ended, LiveJournals, Quiet
from sandbox.journal.ids import NamespaceId, RunId, Seq
from sandbox.store.interface import FROM_START, RunStatus
from tests.fixtures.api import Api
from tests.fixtures.turns import until


def events_of(text: str) -> list[tuple[str | None, str, Any]]:
    """(id, event, data) of each event of a whole stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "event" in fields:
            found.append((fields.get("id"), fields["event"], orjson.loads(fields["data"])))
    return found


async def stream(api: Api, run: str, last_event_id: str | None = None) -> httpx2.Response:
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    return await api.call("GET", f"/v1/runs/{run}/events?namespace=acme", headers=headers)


async def namespace_of(api: Api, run: str) -> NamespaceId:
    async with api.store.pool.system.acquire() as connection:
        return NamespaceId(
            str(await connection.fetchval("select namespace_id from runs where run_id = $1", run))
        )


class Follower:
    """One watcher: what it got so far, and a way to wait for more."""

    def __init__(self, live: LiveJournals, namespace: NamespaceId, run: str, after: int = FROM_START) -> None:
        self.seqs: list[int] = []
        self.end: Ended | None = None
        self._changed = asyncio.Event()
        self.task = asyncio.create_task(self._follow(live, namespace, RunId(run), Seq(after)))

    async def _follow(self, live: LiveJournals, namespace: NamespaceId, run: RunId, after: Seq) -> None:
        async with contextlib.aclosing(live.follow(namespace, run, after)) as news:
            async for item in news:
                if isinstance(item, Ended):
                    self.end = item
                elif not isinstance(item, Quiet):
                    self.seqs += [entry.seq for entry in item]
                self._changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.seqs) < count:
                self._changed.clear()
                await self._changed.wait()


@contextlib.asynccontextmanager
async def followers(api: Api, run: str, count: int) -> AsyncIterator[list[Follower]]:
    namespace = await namespace_of(api, run)
    made = [Follower(api.services.live, namespace, run) for _ in range(count)]
    try:
        yield made
    finally:
        for follower in made:
            follower.task.cancel()
        await asyncio.gather(*(follower.task for follower in made), return_exceptions=True)


async def test_the_stream_of_a_run_that_has_ended(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    await puppet.sleep(5)
    await puppet.complete({"text": "two\nlines"})
    answer = await stream(api, run["id"])
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    journal = (await api.call("GET", f"/v1/runs/{run['id']}/journal?namespace=acme")).json()["data"]
    events = events_of(answer.text)
    assert [(name, event, data) for name, event, data in events[:-1]] == [
        (str(entry["seq"]), "entry", entry) for entry in journal
    ]
    assert events[-1] == (None, "end", {"status": "completed"})
    blocks = [block for block in answer.text.split("\n\n") if block]
    assert all("\ndata: " in block for block in blocks), (
        "no block that a simple reader takes for an empty event"
    )


async def test_a_stream_resumes_after_the_last_entry_that_was_received(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    await puppet.sleep(5)
    await puppet.complete(1)
    resumed = events_of((await stream(api, run["id"], "1")).text)
    assert [name for name, _, _ in resumed] == ["2", None]
    nothing_left = events_of((await stream(api, run["id"], "2")).text)
    assert nothing_left == [(None, "end", {"status": "completed"})]


async def test_what_is_no_seq_cannot_be_resumed_after(api: Api) -> None:
    run = await api.start()
    for wrong in ("-1", "x", "99999999999", "1.5"):
        answer = await stream(api, run["id"], wrong)
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, "Last-Event-ID")


async def test_followers_see_each_append_once_and_in_order(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    async with followers(api, run["id"], 100) as watching:
        for number in range(1, 8):
            await puppet.append_log(number)
            await asyncio.gather(*(follower.until(number + 1) for follower in watching))
        await puppet.complete(None)
        await asyncio.wait_for(asyncio.gather(*(follower.task for follower in watching)), 10)
    assert all(follower.seqs == list(range(9)) for follower in watching)
    assert {follower.end for follower in watching} == {Ended(RunStatus.COMPLETED)}


async def test_a_stream_ends_with_the_right_to_it(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    made = (await api.call("POST", "/v1/tokens", json={"namespace": "acme", "scopes": ["runs:read"]})).json()
    path = f"/v1/runs/{run['id']}/events"
    reading = asyncio.create_task(api.call("GET", path, secret=made["token"]))
    await until(lambda: len(api.services.live) == 1)
    await puppet.append_log("for its reader")
    assert (await api.call("DELETE", f"/v1/tokens/{made['id']}")).status_code == 204
    await puppet.append_log("for nobody")
    answer = await asyncio.wait_for(reading, 10)
    assert answer.status_code == 200
    assert "for nobody" not in answer.text
    assert "event: end" not in answer.text
    assert (await api.call("GET", path, secret=made["token"])).status_code == 401


async def test_entries_without_any_hint_are_found_by_looking(api: Api) -> None:
    run = await api.start()
    puppet = await api.puppet(run["id"])
    async with followers(api, run["id"], 1) as (follower,):
        await follower.until(1)
        puppet.silent = True
        await puppet.append_log("nobody is told")
        await follower.until(2)


async def test_a_quiet_stream_says_that_it_lives(api: Api, monkeypatch: Any) -> None:
    monkeypatch.setattr("app.runs.live.QUIET_S", 0.02)
    run = await api.start()
    news = api.services.live.follow(await namespace_of(api, run["id"]), RunId(run["id"]), Seq(0))
    async with contextlib.aclosing(news):
        assert isinstance(await anext(news), Quiet)
        assert isinstance(await anext(news), Quiet)


async def test_streams_end_without_an_end_when_the_process_leaves(api: Api) -> None:
    run = await api.start()
    async with followers(api, run["id"], 3) as watching:
        await asyncio.gather(*(follower.until(1) for follower in watching))
        api.stop.set()
        await asyncio.wait_for(asyncio.gather(*(follower.task for follower in watching)), 5)
    assert [follower.end for follower in watching] == [None] * 3


async def test_nothing_is_kept_of_runs_that_nobody_follows(api: Api) -> None:
    run = await api.start()
    async with followers(api, run["id"], 2) as watching:
        await asyncio.gather(*(follower.until(1) for follower in watching))
        assert len(api.services.live) == 1
    assert len(api.services.live) == 0
