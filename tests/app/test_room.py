"""Large bodies have room: what is beyond a customer's share waits unread, and holds nobody else up."""

import asyncio
from typing import Any

import pytest

from app import body, room
from app.room import LARGE_BODY_BYTES, Room
from sandbox.customers import on_behalf_of
from sandbox.journal.errors import Unavailable
from tests.fixtures.api import SCRIPT, Api
from tests.fixtures.turns import settle


class Requests:
    """Requests of customers that take room and keep it until they are let go."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.inside: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, customer: str, name: str, size: int) -> None:
        async def run() -> None:
            on_behalf_of(customer)
            with self.room.request():
                await self.room.take(size)
                self.inside.append(name)
                await self.gates[name].wait()
                self.inside.remove(name)

        self.gates[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(run())
        await settle()

    async def end(self, name: str) -> None:
        self.gates[name].set()
        await self.tasks[name]
        await settle()


async def test_each_has_a_share_and_all_have_one() -> None:
    asked = Requests(Room(each=10, every=16))
    for customer, name, size in (
        ("a", "a1", 6),
        ("a", "a2", 4),
        ("a", "a3", 1),
        ("b", "b1", 6),
        ("c", "c1", 1),
    ):
        await asked.begin(customer, name, size)
    assert asked.inside == ["a1", "a2", "b1"]
    await asked.end("a2")
    assert asked.inside == ["a1", "b1", "a3", "c1"]
    for name in ("a1", "b1", "a3", "c1"):
        await asked.end(name)
    assert asked.room.held == 0


async def test_one_body_always_has_room() -> None:
    asked = Requests(Room(each=10, every=10))
    await asked.begin("a", "a1", 64)
    await asked.begin("b", "b1", 64)
    assert asked.inside == ["a1"]
    await asked.end("a1")
    assert asked.inside == ["b1"]
    await asked.end("b1")


async def test_who_waits_too_long_is_told_and_holds_nothing() -> None:
    asked = Requests(Room(each=10, every=100, patience_s=0.01))
    await asked.begin("a", "a1", 10)
    await asked.begin("a", "a2", 1)
    with pytest.raises(Unavailable, match="send fewer at a time"):
        await asked.tasks["a2"]
    await asked.end("a1")
    assert asked.room.held == 0


async def test_who_goes_away_holds_nothing() -> None:
    asked = Requests(Room(each=10, every=100))
    await asked.begin("a", "a1", 10)
    await asked.begin("a", "a2", 10)
    await asked.begin("a", "a3", 10)
    asked.tasks["a2"].cancel()
    await asyncio.gather(asked.tasks["a2"], return_exceptions=True)
    await asked.end("a1")
    assert asked.inside == ["a3"]
    await asked.end("a3")
    assert asked.room.held == 0


async def test_so_many_requests_of_one_customer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait, and streams: whoever has too many open is refused more, and nobody else is."""
    monkeypatch.setattr(room, "REQUESTS_MAX", 3)
    entered: asyncio.Queue[None] = asyncio.Queue()
    enter = body.ROOM.enter

    def noting() -> None:
        enter()
        entered.put_nowait(None)

    other = await api.other_organization()
    runs = [(await api.start())["id"] for _ in range(3)]
    monkeypatch.setattr(body.ROOM, "enter", noting)
    paths = [f"/v1/runs/{runs[0]}?namespace=acme&wait=20s", f"/v1/runs/{runs[1]}/events?namespace=acme"]
    open_ = [asyncio.create_task(api.call("GET", path)) for path in paths]
    claim = {"max": 1, "wait": "20s"}
    open_.append(asyncio.create_task(api.call("POST", "/v1/tasks/claim", json=claim)))
    for _ in open_:
        await entered.get()
    for method, path, given in (("GET", "/v1/me", None), ("POST", "/v1/tasks/claim", claim)):
        refused = await api.call(method, path, json=given)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited"), refused.text
        assert refused.headers["retry-after"] == "2"
    assert (await api.call("GET", "/v1/me", secret=other)).status_code == 200
    open_[2].cancel()
    await asyncio.gather(open_[2], return_exceptions=True)
    assert (await api.call("GET", "/v1/me")).status_code == 200
    for run in runs[:2]:
        puppet = await api.puppet(run)
        await puppet.complete(1)
        await api.puppets.pop().close()
    await asyncio.gather(*open_[:2])
    assert not body.ROOM._under_way


async def test_requests_take_room_for_their_bodies(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced or not; and give it back, whatever became of them."""
    taken: list[int] = []
    take = body.ROOM.take

    async def noting(size: int) -> None:
        taken.append(size)
        await take(size)

    monkeypatch.setattr(body.ROOM, "take", noting)
    large = "x" * (LARGE_BODY_BYTES + 1)
    made = {"script": SCRIPT, "namespace": "acme", "input": {"a": large}}
    assert (await api.call("POST", "/v1/runs", json=made)).status_code == 201
    assert (await api.call("POST", "/v1/runs", json={**made, "unknown": 1})).status_code == 400

    async def parts() -> Any:
        for _ in range(3):
            yield b" " * LARGE_BODY_BYTES

    headers = {"content-type": "application/json"}
    endless = await api.call("POST", "/v1/runs", content=parts(), headers=headers)
    assert (endless.status_code, endless.json()["code"]) == (400, "invalid_json")
    assert taken[0] > LARGE_BODY_BYTES
    assert taken[2:] == [body.VALUE_BODY_BYTES_MAX]
    assert body.ROOM.held == 0
