"""The audit log: written with what it records, by whoever did it, and never changed."""

import json

import asyncpg
import pytest

from sandbox.store.postgres.connection import acquired
from tests.fixtures.api import Api
from tests.fixtures.database import connect


async def lines(api: Api, query: str = "") -> list[dict[str, object]]:
    answer = await api.call("GET", f"/v1/audit?limit=200{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def test_what_a_key_changes_is_recorded_with_who_and_from_where(api: Api) -> None:
    me = (await api.call("GET", "/v1/me")).json()["principal"]["id"]
    made = (await api.call("POST", "/v1/keys", json={"name": "ci", "scopes": ["runs:read"]})).json()
    await api.call("POST", f"/v1/keys/{made['id']}/rotate", json={})
    await api.call("DELETE", f"/v1/keys/{made['id']}")
    found = await lines(api, f"&target=key:{made['id']}")
    assert [line["action"] for line in found] == ["key.revoke", "key.rotate", "key.create"]
    assert {json.dumps(line["actor"]) for line in found} == {json.dumps({"kind": "key", "id": me})}
    assert {line["ip"] for line in found} == {"127.0.0.1"}
    created, rotated, revoked = found[2], found[1], found[0]
    assert created["before"] is None
    assert created["after"]["name"] == "ci"  # type: ignore[index]
    assert created["after"]["scopes"] == ["runs:read"]  # type: ignore[index]
    assert list(rotated["after"]) == ["prefix"]  # type: ignore[call-overload]
    assert revoked["before"] == {"revoked_at": None}
    assert made["key"] not in json.dumps(found)


async def test_every_kind_of_thing_is_recorded_and_no_secret_is(api: Api) -> None:
    await api.call("PUT", "/v1/secrets/stripe", json={"value": "sk_live_very_secret"})
    await api.call("PUT", "/v1/secrets/stripe", json={"value": "sk_live_other_secret"})
    await api.call("DELETE", "/v1/secrets/stripe")
    await api.toolset("support", "echo")
    await api.toolset("support", "echo", "other")
    await api.call("DELETE", "/v1/toolsets/support")
    await api.call("PUT", "/v1/namespaces/acme", json={"labels": {"tier": "gold"}})
    await api.token("acme")
    token = (await api.call("GET", "/v1/tokens")).json()["data"][0]["id"]
    await api.call("DELETE", f"/v1/tokens/{token}")
    hook = (await api.call("POST", "/v1/webhooks", json={"url": "https://example.invalid/"})).json()
    await api.call("PATCH", f"/v1/webhooks/{hook['id']}", json={"enabled": False})
    await api.call("POST", f"/v1/webhooks/{hook['id']}/rotate", json={})
    await api.call("DELETE", f"/v1/webhooks/{hook['id']}")
    found = await lines(api)
    actions = [str(line["action"]) for line in reversed(found)]
    assert actions == [
        "organization.create",
        "key.create",
        "secret.create",
        "secret.update",
        "secret.delete",
        "toolset.create",
        "toolset.update",
        "toolset.delete",
        "namespace.create",
        "namespace.update",
        "token.create",
        "token.revoke",
        "webhook.create",
        "webhook.update",
        "webhook.rotate",
        "webhook.delete",
    ]
    text = json.dumps(found)
    assert "secret" not in text.replace('"secret.', "").replace('"secret:', "")


async def test_reads_and_use_are_nobodys_act(api: Api) -> None:
    before = await lines(api)
    await api.call("GET", "/v1/keys")
    await api.call("GET", "/v1/runs?namespace=nobody")
    assert await lines(api) == before


async def test_filters_pages_and_export(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.call("PUT", f"/v1/secrets/{name}", json={"value": "x"})
    assert [line["target"] for line in await lines(api, "&action=secret.*")] == [
        "secret:c",
        "secret:b",
        "secret:a",
    ]
    assert [line["target"] for line in await lines(api, "&target=secret:b")] == ["secret:b"]
    assert len(await lines(api, "&actor=system:rewind")) == 2
    middle = (await lines(api, "&target=secret:b"))[0]["at"]
    assert "secret:a" not in [line["target"] for line in await lines(api, f"&from={middle}")]
    assert "secret:c" not in [line["target"] for line in await lines(api, f"&to={middle}")]
    whole = [line["id"] for line in await lines(api)]
    paged, after = [], ""
    while True:
        page = (await api.call("GET", f"/v1/audit?limit=2{after}")).json()
        paged += [line["id"] for line in page["data"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert paged == whole
    for options in ({"headers": {"accept": "application/x-ndjson"}}, {"params": {"format": "ndjson"}}):
        export = await api.call("GET", "/v1/audit", **options)
        assert export.headers["content-type"].startswith("application/x-ndjson")
        told = [json.loads(line) for line in export.text.splitlines()]
        assert [line["id"] for line in told if line["action"] != "audit.export"] == whole
    assert [line["action"] for line in await lines(api, "&action=audit.*")] == ["audit.export"] * 2
    for bad in ("from=yesterday", "after=zzz", "format=csv", "limit=0", "actor=%00"):
        assert (await api.call("GET", f"/v1/audit?{bad}")).status_code == 400


async def test_what_is_rolled_back_is_not_recorded(api: Api) -> None:
    before = await lines(api)
    refused = await api.call("POST", "/v1/keys", json={"name": "x", "scopes": ["no such"]})
    assert refused.status_code == 400
    with pytest.raises(RuntimeError, match="afterwards"):
        async with acquired(api.store.pool) as connection, connection.transaction():
            await connection.execute(
                "update organizations set suspended_at = 1 where id = $1", api.organization
            )
            raise RuntimeError("afterwards")
    assert await lines(api) == before


@pytest.mark.parametrize("role", ["rewind_api", "rewind_request", "rewind_worker", "rewind_retention"])
@pytest.mark.parametrize(
    "sql", ["update audit_log set action = 'x'", "delete from audit_log", "truncate audit_log"]
)
async def test_nobody_changes_the_log(shared_database_url: str, role: str, sql: str) -> None:
    connection = await connect(shared_database_url, role)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(sql)
    await connection.close()
