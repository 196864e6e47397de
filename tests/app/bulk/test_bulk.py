"""Filters of lists, and cancelling everything that a filter finds."""

from typing import Any

import pytest

from app.bulk import service
from infra.postgres_programs import psql
from sandbox.store.postgres.connection import acquired
from tests.fixtures.api import Api

COUNT = 20_000
FILL = """with made as (select ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid as run, i
    from generate_series(1, $2) i),
  facts as (insert into run_facts (namespace_id, run_id, organization_id, script, labels, created_by_kind, created_by_id,
      started_at, deadline)
    select r.namespace_id, m.run, r.organization_id, r.script,
      jsonb_build_object('user', 'user-' || m.i, 'plan', case when m.i % 2 = 0 then 'free' else 'paid' end), 'key', 'k', m.i, m.i
    from made m, run_facts r where r.run_id = $1)
  insert into runs (namespace_id, run_id, epoch, next_seq, last_time, last_event, ready)
    select r.namespace_id, m.run, 1, 1, 0, 0, false from made m, runs r where r.run_id = $1"""


async def found(api: Api, query: str) -> list[str]:
    answer = await api.call("GET", f"/v1/runs?namespace=acme&{query}")
    assert answer.status_code == 200, answer.text
    return [run["id"] for run in answer.json()["data"]]


async def cancel(api: Api, filter_: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = {"filter": filter_, **fields}
    answer = await api.call("POST", "/v1/runs/cancel?namespace=acme", json=body)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def test_q_finds_what_people_remember(own_api: Api) -> None:
    await own_api.toolset("billing-tools")
    ada = (await own_api.start(labels={"customer": "Ada Lovelace", "odd": "a'b\\c"}))["id"]
    bob = (await own_api.start(labels={"customer": "Bob"}, toolset="billing-tools"))["id"]
    await own_api.start("other", labels={"customer": "Ada"})
    assert await found(own_api, "q=lovel") == [ada]
    assert await found(own_api, "q=ADA+love") == [ada]
    assert await found(own_api, "q=ada+bob") == []
    assert await found(own_api, "q=billing") == [bob]
    assert await found(own_api, "q=customer") == [bob, ada]
    assert await found(own_api, f"q={bob}") == [bob]
    assert set(await found(own_api, f"q={ada[:20]}")) >= {ada}
    assert await found(own_api, "q=%27%3A*+%7C+%21") == []
    assert await found(own_api, "label.odd=a%27b%5Cc") == [ada]
    assert await found(own_api, "label.customer=ada+lovelace") == []
    assert await found(own_api, "q=") == [bob, ada]


async def test_one_status_or_several(own_api: Api) -> None:
    await own_api.start()
    assert (await cancel(own_api, {"status": ["completed", "failed"]}))["matched"] == 0
    assert (await cancel(own_api, {"status": "completed"}))["matched"] == 0
    assert (await cancel(own_api, {"status": ["completed", "active"]}))["matched"] == 1


async def test_filters_are_combined(own_api: Api) -> None:
    one = await own_api.start(labels={"a": "1", "b": "2"})
    two = await own_api.start(labels={"a": "1"})
    await (await own_api.puppet(two["id"])).complete(1)
    assert await found(own_api, "label.a=1") == [two["id"], one["id"]]
    assert await found(own_api, "label.a=1&label.b=2") == [one["id"]]
    assert await found(own_api, "label.a=1&status=completed") == [two["id"]]
    assert await found(own_api, f"script={one['script']}&q=2") == [one["id"]]


async def test_many_runs_are_found_by_index_and_paged(own_api: Api) -> None:
    run = (await own_api.start(labels={"user": "newest"}))["id"]
    async with acquired(own_api.store.pool) as connection:
        await connection.execute(FILL, run, COUNT)
        psql(own_api.url, "vacuum analyze run_facts")  # as its owner
        namespace = await connection.fetchval("select namespace_id from runs where run_id = $1", run)
        plan = await connection.fetch(
            f"explain select run_id from run_facts where namespace_id = '{namespace}'"
            f" and terms @@ run_query('{namespace}', '{{l:user=user-77}}', '')"
        )
    assert "run_facts_terms" in str(plan)
    assert len(await found(own_api, "label.user=user-77")) == 1
    assert len(await found(own_api, "q=user-19999")) == 1
    page = (await own_api.call("GET", "/v1/runs?namespace=acme&label.plan=free&limit=3")).json()
    await own_api.start(labels={"plan": "free"})  # a new run does not shift the next page
    more = await own_api.call("GET", f"/v1/runs?namespace=acme&label.plan=free&limit=3&after={page['next']}")
    ids = [run["id"] for run in page["data"] + more.json()["data"]]
    assert [int(id_[-5:]) for id_ in ids] == [20000, 19998, 19996, 19994, 19992, 19990]


async def test_what_matches_is_cancelled_and_nothing_else(own_api: Api) -> None:
    first = await own_api.start(labels={"a": "1"})
    done = await own_api.start(labels={"a": "1"})
    await (await own_api.puppet(done["id"])).complete(1)
    other = await own_api.start(labels={"a": "2"})
    elsewhere = await own_api.start("other", labels={"a": "1"})
    assert await cancel(own_api, {"labels": {"a": "1"}}, reason="stop") == {
        "matched": 1,
        "cancelled": 1,
        "remaining": 0,
    }
    assert await cancel(own_api, {"label.a": "1"}) == {"matched": 0, "cancelled": 0, "remaining": 0}
    journal = await own_api.call("GET", f"/v1/runs/{first['id']}/journal?namespace=acme")
    said = journal.json()["data"][-1]
    assert (said["type"], said["reason"], said["detail"]) == ("cancel_requested", "user", "stop")
    for run, namespace in ((other, "acme"), (elsewhere, "other")):
        shown = (await own_api.call("GET", f"/v1/runs/{run['id']}?namespace={namespace}")).json()
        assert shown["cancelling"] is False
    assert await cancel(own_api, {}) == {"matched": 1, "cancelled": 1, "remaining": 0}


async def test_many_are_finished_in_the_background(own_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "AT_ONCE", 2)
    monkeypatch.setattr(service, "IN_REQUEST_MAX", 4)
    for _ in range(7):
        await own_api.start()
    assert await cancel(own_api, {}) == {"matched": 7, "cancelled": 4, "remaining": 3}
    later = await own_api.start()
    assert await own_api.services.bulk.finish_some() == 3
    assert await own_api.services.bulk.finish_some() == 0
    runs = (await own_api.call("GET", "/v1/runs?namespace=acme")).json()["data"]
    assert [run["id"] for run in runs if not run["cancelling"]] == [later["id"]]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"reason": "no filter"}, "filter"),
        ({"filter": {"script": "x"}}, "filter.script"),
        ({"filter": {"parent": "x"}}, "filter.parent"),
        ({"filter": {"from": "yesterday"}}, "filter.from"),
        ({"filter": {"label.": "x"}}, "filter.labels"),
        ({"filter": {"colour": "x"}}, "filter.colour"),
    ],
)
async def test_a_wrong_filter_cancels_nothing(own_api: Api, body: dict[str, Any], path: str) -> None:
    run = await own_api.start()
    answer = await own_api.call("POST", "/v1/runs/cancel?namespace=acme", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, path), answer.text
    shown = (await own_api.call("GET", f"/v1/runs/{run['id']}?namespace=acme")).json()
    assert shown["cancelling"] is False
