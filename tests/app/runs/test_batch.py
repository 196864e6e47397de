"""Many starts in one exchange: each answered by itself, in order, once per Idempotency-Key."""

from typing import Any

import pytest

from tests.fixtures.api import SCRIPT, Api

ITEM = {"script": SCRIPT, "namespace": "acme"}


async def batch(api: Api, items: list[Any], query: str = "", **headers: str) -> Any:
    return await api.call("POST", f"/v1/runs/batch{query}", json={"items": items}, headers=headers)


async def test_every_item_is_answered_by_itself_and_in_order(api: Api) -> None:
    items = [
        {**ITEM, "input": 0},
        {**ITEM, "script": "const x = 1"},
        {**ITEM, "input": 2, "labels": {"a": "b"}},
        {**ITEM, "nonsense": True},
        {**ITEM, "toolset": "unknown"},
        {"script": SCRIPT},
        "no object",
        {**ITEM, "input": 7, "namespace": "other"},
    ]
    answer = await batch(api, items)
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [result["ok"] for result in results] == [True, False, True, False, False, False, False, True]
    assert [results[at]["run"]["input"] for at in (0, 2, 7)] == [0, 2, 7]
    assert results[2]["run"]["labels"] == {"a": "b"}
    assert results[7]["run"]["namespace"] == "other"
    problems = [result["problem"] for result in results if not result["ok"]]
    assert [(problem["status"], problem["code"]) for problem in problems] == [
        (422, "script_refused"),
        (400, "invalid_request"),
        (422, "unknown_toolset"),
        (400, "invalid_request"),
        (400, "invalid_request"),
    ]
    assert problems[0]["diagnostics"]
    assert problems[1]["errors"][0]["path"] == "nonsense"
    listed = (await api.call("GET", "/v1/runs?namespace=acme")).json()["data"]
    assert {run["id"] for run in listed} == {results[0]["run"]["id"], results[2]["run"]["id"]}


async def test_a_hundred_runs_and_no_more(api: Api) -> None:
    items = [{"script": SCRIPT, "input": number} for number in range(100)]
    results = (await batch(api, items, "?namespace=acme")).json()["results"]
    assert [result["run"]["input"] for result in results] == list(range(100))
    assert len({result["run"]["id"] for result in results}) == 100
    for wrong in ([], [*items, items[0]]):
        answer = await batch(api, wrong, "?namespace=acme")
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, "items")


async def test_the_same_key_answers_the_same_runs_and_tries_refusals_again(api: Api) -> None:
    items = [ITEM, {**ITEM, "toolset": "later"}, {**ITEM, "input": 1}]
    first = (await batch(api, items, **{"Idempotency-Key": "k"})).json()["results"]
    assert [result["ok"] for result in first] == [True, False, True]
    await api.toolset("later")
    second = await batch(api, items, **{"Idempotency-Key": "k"})
    assert "idempotent-replayed" not in second.headers
    again = second.json()["results"]
    assert [result["ok"] for result in again] == [True, True, True]
    assert [again[at]["run"]["id"] for at in (0, 2)] == [first[at]["run"]["id"] for at in (0, 2)]
    third = await batch(api, items, **{"Idempotency-Key": "k"})
    assert third.headers["idempotent-replayed"] == "true"
    assert [r["run"]["id"] for r in third.json()["results"]] == [r["run"]["id"] for r in again]


async def test_the_same_key_with_another_batch_is_a_conflict(api: Api) -> None:
    await batch(api, [ITEM], **{"Idempotency-Key": "k2"})
    answer = await batch(api, [{**ITEM, "input": 1}, ITEM], **{"Idempotency-Key": "k2"})
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
    single = await api.call("POST", "/v1/runs", json=ITEM, headers={"Idempotency-Key": "k2"})
    assert single.status_code == 201, "a key of a batch is none of a single start"


@pytest.mark.parametrize("body", [{}, {"items": 1}, {"items": [ITEM], "more": 1}, [ITEM]])
async def test_what_is_no_batch_is_refused(api: Api, body: Any) -> None:
    assert (await api.call("POST", "/v1/runs/batch", json=body)).status_code == 400
