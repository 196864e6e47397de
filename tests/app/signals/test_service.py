"""Signals: recorded once by id."""

import asyncio
from typing import Any
from uuid import UUID

import httpx2

from sandbox.store.postgres.connection import acquired
from tests.fixtures.api import Api


async def send(api: Api, run: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
    return await api.call("POST", f"/v1/runs/{run}/signals?namespace=acme", json=body, headers=headers)


async def entries(api: Api, run: str) -> list[dict[str, Any]]:
    found = await api.call("GET", f"/v1/runs/{run}/journal?namespace=acme")
    return [entry for entry in found.json()["data"] if entry["type"] == "signal_received"]


async def test_a_signal_is_recorded(api: Api) -> None:
    run = (await api.start())["id"]
    answer = await send(api, run, {"name": "go", "payload": {"yes": True}, "id": "s-1", "by": "ann"})
    assert (answer.status_code, answer.json()) == (202, {"id": "s-1", "duplicate": False})
    (entry,) = await entries(api, run)
    assert (entry["name"], entry["id"], entry["by"]) == ("go", "s-1", "ann")
    assert entry["payload"]["value"] == {"yes": True}
    assert entry["actor"]["kind"] == "key"


async def test_a_signal_without_payload_and_id(api: Api) -> None:
    run = (await api.start())["id"]
    first, second = await send(api, run, {"name": "go"}), await send(api, run, {"name": "go"})
    assert first.json()["id"] != second.json()["id"]
    assert UUID(first.json()["id"]).version == 7
    assert [entry["payload"]["value"] for entry in await entries(api, run)] == [None, None]


async def test_an_id_is_unique_in_its_run(api: Api) -> None:
    run, other = (await api.start())["id"], (await api.start())["id"]
    answers = await asyncio.gather(*(send(api, run, {"name": "go", "id": "x"}) for _ in range(8)))
    assert sorted(answer.json()["duplicate"] for answer in answers) == [False] + [True] * 7
    assert len(await entries(api, run)) == 1
    assert not (await send(api, other, {"name": "go", "id": "x"})).json()["duplicate"]


async def test_an_idempotency_key_binds_a_signal(api: Api) -> None:
    run = (await api.start())["id"]
    first = await send(api, run, {"name": "go"}, **{"Idempotency-Key": "k"})
    again = await send(api, run, {"name": "go"}, **{"Idempotency-Key": "k"})
    assert again.status_code == 202
    assert again.json() == {"id": first.json()["id"], "duplicate": True}
    assert again.headers["idempotent-replayed"] == "true"
    other = await send(api, run, {"name": "stop"}, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert len(await entries(api, run)) == 1


async def test_an_ended_run_takes_no_signals(api: Api) -> None:
    run = (await api.start())["id"]
    signal = {"name": "go", "payload": "U+0000 is no text for Postgres: \0"}
    sent = await send(api, run, signal, **{"Idempotency-Key": "k"})
    puppet = await api.puppet(run)
    await puppet.complete(None)
    answer = await send(api, run, {"name": "go"})
    assert (answer.status_code, answer.json()["code"]) == (409, "run_ended")
    again = await send(api, run, signal, **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["id"]) == (202, sent.json()["id"])


async def test_a_repeat_is_a_duplicate_after_the_end_too(api: Api) -> None:
    """Whoever never got the first answer must not take the signal for lost."""
    run = (await api.start())["id"]
    await send(api, run, {"name": "go", "id": "s-1"})
    await (await api.puppet(run)).complete(None)
    again = await send(api, run, {"name": "go", "id": "s-1"})
    assert (again.status_code, again.json()) == (202, {"id": "s-1", "duplicate": True})
    assert "idempotent-replayed" not in again.headers
    new = await send(api, run, {"name": "go", "id": "s-2"})
    assert (new.status_code, new.json()["code"]) == (409, "run_ended")


async def test_a_refusal_uses_up_no_key(api: Api) -> None:
    run = (await api.start())["id"]
    await (await api.puppet(run)).complete(None)
    for body in ({"name": "go"}, {"name": "stop"}):
        answer = await send(api, run, body, **{"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["code"]) == (409, "run_ended")


async def test_names_and_big_payloads(api: Api) -> None:
    run = (await api.start())["id"]
    for name in ("", "no space", "x" * 129, "new\nline", "a\n"):
        assert (await send(api, run, {"name": name})).status_code == 400, name
    answer = await send(api, run, {"name": "ok.A-1:_", "payload": "x" * 100_000})
    assert answer.status_code == 202
    assert set((await entries(api, run))[0]["payload"]) == {"bytes", "sha256"}
    assert (await send(api, run, {"name": "nul", "id": "a\0b"})).status_code == 400


async def test_a_full_history_takes_no_more_signals_and_says_so(own_api: Api) -> None:
    run = await own_api.start()
    async with acquired(own_api.store.pool) as connection:
        await connection.execute("update runs set next_seq = 45000 where run_id = $1", run["id"])
    refused = await own_api.call("POST", f"/v1/runs/{run['id']}/signals?namespace=acme", json={"name": "go"})
    assert (refused.status_code, refused.json()["code"]) == (429, "history_full")
    cancelled = await own_api.call("POST", f"/v1/runs/{run['id']}/cancel?namespace=acme")
    assert cancelled.status_code in {200, 202}, "what ends the run is taken"
