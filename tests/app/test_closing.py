"""An organization ends: closed at once, restored within 30 days, then erased; and what it takes along before."""

import json
import re

from sandbox.journal.ids import NamespaceId
from sandbox.store.postgres.connection import acquired
from tests.app.test_people import PASSWORD, Browser, link, mails
from tests.fixtures.api import SCRIPT, Api
from tests.fixtures.database import Clock

DAY_MS = 86_400_000


async def with_key(browser: Browser, organization: str) -> str:
    made = await browser.post(f"/keys?organization={organization}", {"do": "create", "name": "prod"})
    found = re.search(r"rwk_\w+", made.text)
    assert found is not None
    return found[0]


async def close(browser: Browser, organization: str, **fields: str) -> int:
    given = {"named": "Acme", "password": PASSWORD, **fields}
    return (await browser.post(f"/organization?organization={organization}", given)).status_code


async def test_closed_restored_closed_purged(own_api: Api, clock: Clock) -> None:
    owner, admin = Browser(own_api), Browser(own_api)
    organization = await owner.sign_up("own@example.com")
    await owner.post(
        f"/members?organization={organization}", {"do": "invite", "email": "ad@example.com", "role": "admin"}
    )
    await admin.post(await link(own_api, "ad@example.com"), {"password": PASSWORD})
    key = await with_key(owner, organization)
    started = await own_api.call(
        "POST", "/v1/runs", secret=key, json={"script": SCRIPT, "namespace": "u", "input": {"a": 1}}
    )
    assert started.status_code == 201
    assert await close(admin, organization) == 403
    assert await close(owner, organization, named="acme") == 400
    assert await close(owner, organization, password="not the password") == 401
    assert await close(owner, organization) == 303
    own_api.services.authenticator.forget()
    refused = await own_api.call("GET", "/v1/me", secret=key)
    assert (refused.status_code, refused.json()["code"]) == (403, "organization_suspended")
    assert (await owner.get(f"/members?organization={organization}")).status_code == 403
    assert "own@example.com closed Acme" in (await mails(own_api, "own@example.com"))[0]
    csrf = {"csrf": await admin.csrf(), "organization": organization}
    assert (await admin.client.post("/organization/restore", data=csrf)).status_code == 404
    clock.advance(29 * DAY_MS // 5)
    assert await own_api.services.pages.closing.purge_due(own_api.store.erase_namespace) == 0
    assert "Restore" in (await owner.get("/organizations")).text
    csrf = {"csrf": await owner.csrf(), "organization": organization}
    assert (await owner.client.post("/organization/restore", data=csrf)).status_code == 303
    own_api.services.authenticator.forget()
    assert (await own_api.call("GET", "/v1/me", secret=key)).status_code == 200
    assert await close(owner, organization) == 303
    clock.advance(30 * DAY_MS + 1)
    assert await own_api.services.pages.closing.purge_due(own_api.store.erase_namespace) == 1
    assert await own_api.services.pages.closing.purge_due(own_api.store.erase_namespace) == 0
    own_api.services.authenticator.forget()
    assert (await own_api.call("GET", "/v1/me", secret=key)).status_code == 401
    await owner.log_in("own@example.com")
    assert "You belong to no organization" in (await owner.get("/organizations")).text
    csrf = {"csrf": await owner.csrf(), "organization": organization}
    assert (await owner.client.post("/organization/restore", data=csrf)).status_code == 404
    async with acquired(own_api.store.pool) as connection:
        rows = await connection.fetch(
            "select k.wrapped, k.destroyed_at from namespaces n join namespace_keys k on k.namespace_id = n.id "
            "where n.organization_id = $1",
            organization,
        )
        actions = await connection.fetch(
            "select action from audit_log where organization_id = $1 order by at, id", organization
        )
    assert [row["wrapped"] for row in rows] == [None]
    told = [row["action"] for row in actions if row["action"].split(".")[1] in {"close", "restore", "purge"}]
    assert told == ["organization.close", "organization.restore", "organization.close", "organization.purge"]


async def test_a_purge_that_died_goes_on(own_api: Api, clock: Clock) -> None:
    owner = Browser(own_api)
    organization = await owner.sign_up("own@example.com")
    key = await with_key(owner, organization)
    for name in ("a", "b"):
        made = await own_api.call("PUT", f"/v1/namespaces/{name}", secret=key, json={})
        assert made.status_code in {200, 201}
    await close(owner, organization)
    clock.advance(30 * DAY_MS + 1)
    erased: list[str] = []

    async def dies(namespace: NamespaceId) -> int:
        if erased:
            raise ConnectionError("killed")
        erased.append(namespace)
        return await own_api.store.erase_namespace(namespace)

    closing = own_api.services.pages.closing
    try:
        await closing.purge_due(dies)
    except ConnectionError:
        erased.append("died")
    assert erased[1:] == ["died"]
    assert await closing.purge_due(own_api.store.erase_namespace) == 1


async def test_an_organization_takes_everything_along(own_api: Api) -> None:
    owner = Browser(own_api)
    organization = await owner.sign_up("own@example.com")
    key = await with_key(owner, organization)
    tools = [{"name": "echo", "description": "", "input_schema": {"type": "object"}}]
    for method, path, body in (
        ("PUT", "/v1/namespaces/user-1", {"labels": {"plan": "pro"}}),
        ("POST", "/v1/toolsets", {"name": "support", "tools": tools}),
        ("POST", "/v1/webhooks", {"url": "https://hooks.example/x"}),
        ("POST", "/v1/tokens", {"namespace": "user-1"}),
    ):
        answer = await own_api.call(method, path, secret=key, json=body)
        assert answer.status_code in {200, 201}, answer.text
    other = Browser(own_api)
    await other.sign_up("other@example.com", "Other")
    file = await owner.get(f"/organization/export?organization={organization}")
    assert file.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in file.text.splitlines()]
    by_kind = {line["type"]: line for line in lines}
    assert lines[0] == {"type": "organization", "id": organization, "name": "Acme"}
    assert lines[-1] == {"type": "end", "lines": len(lines) - 1}
    assert by_kind["member"]["email"] == "own@example.com"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", by_kind["member"]["created_at"])
    assert by_kind["api_key"]["prefix"] == key[: len(by_kind["api_key"]["prefix"])]
    assert by_kind["toolset"]["definition"]["tools"]
    assert by_kind["webhook_endpoint"]["url"] == "https://hooks.example/x"
    assert by_kind["token"]["namespace"] == "user-1"
    assert by_kind["namespace"]["labels"] == {"plan": "pro"}
    assert by_kind["namespace"]["export"] == "http://rewind.test/v1/namespaces/user-1/export"
    for secret in (key, "other@example.com", "secret_sha256", "whsec_"):
        assert secret not in file.text
    assert (await other.get(f"/organization/export?organization={organization}")).status_code == 404
    assert (
        await Browser(own_api).get(f"/organization/export?organization={organization}")
    ).status_code == 303
