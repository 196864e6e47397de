"""Tokens, namespaces and `GET /me`."""

from typing import Any

import httpx2
import pytest

from tests.fixtures.api import Api


async def create(api: Api, body: dict[str, Any], **headers: str) -> httpx2.Response:
    return await api.call("POST", "/v1/tokens", json=body, headers=headers)


async def test_a_token_is_shown_once(api: Api) -> None:
    answer = await create(api, {"namespace": "acme", "name": "agent"})
    assert answer.status_code == 201
    view = answer.json()
    assert set(view) == {
        "id", "token", "prefix", "name", "namespace", "scopes", "narrow", "expires_at", "created_at", "last_used_at",
    }  # fmt: skip
    assert view["token"].startswith("rwt_") and view["token"].startswith(view["prefix"])
    assert view["scopes"] == ["runs:read", "runs:write", "signals:write", "scripts:check"]
    assert (view["narrow"], view["last_used_at"]) == ({}, None)
    got = (await api.call("GET", f"/v1/tokens/{view['id']}")).json()
    assert got == {key: value for key, value in view.items() if key != "token"}
    (listed,) = (await api.call("GET", "/v1/tokens?namespace=acme")).json()["data"]
    assert listed == got


async def test_use_is_noted(api: Api) -> None:
    view = (await create(api, {"namespace": "acme"})).json()
    await api.call("GET", "/v1/me", secret=view["token"])
    assert (await api.call("GET", f"/v1/tokens/{view['id']}")).json()["last_used_at"] is not None


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"namespace": "no space"}, "namespace"),
        ({"namespace": None}, "namespace"),
        ({"scopes": ["manage"]}, "scopes"),
        ({"scopes": ["runs"]}, "scopes"),
        ({"scopes": "runs:read"}, "scopes"),
        ({"ttl": 0}, "ttl"),
        ({"ttl": "100000d"}, "ttl"),
        ({"name": "a\0"}, "name"),
        ({"narrow": {"run": "x"}}, "narrow.run"),
        ({"narrow": {"toolset": "A"}}, "narrow.toolset"),
        ({"narrow": {"signals": ["a b"]}}, "narrow.signals[0]"),
        ({"narrow": {"tool": "x"}}, "narrow.tool"),
    ],
)
async def test_wrong_tokens(api: Api, fields: dict[str, Any], path: str) -> None:
    answer = await create(api, {"namespace": "acme", **fields})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert path in [error["path"] for error in answer.json()["errors"]], answer.text


async def test_ttl(api: Api) -> None:
    assert (await create(api, {"namespace": "acme", "ttl": None})).json()["expires_at"] is None
    day = (await create(api, {"namespace": "acme"})).json()
    assert day["expires_at"] > day["created_at"]


async def test_idempotency_never_shows_the_secret_again(api: Api) -> None:
    first = await create(api, {"namespace": "acme"}, **{"Idempotency-Key": "k"})
    again = await create(api, {"namespace": "acme"}, **{"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["id"] == first.json()["id"] and "token" not in again.json()
    other = await create(api, {"namespace": "acme", "name": "x"}, **{"Idempotency-Key": "k"})
    assert other.json()["code"] == "idempotency_conflict"
    await api.call("DELETE", f"/v1/tokens/{first.json()['id']}")
    gone = await create(api, {"namespace": "acme"}, **{"Idempotency-Key": "k"})
    assert gone.status_code == 404


async def test_me(api: Api) -> None:
    me = (await api.call("GET", "/v1/me")).json()
    assert me["principal"]["kind"] == "key" and me["principal"]["namespace"] is None
    assert "manage" in me["scopes"] and me["limits"]["value_bytes"] == 16 * 1024 * 1024
    secret = await api.token("acme", [], narrow={"signals": ["go"]})
    mine = (await api.call("GET", "/v1/me", secret=secret)).json()
    assert mine["principal"]["namespace"] == "acme"
    assert mine["principal"]["narrow"] == {"signals": ["go"]}
    assert mine["scopes"] == []


async def test_namespaces(api: Api) -> None:
    made = await api.call("PUT", "/v1/namespaces/User:1", json={"labels": {"plan": "pro"}})
    assert made.status_code == 200
    assert (made.json()["name"], made.json()["labels"]) == ("User:1", {"plan": "pro"})
    again = await api.call("PUT", "/v1/namespaces/User:1")
    assert again.json() == made.json()
    assert (await api.call("GET", "/v1/namespaces/User:1")).json() == made.json()
    assert (await api.call("GET", "/v1/namespaces/user:1")).status_code == 404
    assert (await api.call("PUT", "/v1/namespaces/a b")).status_code == 400
    assert (await api.call("PUT", "/v1/namespaces/x", json={"labels": {"a b": "1"}})).status_code == 400


async def test_a_namespace_exists_from_its_first_use_by_a_key(api: Api) -> None:
    assert (await api.call("GET", "/v1/namespaces/acme")).status_code == 404
    await api.start()
    assert (await api.call("GET", "/v1/namespaces/acme")).status_code == 200


async def test_lists_of_tokens_are_pages(api: Api) -> None:
    for name in "abc":
        await create(api, {"namespace": "acme", "name": name})
    await create(api, {"namespace": "other"})
    page = (await api.call("GET", "/v1/tokens?namespace=acme&limit=2")).json()
    rest = (await api.call("GET", f"/v1/tokens?namespace=acme&limit=2&after={page['next']}")).json()
    assert [token["name"] for token in page["data"] + rest["data"]] == ["c", "b", "a"]
    assert rest["next"] is None
