"""Every call that changes something leaves a line in the audit log when a person makes it, or is listed with a reason."""

import json
from typing import Any

from app.openapi import openapi_of
from app.routing import SAFE_METHODS
from sandbox.journal.entries import Actor
from sandbox.store.postgres.connection import acquired
from tests.app.test_people import Browser
from tests.fixtures.api import SCRIPT, Api

Call = tuple[str, str]

UNAUDITED: dict[Call, str] = {
    (
        "POST",
        "/v1/tasks/claim",
    ): "host-tool workers, with keys and tokens only; outcomes stand in the journal",
    ("POST", "/v1/tasks/complete"): "likewise",
    ("POST", "/v1/tasks/fail"): "likewise",
    ("POST", "/v1/tasks/heartbeat"): "likewise",
    ("POST", "/v1/tasks/defer"): "likewise",
    ("POST", "/v1/tasks/release"): "likewise",
    (
        "POST",
        "/v1/scripts/check",
    ): "says what is wrong with a text; the script it keeps is listed with its time",
    ("POST", "/v1/scripts/test"): "calls nothing and stores nothing",
}
REASON = {"reason": "asked for"}
TOOLS = [{"name": "echo", "description": "", "input_schema": {"type": "object"}}]
STEPS: list[tuple[str, str, Any, str]] = [
    ("POST", "/v1/runs", {"script": SCRIPT}, "run.start"),
    ("POST", "/v1/runs/batch", {"items": [{"script": SCRIPT}]}, "run.start"),
    ("POST", "/v1/runs/{run}/signals", {"name": "go"}, "run.signal"),
    ("POST", "/v1/runs/{run}/approvals/{call}", {"decision": "denied"}, "approval.deny"),
    ("POST", "/v1/approvals/decide", {"items": [{"run": "RUN", "call": 2, "decision": "approved"}]}, "approval.approve"),
    ("POST", "/v1/runs/{ended}/replay", {}, "run.replay"),
    ("POST", "/v1/runs/{parent}/fork", {}, "run.fork"),
    ("POST", "/v1/runs/{run}/cancel", {}, "run.cancel"),
    ("POST", "/v1/runs/cancel", {"filter": {}, "reason": "all"}, "runs.cancel"),
    ("POST", "/v1/runs/{stuck}/release", REASON, "run.release"),
    ("POST", "/v1/runs/{lost}/abandon", REASON, "run.abandon"),
    ("POST", "/v1/runs/{ended}/redact", {"seq": 0, "field": "input", **REASON}, "run.redact"),
    ("DELETE", "/v1/runs/{ended}", None, "run.delete"),
    ("POST", "/v1/toolsets", {"name": "other", "tools": TOOLS}, "toolset.create"),
    ("POST", "/v1/toolsets/{name}/refresh", {"accept": True}, "toolset.refresh"),
    ("PUT", "/v1/workflows/{workflow}", {"script": SCRIPT}, "workflow.create"),
    ("DELETE", "/v1/workflows/{workflow}", None, "workflow.delete"),
    ("DELETE", "/v1/toolsets/{name}", None, "toolset.delete"),
    ("POST", "/v1/tokens", {"namespace": "acme"}, "token.create"),
    ("DELETE", "/v1/tokens/{token}", None, "token.revoke"),
    ("PUT", "/v1/secrets/{secret}", {"value": "x"}, "secret.create"),
    ("DELETE", "/v1/secrets/{secret}", None, "secret.delete"),
    ("POST", "/v1/keys", {"name": "ci"}, "key.create"),
    ("POST", "/v1/keys/{key}/rotate", {}, "key.rotate"),
    ("DELETE", "/v1/keys/{key}", None, "key.revoke"),
    ("POST", "/v1/webhooks", {"url": "https://example.invalid/"}, "webhook.create"),
    ("PATCH", "/v1/webhooks/{webhook}", {"events": ["run.failed"]}, "webhook.update"),
    ("POST", "/v1/webhooks/{webhook}/rotate", {}, "webhook.rotate"),
    ("POST", "/v1/webhooks/{webhook}/ping", None, "webhook.ping"),
    ("POST", "/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver", None, "webhook.redeliver"),
    ("POST", "/v1/webhooks/{webhook}/redeliver", {}, "webhook.redeliver"),
    ("DELETE", "/v1/webhooks/{webhook}", None, "webhook.delete"),
    ("PUT", "/v1/namespaces/{namespace}", {"labels": {"tier": "gold"}}, "namespace.update"),
    ("PATCH", "/v1/namespaces/{namespace}/quotas", {"active_runs": 50}, "quotas.create"),
    ("POST", "/v1/namespaces/{namespace}/export", None, "namespace.export"),
    ("POST", "/v1/namespaces/{namespace}/suspend", None, "namespace.suspend"),
    ("POST", "/v1/namespaces/{namespace}/resume", None, "namespace.resume"),
    ("DELETE", "/v1/namespaces/{namespace}", None, "namespace.delete"),
]  # fmt: skip
"""In an order in which each finds what it needs: (method, path with places, body, action that it leaves)."""
PLACES = {
    "{ended}": "{run}", "{parent}": "{run}", "{stuck}": "{run}", "{lost}": "{run}", "{secret}": "{name}", "{namespace}": "{name}",
}  # fmt: skip
"""What the document calls them."""
MANAGED = (
    "/v1/webhooks",
    "/v1/toolsets",
    "/v1/keys",
    "/v1/tokens",
    "/v1/secrets",
    "/v1/namespaces",
    "/v1/workflows",
)


