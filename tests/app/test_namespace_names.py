"""An API key names its namespace in the body or in the query, whatever the call is."""

from typing import Any

import orjson
import pytest

from tests.architecture.test_openapi import SNAPSHOT
from tests.fixtures.api import SCRIPT, Api

RUN_CALLS = {
    "signals": ({"name": "go"}, 202),
    "cancel": ({}, 202),
    "replay": ({}, 200),
}


def bodies() -> list[tuple[str, dict[str, Any]]]:
    """Every call that takes a body and may be asked with `?namespace=`, and the schema of its body."""
    document = orjson.loads(SNAPSHOT.read_bytes())
    found = []
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            asked = {parameter["name"] for parameter in call.get("parameters", ())}
            if "requestBody" in call and "namespace" in asked:
                schema = call["requestBody"]["content"]["application/json"]["schema"]
                (named,) = [one["$ref"] for one in schema.get("anyOf", [schema]) if "$ref" in one]
                found.append((f"{method} {path}", document["components"]["schemas"][named.split("/")[-1]]))
    return found


def test_whatever_takes_it_in_the_query_takes_it_in_its_body() -> None:
    calls = bodies()
    assert len(calls) >= 15
    assert [call for call, schema in calls if "namespace" not in schema["properties"]] == []


@pytest.mark.parametrize("call", RUN_CALLS)
async def test_calls_of_a_run_find_it_by_the_body(api: Api, call: str) -> None:
    run = await api.start(namespace="by-body")
    body, status = RUN_CALLS[call]
    path = f"/v1/runs/{run['id']}/{call}"
    other = await api.call("POST", path, json={**body, "namespace": "acme"})
    assert other.status_code == 404
    two = await api.call("POST", f"{path}?namespace=acme", json={**body, "namespace": "by-body"})
    assert two.status_code == 400
    assert two.json()["errors"][0]["path"] == "namespace"
    none = await api.call("POST", path, json=body)
    assert none.status_code == 400
    assert none.json()["errors"][0]["path"] == "namespace"
    found = await api.call("POST", path, json={**body, "namespace": "by-body"})
    assert found.status_code == status, found.text


async def test_a_signal_is_the_same_one_however_its_namespace_is_named(api: Api) -> None:
    run = await api.start(namespace="by-body")
    path, key = f"/v1/runs/{run['id']}/signals", {"Idempotency-Key": "one"}
    first = await api.call("POST", path, json={"name": "go", "namespace": "by-body"}, headers=key)
    again = await api.call("POST", f"{path}?namespace=by-body", json={"name": "go"}, headers=key)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]


async def test_a_token_is_made_for_the_namespace_of_the_query(api: Api) -> None:
    made = await api.call("POST", "/v1/tokens?namespace=by-query", json={})
    assert made.status_code == 201, made.text
    assert made.json()["namespace"] == "by-query"
    missing = await api.call("POST", "/v1/tokens", json={})
    assert (missing.status_code, missing.json()["errors"][0]["path"]) == (400, "namespace")


async def test_a_token_may_name_its_own_namespace_only(api: Api) -> None:
    made = (await api.call("POST", "/v1/tokens", json={"namespace": "by-body"})).json()
    caller = {"Authorization": f"Bearer {made['token']}"}
    own = await api.call("POST", "/v1/runs", json={"script": SCRIPT, "namespace": "by-body"}, headers=caller)
    assert own.status_code == 201, own.text
    path = f"/v1/runs/{own.json()['id']}/signals"
    sent = await api.call("POST", path, json={"name": "go", "namespace": "by-body"}, headers=caller)
    assert sent.status_code == 202
    refused = await api.call("POST", path, json={"name": "go", "namespace": "acme"}, headers=caller)
    assert refused.status_code == 404
