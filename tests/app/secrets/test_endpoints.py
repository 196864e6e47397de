"""Secrets over the API: written, never read."""

import pytest

from sandbox.store.postgres.connection import acquired
from tests.fixtures.api import Api

VALUE = "s3cr3t-value-that-nobody-sees"


async def test_a_secret_is_written_and_never_shown(api: Api) -> None:
    put = await api.call("PUT", "/v1/secrets/github", json={"value": VALUE, "namespace": "acme"})
    assert put.status_code == 200, put.text
    shown = put.json()
    assert set(shown) == {"name", "namespace", "created_at", "updated_at"}
    assert (shown["name"], shown["namespace"]) == ("github", "acme")
    got = await api.call("GET", "/v1/secrets/github?namespace=acme")
    listed = await api.call("GET", "/v1/secrets?namespace=acme")
    assert got.json() == shown
    assert listed.json() == {"data": [shown], "next": None}
    assert all(VALUE not in answer.text for answer in (put, got, listed))
    async with acquired(api.store.pool) as connection:
        rows = await connection.fetch(
            "select sealed from secrets where organization_id = $1", api.organization
        )
    assert [VALUE.encode() in row["sealed"] for row in rows] == [False]


async def test_namespaces_and_the_organization_have_their_own(api: Api) -> None:
    for namespace in (None, "acme", "other"):
        body = {"value": f"of {namespace}"} | ({} if namespace is None else {"namespace": namespace})
        assert (await api.call("PUT", "/v1/secrets/key", json=body)).status_code == 200
    assert (await api.call("DELETE", "/v1/secrets/key?namespace=acme")).status_code == 204
    assert (await api.call("GET", "/v1/secrets/key?namespace=acme")).status_code == 404
    assert (await api.call("DELETE", "/v1/secrets/key?namespace=acme")).status_code == 404
    assert (await api.call("GET", "/v1/secrets/key")).json()["namespace"] is None
    assert (await api.call("GET", "/v1/secrets/key?namespace=other")).status_code == 200
    assert (await api.call("GET", "/v1/secrets/key?namespace=nobody")).status_code == 404


async def test_a_reference_resolves_in_the_namespace_first(api: Api) -> None:
    secrets, tenancy = api.services.secrets, api.services.tenancy
    principal = await api.services.authenticator.authenticate(f"Bearer {api.key}")
    acme = (await tenancy.namespace(principal, "acme", write=True)).id
    other = (await tenancy.namespace(principal, "other", write=True)).id
    await secrets.put(api.organization, None, "shared", "org")
    await secrets.put(api.organization, None, "both", "org")
    await secrets.put(api.organization, acme, "both", "acme")
    names = ["shared", "both", "none"]
    assert await secrets.resolve(api.organization, acme, names) == {"shared": "org", "both": "acme"}
    assert await secrets.resolve(api.organization, other, names) == {"shared": "org", "both": "org"}
    assert await secrets.resolve(api.organization, acme, names, fallback=False) == {"both": "acme"}
    assert await secrets.resolve(api.organization, None, names) == {"shared": "org", "both": "org"}


async def test_lists_are_paged_by_name(api: Api) -> None:
    for name in ("b", "a", "c"):
        await api.call("PUT", f"/v1/secrets/{name}", json={"value": "x"})
    page = (await api.call("GET", "/v1/secrets?limit=2")).json()
    rest = (await api.call("GET", f"/v1/secrets?limit=2&after={page['next']}")).json()
    assert [row["name"] for row in page["data"] + rest["data"]] == ["a", "b", "c"]
    assert rest["next"] is None
    assert (await api.call("GET", "/v1/secrets?after=AAAA")).json()["code"] == "invalid_request"


@pytest.mark.parametrize("name", ["a b", "x" * 129, "-x", "ä", "a%00b"])
async def test_names_that_are_none(api: Api, name: str) -> None:
    assert (await api.call("PUT", f"/v1/secrets/{name}", json={"value": "x"})).status_code == 400
    assert (await api.call("GET", f"/v1/secrets/{name}")).status_code == 404
    assert (await api.call("DELETE", f"/v1/secrets/{name}")).status_code == 404


@pytest.mark.parametrize(
    "body", [{}, {"value": ""}, {"value": 1}, {"value": "x" * 65_537}, {"value": "ä" * 40_000}]
)
async def test_values_that_are_none(api: Api, body: dict[str, object]) -> None:
    answer = await api.call("PUT", "/v1/secrets/a", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert "xxxx" not in answer.text
    assert "ääää" not in answer.text