def filled(pattern: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        pattern = pattern.replace(place, value)
    return pattern


async def test_the_table_has_every_call_that_changes_something(api: Api) -> None:
    document = openapi_of(api.app, "1")()
    declared = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/v1/") and method.upper() not in SAFE_METHODS
    }
    listed = set()
    for method, path, _, _ in STEPS:
        listed.add((method, filled(path, PLACES)))
    assert declared == listed | set(UNAUDITED)
    assert listed.isdisjoint(UNAUDITED)


async def finished(api: Api, **fields: Any) -> str:
    run = await api.start(**fields)
    puppet = await api.puppet(run["id"])
    await puppet.append_log("x")
    await puppet.complete(1)
    return str(run["id"])


async def world(api: Api) -> dict[str, str]:
    """One of everything, in the namespace `acme`, made by a key."""
    await api.toolset("support", "echo")
    run = await api.start(toolset="support")
    puppet = await api.puppet(run["id"])
    for number in (1, 2):
        await puppet.call_tool("echo", {"x": number}, gated=True)
    parent, ended = [await finished(api, input={"card": card}) for card in ("4000", "4111")]
    api.desk.plan = {"report": {"reused": {"calls": 0, "signals": 0, "timers": 0}, "dropped": [], "diverged_at": None}, "gone": None}  # fmt: skip
    drilled = [(await api.start())["id"] for _ in range(2)]
    for one in drilled:
        await api.services.quarantine.quarantine(one, "a drill", by=Actor("operator", "x"))
    await api.token("acme")
    hook = (await api.call("POST", "/v1/webhooks", json={"url": "https://example.invalid/"})).json()["id"]
    await api.call("POST", f"/v1/webhooks/{hook}/ping")
    await api.services.hooks.projector.project_recorded()
    key = (await api.call("POST", "/v1/keys", json={"name": "spare"})).json()["id"]
    return {
        "{run}": run["id"],
        "{ended}": ended,
        "{parent}": parent,
        "{stuck}": drilled[0],
        "{lost}": drilled[1],
        "{call}": "1",
        "{name}": "support",
        "{workflow}": "onboard",
        "{token}": (await api.call("GET", "/v1/tokens")).json()["data"][0]["id"],
        "{secret}": "stripe",
        "{key}": key,
        "{webhook}": hook,
        "{delivery}": (await api.call("GET", f"/v1/webhooks/{hook}/deliveries")).json()["data"][0]["id"],
        "{namespace}": "acme",
    }


async def owner(api: Api) -> tuple[Browser, str]:
    """A person who owns the organization, signed in."""
    browser = Browser(api)
    await browser.sign_up("owner@example.com", "Own")
    async with acquired(api.store.pool) as connection:
        person = await connection.fetchval(
            "insert into members (organization_id, person_id, role, created_at) "
            "select $1, id, 'owner', 0 from people where email = 'owner@example.com' returning person_id",
            api.organization,
        )
    return browser, str(person)


async def newer(api: Api, than: str | None) -> list[dict[str, Any]]:
    """Lines of the audit log since, the oldest first."""
    found = (await api.call("GET", "/v1/audit?limit=200")).json()["data"]
    return [line for line in reversed(found) if than is None or line["id"] > than]


