"""Keys, usage, audit log and quotas in the SDK: what is sent, and what comes of the answers."""

import datetime as dt
from collections.abc import AsyncIterator

import pytest
import rewind
from rewind import AsyncRewind

from tests.sdk_python.fake_api import FakeApi, Reply

KEY = {
    "id": "k1",
    "key": "rwk_new",
    "prefix": "rwk_n",
    "name": "ci",
    "scopes": ["runs:read"],
    "allow_ips": [],
}


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[AsyncRewind]:
    async with AsyncRewind(api_key="rwk_test_0123456789", base_url=api.url, namespace="acme") as made:
        yield made


async def test_keys(api: FakeApi, client: AsyncRewind) -> None:
    api.on("POST /v1/keys", Reply(201, KEY))
    until = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    made = await client.keys.create("ci", scopes=["runs:read"], expires_at=until)
    assert (made.id, made.key) == ("k1", "rwk_new") and "rwk_new" not in repr(made)
    assert api.requests[-1].json() == {
        "name": "ci", "scopes": ["runs:read"], "expires_at": "2027-01-01T00:00:00+00:00",
    }  # fmt: skip
    api.on("GET /v1/keys", {"data": [KEY], "next": "n"}, {"data": [KEY], "next": None})
    assert [key.name async for key in client.keys.list()] == ["ci", "ci"]
    api.on("POST /v1/keys/k1/rotate", Reply(200, KEY))
    assert (await client.keys.rotate("k1", overlap="1h")).key == "rwk_new"
    assert api.requests[-1].json() == {"overlap": "1h"}
    api.on("GET /v1/keys/k1", KEY)
    assert (await client.keys.get("k1")).prefix == "rwk_n"
    api.on("DELETE /v1/keys/k1", Reply(204))
    await client.keys.delete("k1")
    assert api.requests[-1].method == "DELETE"


async def test_a_key_is_not_made_twice_after_a_broken_connection(api: FakeApi, client: AsyncRewind) -> None:
    api.on("POST /v1/keys", Reply(drop=True))
    with pytest.raises(rewind.ConnectionFailed):
        await client.keys.create("ci")
    assert len(api.requests) == 1


async def test_usage_is_of_all_namespaces_unless_one_is_named(api: FakeApi, client: AsyncRewind) -> None:
    row = {"date": "2026-11-30", "namespace": "a", "runs": 2, "cpu_ms": 7, "calls": 3, "storage_bytes": 1}
    api.on("GET /v1/usage", {"data": [row]})
    (day,) = await client.usage.get()
    assert (day.namespace, day.runs, day.cpu_ms) == ("a", 2, 7)
    assert "namespace" not in api.requests[-1].target
    await client.usage.get(namespace="a", from_=dt.date(2026, 11, 1), to="2026-12-01")
    assert api.requests[-1].target.endswith("?namespace=a&from=2026-11-01&to=2026-12-01")


async def test_the_audit_log(api: FakeApi, client: AsyncRewind) -> None:
    entry = {
        "id": "1",
        "at": "t",
        "actor": {"kind": "key", "id": "k"},
        "action": "key.create",
        "target": "key:1",
    }
    api.on("GET /v1/audit", {"data": [entry], "next": None})
    assert [one.action async for one in client.audit.list(action="key.*", limit=9)] == ["key.create"]
    assert "action=key.%2A" in api.requests[-1].target and "limit=9" in api.requests[-1].target


async def test_quotas(api: FakeApi, client: AsyncRewind) -> None:
    answer = {"active_runs": {"limit": 5, "used": 1, "source": "namespace"}}
    api.on("GET /v1/namespaces/a/quotas", answer)
    assert (await client.namespaces.quotas("a"))["active_runs"].used == 1
    api.on("PATCH /v1/namespaces/a/quotas", answer)
    assert (await client.namespaces.set_quotas("a", {"active_runs": 5, "ttl_max": None}))[
        "active_runs"
    ].limit == 5
    assert api.requests[-1].json() == {"active_runs": 5, "ttl_max": None}
