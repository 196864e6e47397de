"""Public bug reports of our field, tried at the API and the store."""

import asyncio

from sandbox.journal.entries import ScriptError
from sandbox.journal.ids import Epoch
from sandbox.store.postgres.owner import PostgresOwner
from tests.fixtures.api import DATA_KEY, SCRIPT, Api
from tests.fixtures.receiver import Receiver

KEY = {"Idempotency-Key": "K"}


async def test_o13_empty_names_are_refused_or_kept_and_start_one_run(api: Api) -> None:
    body = {"script": SCRIPT, "namespace": "acme"}
    await api.start()
    before = (await api.call("GET", "/v1/runs?namespace=acme")).json()["data"]
    refused = await api.call("POST", "/v1/runs", json=body, headers={"Idempotency-Key": ""})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    unnamed = await api.call("POST", "/v1/runs", json={**body, "labels": {"": "x"}})
    assert unnamed.status_code == 400
    assert (await api.call("GET", "/v1/runs?namespace=acme")).json()["data"] == before
    run = await api.start(labels={"team": ""})
    assert run["labels"] == {"team": ""}
    signal = await api.call("POST", f"/v1/runs/{run['id']}/signals?namespace=acme", json={"name": ""})
    assert (signal.status_code, signal.json()["errors"][0]["path"]) == (400, "name")
    body = {"name": "go", "id": ""}
    signal = await api.call("POST", f"/v1/runs/{run['id']}/signals?namespace=acme", json=body)
    assert (signal.status_code, signal.json()["errors"][0]["path"]) == (400, "id")
    assert len((await api.call("GET", "/v1/runs?namespace=acme")).json()["data"]) == len(before) + 1


async def test_o15_a_run_that_has_ended_is_never_activated_again(own_api: Api) -> None:
    run = await own_api.start()
    puppet = await own_api.puppet(run["id"])
    puppet.silent = True  # killed right after the commit: nobody is told, nothing is tidied
    await puppet.complete("done")
    await puppet._owner._session.close()  # type: ignore[union-attr]  # its lock is free, as after kill -9
    other = await PostgresOwner.open(own_api.url, data_key=DATA_KEY)
    try:
        await other.register([Epoch(1)])
        await other.reap_workers()
        assert await other.claim_runs(other.worker, [Epoch(1)], 100) == []
    finally:
        await other.deregister()
        await other.close()
    journal = await own_api.call("GET", f"/v1/runs/{run['id']}/journal?namespace=acme")
    assert [entry["type"] for entry in journal.json()["data"]] == ["run_started", "complete_run"]


async def test_o17_a_key_answers_its_failed_run_by_every_door(api: Api) -> None:
    body = {"script": SCRIPT, "namespace": "acme"}
    first = (await api.call("POST", "/v1/runs", json=body, headers=KEY)).json()
    puppet = await api.puppet(first["id"])
    await puppet.fail(ScriptError("Error", "no"))
    again = await api.call("POST", "/v1/runs", json=body, headers=KEY)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert (again.json()["id"], again.json()["status"]) == (first["id"], "failed")
    batch = {"items": [{**body, "labels": {"n": "1"}}]}
    started = (await api.call("POST", "/v1/runs/batch", json=batch, headers=KEY)).json()
    item = started["results"][0]
    ident = item.get("id") or item["run"]["id"]
    assert ident != first["id"]  # a key belongs to its route
    puppet = await api.puppet(ident)
    await puppet.fail(ScriptError("Error", "no"))
    repeated = (await api.call("POST", "/v1/runs/batch", json=batch, headers=KEY)).json()
    item = repeated["results"][0]
    assert (item.get("id") or item["run"]["id"]) == ident


async def test_o15_a_run_that_has_ended_is_told_once(own_api: Api, receiver: Receiver) -> None:
    """Whoever is killed after the commit of its end, and whoever projects and sends again."""
    made = await own_api.call("POST", "/v1/webhooks", json={"url": receiver.url, "events": ["run.completed"]})
    assert made.status_code == 201, made.text
    run = await own_api.start()
    puppet = await own_api.puppet(run["id"])
    puppet.silent = True
    await puppet.complete("done")
    projector, sender = own_api.services.hooks.projector, own_api.services.hooks.sender
    for _ in range(2):
        await asyncio.gather(*(projector.project_recorded() for _ in range(3)))
    for _ in range(3):
        await sender.deliver_due()
        await sender.drain()
    assert [got.verified(made.json()["secret"])["type"] for got in receiver.got] == ["run.completed"]