async def test_a_persons_changes_are_in_the_log(own_api: Api) -> None:
    api = own_api
    places = await world(api)
    browser, person = await owner(api)
    headers = {"x-csrf-token": await browser.csrf()}
    missing = []
    for method, pattern, body, action in STEPS:
        path = filled(pattern, places)
        text = json.dumps(body).replace("RUN", places["{run}"])
        last = (await newer(api, None))[-1]["id"]
        answer = await browser.client.request(
            method,
            f"{path}?organization={api.organization}" + ("" if "/namespaces/" in path else "&namespace=acme"),
            content=None if body is None else text,
            headers={**headers, **({} if body is None else {"content-type": "application/json"})},
        )
        assert answer.status_code < 300, (method, path, answer.text)
        lines = await newer(api, last)
        of_person = [line for line in lines if line["actor"] == {"kind": "member", "id": person}]
        if action not in [line["action"] for line in of_person]:
            missing.append((method, path, action, [(line["action"], line["actor"]) for line in lines]))
        assert all(line["ip"] == "198.51.100.7" for line in of_person), (method, path)
    assert missing == []
    await browser.client.aclose()


async def test_a_keys_changes_of_what_it_manages_are_in_the_log(own_api: Api) -> None:
    api = own_api
    places = await world(api)
    me = (await api.call("GET", "/v1/me")).json()["principal"]["id"]
    missing = []
    for method, pattern, body, action in STEPS:
        if not pattern.startswith(MANAGED):
            continue
        path = filled(pattern, places)
        last = (await newer(api, None))[-1]["id"]
        query = "" if "/namespaces/" in path else "?namespace=acme"
        options = {} if body is None else {"json": body}
        answer = await api.call(method, path + query, **options)
        assert answer.status_code < 300, (method, path, answer.text)
        lines = await newer(api, last)
        if (action, "key", me) not in {
            (line["action"], line["actor"]["kind"], line["actor"]["id"]) for line in lines
        }:
            missing.append((method, path, action))
    assert missing == []


async def test_a_tokens_decision_is_in_the_log_that_it_cannot_read(own_api: Api) -> None:
    api = own_api
    places = await world(api)
    token = await api.token("acme", ["runs:read", "approvals:write"])
    path = f"/v1/runs/{places['{run}']}/approvals/1"
    assert (await api.call("POST", path, json={"decision": "approved"}, secret=token)).status_code == 200
    line = (await newer(api, None))[-1]
    assert (line["action"], line["actor"]["kind"], line["target"]) == (
        "approval.approve", "token", f"run:{places['{run}']}"
    )  # fmt: skip
    assert line["after"] == {"status": "approved", "call": 1, "tool": "echo"}
    assert (await api.call("GET", "/v1/audit", secret=token)).status_code == 403


async def test_reads_of_values_by_people_and_exports_are_in_the_log(own_api: Api) -> None:
    api = own_api
    places = await world(api)
    browser, _ = await owner(api)
    run, hook = places["{ended}"], places["{webhook}"]
    reads = {
        f"/v1/runs/{run}": "run.read",
        "/v1/runs": "run.list",
        f"/v1/runs/{run}/output": "run.read_output",
        f"/v1/runs/{run}/journal": "run.read_journal",
        "/v1/approvals": "approval.list",
        f"/v1/runs/{places['{run}']}/approvals": "run.read_approvals",
        f"/v1/runs/{places['{run}']}/approvals/1": "run.read_approvals",
        "/v1/events": "event.list",
        f"/v1/webhooks/{hook}/deliveries": "webhook.read_deliveries",
        f"/v1/webhooks/{hook}/deliveries/{places['{delivery}']}": "webhook.read_deliveries",
        "/v1/audit?format=ndjson": "audit.export",
    }
    for path, action in reads.items():
        last = (await newer(api, None))[-1]["id"]
        glue = "&" if "?" in path else "?"
        space = "" if "audit" in path or "webhooks" in path else "&namespace=acme"
        answer = await browser.get(f"{path}{glue}organization={api.organization}{space}")
        assert answer.status_code == 200, (path, answer.text)
        assert [line["action"] for line in await newer(api, last)] == [action], path
    last = (await newer(api, None))[-1]["id"]
    assert (await browser.get(f"/organization/export?organization={api.organization}")).status_code == 200
    assert [line["action"] for line in await newer(api, last)] == ["organization.export"]
    await browser.client.aclose()


async def test_a_key_used_from_elsewhere_is_in_the_log(own_api: Api) -> None:
    api = own_api
    made = (
        await api.call("POST", "/v1/keys", json={"name": "office", "allow_ips": ["203.0.113.0/24"]})
    ).json()
    for _ in range(3):
        refused = await api.call("GET", "/v1/me", secret=made["key"])
        assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
    found = [line for line in await newer(api, None) if line["action"] == "key.refused"]
    assert [(line["target"], line["ip"], line["after"]) for line in found] == [
        (f"key:{made['id']}", "127.0.0.1", {"because": "allow_ips"})
    ], "once a minute, not once a request"
