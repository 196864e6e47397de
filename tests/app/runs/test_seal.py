"""Seals: soon after the end, over the whole journal, chained by namespace, the same whoever computes them."""

import asyncio
from typing import Any

from app.scheduler.seals import Sealer
from sandbox.journal.ids import RunId, Sha256
from sandbox.store.seal import Root, link
from tests.fixtures.api import Api


async def seal(api: Api, run: str, namespace: str = "acme") -> Any:
    return await api.call("GET", f"/v1/runs/{run}/seal?namespace={namespace}")


async def ended_run(api: Api, namespace: str = "acme", output: Any = None) -> str:
    run = await api.start(namespace)
    puppet = await api.puppet(run["id"])
    await puppet.append_log({"n": 1e20, "text": "hello"})
    await puppet.complete(output)
    return str(run["id"])


async def root_of(api: Api, run: str) -> Sha256:
    async with api.store.pool.system.acquire() as connection:
        namespace = str(await connection.fetchval("select namespace_id from runs where run_id = $1", run))
    root = Root(RunId(run))
    root.add(await api.store.read_entries(namespace, RunId(run)))  # type: ignore[arg-type]
    return root.hex()


async def test_a_run_that_has_ended_is_sealed(own_api: Api) -> None:
    run = await ended_run(own_api)
    assert await Sealer(own_api.store).seal_ended() == 1
    assert await Sealer(own_api.store).seal_ended() == 0
    found = (await seal(own_api, run)).json()
    assert set(found) == {"root", "entries", "sealed_at", "previous"}
    assert (found["root"], found["entries"], found["previous"]) == (await root_of(own_api, run), 3, None)
    assert (await seal(own_api, run)).json() == found


async def test_seals_of_a_namespace_are_chained(own_api: Api) -> None:
    first, second = [await ended_run(own_api, output=number) for number in range(2)]
    other = await ended_run(own_api, "other")
    await Sealer(own_api.store).seal_ended()
    third = await ended_run(own_api)
    seals = [(run, (await seal(own_api, run)).json()) for run in (first, second, third)]
    previous = None
    for run, found in seals:
        assert found["previous"] == previous
        previous = link(previous, RunId(run), found["root"])
    assert (await seal(own_api, other, "other")).json()["previous"] is None


async def test_whoever_asks_first_seals(api: Api) -> None:
    run = await ended_run(api)
    answers = await asyncio.gather(*(seal(api, run) for _ in range(8)))
    assert len({answer.text for answer in answers}) == 1
    assert answers[0].status_code == 200


async def test_an_active_run_has_no_seal(api: Api) -> None:
    run = await api.start()
    answer = await seal(api, run["id"])
    assert (answer.status_code, answer.json()["code"]) == (409, "run_active")
