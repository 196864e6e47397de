"""Every endpoint as nobody, as another organization, as another namespace, and without the scope."""

from typing import Any

import pytest

from app.openapi import openapi_of
from tenancy.principals import TOKEN_SCOPES, Scope
from tests.fixtures.api import SCRIPT, Api

DIGEST = "sha256:" + "0" * 64
# (method, path, body, answer to a stranger's key: 404, or 200 with nothing of ours in it)
CALLS: list[tuple[str, str, Any, int]] = [
    ("POST", "/v1/runs", {"script": DIGEST}, 404),
    ("GET", "/v1/runs", None, 404),
    ("GET", "/v1/runs/{run}", None, 404),
    ("GET", "/v1/runs/{run}/output", None, 404),
    ("GET", "/v1/runs/{run}/journal", None, 404),
    ("GET", "/v1/runs/{run}/events", None, 404),
    ("POST", "/v1/runs/batch", {"items": [{"script": DIGEST}]}, 200),
    ("GET", "/v1/runs/{run}/seal", None, 404),
    ("GET", "/v1/approvals", None, 404),
    ("POST", "/v1/approvals/decide", {"items": [{"run": "RUN", "call": 2, "decision": "denied"}]}, 200),
    ("GET", "/v1/runs/{run}/approvals", None, 404),
    ("GET", "/v1/runs/{run}/approvals/{call}", None, 404),
    ("POST", "/v1/runs/{run}/approvals/{call}", {"decision": "denied"}, 404),
    ("GET", "/v1/runs/{run}/values/{sha256}", None, 404),
    ("POST", "/v1/runs/{run}/replay", {}, 404),
    ("GET", "/v1/runs/{run}/replays/{replay}", None, 404),
    ("POST", "/v1/scripts/test", {"script": DIGEST}, 404),
    ("POST", "/v1/runs/{run}/signals", {"name": "go"}, 404),
    ("POST", "/v1/runs/{run}/cancel", {}, 404),
    ("POST", "/v1/runs/cancel", {"filter": {}, "reason": "all"}, 404),
    ("POST", "/v1/runs/{run}/redact", {"seq": 0, "field": "input", "reason": "asked"}, 404),
    ("DELETE", "/v1/runs/{run}", None, 404),
    ("POST", "/v1/runs/{run}/release", {"reason": "tried"}, 404),
    ("POST", "/v1/runs/{run}/abandon", {"reason": "tried"}, 404),
    ("POST", "/v1/runs/{run}/fork", {"dry_run": True}, 404),
    ("POST", "/v1/scripts/check", {"script": DIGEST}, 404),
    ("GET", "/v1/scripts", None, 404),
    ("GET", "/v1/scripts/{digest}", None, 404),
    ("POST", "/v1/toolsets", {"name": "support", "tools": []}, 201),
    ("GET", "/v1/toolsets", None, 200),
    ("GET", "/v1/toolsets/{name}", None, 404),
    ("GET", "/v1/toolsets/{name}/declarations", None, 404),
    ("GET", "/v1/toolsets/{name}/search", None, 404),
    ("DELETE", "/v1/toolsets/{name}", None, 404),
    ("POST", "/v1/toolsets/{name}/refresh", {"accept": True}, 404),
    ("PUT", "/v1/workflows/{workflow}", {"script": SCRIPT}, 200),
    ("GET", "/v1/workflows", None, 200),
    ("GET", "/v1/workflows/{workflow}", None, 404),
    ("GET", "/v1/workflows/{workflow}/versions", None, 404),
    ("DELETE", "/v1/workflows/{workflow}", None, 404),
    ("POST", "/v1/tokens", {"namespace": "acme"}, 201),
    ("GET", "/v1/tokens", None, 404),
    ("GET", "/v1/tokens/{token}", None, 404),
    ("DELETE", "/v1/tokens/{token}", None, 404),
    ("PUT", "/v1/secrets/{name}", {"value": "x"}, 200),
    ("GET", "/v1/secrets", None, 404),
    ("GET", "/v1/secrets/{name}", None, 404),
    ("DELETE", "/v1/secrets/{name}", None, 404),
    ("POST", "/v1/keys", {}, 201),
    ("GET", "/v1/keys", None, 200),
    ("GET", "/v1/keys/{key}", None, 404),
    ("POST", "/v1/keys/{key}/rotate", {}, 404),
    ("DELETE", "/v1/keys/{key}", None, 404),
    ("POST", "/v1/webhooks", {"url": "https://example.com/"}, 201),
    ("GET", "/v1/webhooks", None, 200),
    ("GET", "/v1/webhooks/{webhook}", None, 404),
    ("PATCH", "/v1/webhooks/{webhook}", {"enabled": False}, 404),
    ("DELETE", "/v1/webhooks/{webhook}", None, 404),
    ("POST", "/v1/webhooks/{webhook}/rotate", {}, 404),
    ("POST", "/v1/webhooks/{webhook}/ping", None, 404),
    ("GET", "/v1/webhooks/{webhook}/deliveries", None, 404),
    ("GET", "/v1/webhooks/{webhook}/deliveries/{delivery}", None, 404),
    ("POST", "/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver", None, 404),
    ("POST", "/v1/webhooks/{webhook}/redeliver", {}, 404),
    ("GET", "/v1/events", None, 404),
    ("GET", "/v1/namespaces/{name}/quotas", None, 404),
    ("PATCH", "/v1/namespaces/{name}/quotas", {"active_runs": 5}, 404),
    ("GET", "/v1/usage", None, 404),
    ("GET", "/v1/audit", None, 200),
    ("PUT", "/v1/namespaces/{name}", {}, 200),
    ("GET", "/v1/namespaces/{name}", None, 404),
    ("GET", "/v1/namespaces", None, 200),
    ("GET", "/v1/namespaces/{name}/seals", None, 404),
    ("POST", "/v1/namespaces/{name}/suspend", None, 404),
    ("POST", "/v1/namespaces/{name}/resume", None, 404),
    ("POST", "/v1/namespaces/{name}/export", None, 404),
    ("DELETE", "/v1/namespaces/{name}", None, 404),
    ("POST", "/v1/tasks/claim", {"max": 1}, 200),
    ("POST", "/v1/tasks/complete", {"items": [{"token": "TASK", "result": 1}]}, 200),
    ("POST", "/v1/tasks/fail", {"items": [{"token": "TASK", "error": {"message": "x"}}]}, 200),
    ("POST", "/v1/tasks/heartbeat", {"items": [{"token": "TASK"}]}, 200),
    ("POST", "/v1/tasks/defer", {"items": [{"token": "TASK"}]}, 200),
    ("POST", "/v1/tasks/release", {"items": [{"token": "TASK"}]}, 200),
]
IDS = [f"{method} {path}" for method, path, _, _ in CALLS]
every_call = pytest.mark.parametrize(("method", "path", "body", "stranger"), CALLS, ids=IDS)


class World:
    """Objects of one organization, in the namespace `acme`."""

    def __init__(self, api: Api, places: dict[str, str], task: str) -> None:
        self.api = api
        self.places = places
        self._task = task

    async def call(
        self, method: str, path: str, body: Any, secret: str, query: str = "?namespace=acme"
    ) -> Any:
        if path.startswith("/v1/namespaces"):
            path = path.replace("{name}", "acme")
        if path.endswith("/search"):
            query += "&q=echo" if query else "?q=echo"
        for place, value in self.places.items():
            path = path.replace(place, value)
        if path == "/v1/approvals/decide":
            body = {"items": [{**item, "run": self.places["{run}"]} for item in body["items"]]}
        if path.startswith("/v1/tasks/") and "items" in body:
            body = {"items": [{**item, "token": self._task} for item in body["items"]]}
        options = {} if body is None else {"json": body}
        return await self.api.call(method, path + query, secret=secret, **options)


@pytest.fixture
async def world(api: Api) -> World:
    await api.toolset("support", "echo")
    run = await api.start(toolset="support")
    puppet = await api.puppet(run["id"])
    await puppet.call_tool("echo", {"x": 1})
    claimed = await api.call("POST", "/v1/tasks/claim", json={"max": 1})
    task = claimed.json()["tasks"][0]["token"]
    await puppet.call_tool("echo", {"x": 2}, gated=True)
    assert (await api.call("PUT", "/v1/workflows/onboard", json={"script": SCRIPT})).status_code == 200
    await api.token("acme")
    token = (await api.call("GET", "/v1/tokens")).json()["data"][0]["id"]
    hook = (await api.call("POST", "/v1/webhooks", json={"url": "https://example.invalid/"})).json()["id"]
    await api.call("POST", f"/v1/webhooks/{hook}/ping")
    await api.services.hooks.projector.project_recorded()
    delivery = (await api.call("GET", f"/v1/webhooks/{hook}/deliveries")).json()["data"][0]["id"]
    places = {
        "{run}": run["id"],
        "{call}": "2",
        "{digest}": run["script"],
        "{name}": "support",
        "{workflow}": "onboard",
        "{token}": token,
        "{key}": (await api.call("GET", "/v1/keys")).json()["data"][0]["id"],
        "{webhook}": hook,
        "{delivery}": delivery,
    }
    return World(api, places, task)


async def test_the_table_has_every_endpoint(api: Api) -> None:
    document = openapi_of(api.app, "1")()
    declared = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/v1/")
    }
    covered = {(method, path) for method, path, _, _ in CALLS}
    assert {(method, path.replace("{reference}", "{name}")) for method, path in declared} == covered | {
        ("GET", "/v1/me")
    }


@every_call
async def test_nobody(world: World, method: str, path: str, body: Any, stranger: int) -> None:
    answer = await world.call(method, path, body, secret="")
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthenticated"
    assert answer.headers["www-authenticate"] == "Bearer"


@every_call
async def test_an_unknown_secret(world: World, method: str, path: str, body: Any, stranger: int) -> None:
    answer = await world.call(method, path, body, secret="rwk_" + "0" * 49)
    assert answer.status_code == 401


@every_call
async def test_another_organization(world: World, method: str, path: str, body: Any, stranger: int) -> None:
    answer = await world.call(method, path, body, secret=await world.api.other_organization())
    assert answer.status_code == stranger, answer.text
    if path.startswith("/v1/tasks/") and path != "/v1/tasks/claim":
        assert [result["code"] for result in answer.json()["results"]] == ["unknown_token"]
    elif method == "GET" and path == "/v1/keys":
        assert world.api.key[:12] not in answer.text
        assert len(answer.json()["data"]) == 1
    elif path == "/v1/audit":
        assert {line["action"] for line in answer.json()["data"]} == {"organization.create", "key.create"}
    elif method == "GET" and stranger == 200:
        assert answer.json() == {"data": [], "next": None}
    elif path == "/v1/tasks/claim":
        assert answer.json() == {"tasks": []}
    elif path == "/v1/approvals/decide":
        assert [result["code"] for result in answer.json()["results"]] == ["not_found"]
    elif path == "/v1/runs/batch":
        assert [result["problem"]["code"] for result in answer.json()["results"]] == ["not_found"]


@every_call
async def test_another_namespace(world: World, method: str, path: str, body: Any, stranger: int) -> None:
    secret = await world.api.token("other", [str(scope) for scope in TOKEN_SCOPES])
    query = "" if path.startswith("/v1/tasks/") else "?namespace=acme"
    answer = await world.call(method, path, body, secret=secret, query=query)
    if ("toolsets" in path or "workflows" in path) and method == "GET":
        assert answer.status_code == 200  # these belong to the organization
    elif path.startswith(
        (
            "/v1/tokens",
            "/v1/namespaces",
            "/v1/toolsets",
            "/v1/workflows",
            "/v1/secrets",
            "/v1/webhooks",
            "/v1/events",
            "/v1/audit",
            "/v1/keys",
            "/v1/usage",
        )
    ) or path.endswith(("{run}/release", "{run}/abandon", "{run}/redact")):
        assert answer.status_code == (404 if path.endswith("/seals") else 403)
    elif (method, path) == ("DELETE", "/v1/runs/{run}"):
        assert answer.status_code == 403
    elif path == "/v1/tasks/claim":
        assert answer.json() == {"tasks": []}
    elif path.startswith("/v1/tasks/"):
        assert [result["code"] for result in answer.json()["results"]] == ["unknown_token"]
    elif path == "/v1/approvals/decide":
        assert [result["code"] for result in answer.json()["results"]] == ["not_found"]
    elif path == "/v1/runs/batch":
        assert [result["problem"]["code"] for result in answer.json()["results"]] == ["not_found"]
    else:
        assert answer.status_code == 404
        without = await world.call(method, path, body, secret=secret, query="")
        if "{run}" in path or "{digest}" in path:
            assert without.status_code == 404
        elif method == "GET":
            assert without.json() == {"data": [], "next": None}


@every_call
async def test_without_the_scope(world: World, method: str, path: str, body: Any, stranger: int) -> None:
    document = openapi_of(world.api.app, "1")()
    needed = document["paths"][path][method.lower()]["x-required-scope"]
    others = [str(scope) for scope in TOKEN_SCOPES if scope != needed]
    secret = await world.api.token("acme", others)
    answer = await world.call(method, path, body, secret=secret)
    assert answer.status_code == 403
    assert answer.json()["code"] == "insufficient_scope"
    assert needed in answer.json()["detail"]


async def test_the_scope_is_judged_before_the_body(api: Api) -> None:
    secret = await api.token("acme", ["runs:read"])
    answer = await api.call(
        "POST", "/v1/runs", secret=secret, content=b"{", headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 403


async def test_a_revoked_token_is_refused(api: Api) -> None:
    secret = await api.token("acme")
    assert (await api.call("GET", "/v1/runs", secret=secret)).status_code == 200
    (listed,) = (await api.call("GET", "/v1/tokens")).json()["data"]
    assert (await api.call("DELETE", f"/v1/tokens/{listed['id']}")).status_code == 204
    assert (await api.call("GET", "/v1/runs", secret=secret)).status_code == 401
    assert (await api.call("DELETE", f"/v1/tokens/{listed['id']}")).status_code == 404


@pytest.mark.parametrize(
    ("narrow", "body", "status"),
    [
        ({"toolset": "support"}, {"script": SCRIPT, "toolset": "support"}, 201),
        ({"toolset": "support"}, {"script": SCRIPT, "toolset": "other"}, 403),
        ({"toolset": "support"}, {"script": SCRIPT}, 403),
        ({"workflows": ["onboard"]}, {"script": SCRIPT}, 403),
        ({"workflows": ["onboard"]}, {"workflow": "onboard"}, 422),
        ({"run": "01890000-0000-7000-8000-000000000000"}, {"script": SCRIPT}, 403),
    ],
)
async def test_what_a_narrowed_token_may_start(
    api: Api, narrow: dict[str, Any], body: dict[str, Any], status: int
) -> None:
    await api.toolset("support")
    secret = await api.token("acme", narrow=narrow)
    answer = await api.call("POST", "/v1/runs", secret=secret, json=body)
    assert answer.status_code == status, answer.text


async def test_a_token_for_one_run_sees_no_other(api: Api) -> None:
    one, other = await api.start(), await api.start()
    secret = await api.token(
        "acme", ["runs:read", "signals:write", "tasks:work"], narrow={"run": one["id"], "signals": ["go"]}
    )
    assert (await api.call("GET", f"/v1/runs/{one['id']}", secret=secret)).status_code == 200
    assert (await api.call("GET", f"/v1/runs/{other['id']}", secret=secret)).status_code == 404
    listed = await api.call("GET", "/v1/runs", secret=secret)
    assert [run["id"] for run in listed.json()["data"]] == [one["id"]]
    for run, name, status in [(one, "go", 202), (one, "stop", 403), (other, "go", 404)]:
        answer = await api.call("POST", f"/v1/runs/{run['id']}/signals", secret=secret, json={"name": name})
        assert answer.status_code == status
    claim = await api.call("POST", "/v1/tasks/claim", secret=secret, json={"max": 1})
    assert claim.status_code == 403


def test_an_agent_must_not_approve_itself_by_default() -> None:
    from tenancy.principals import TOKEN_SCOPES_DEFAULT

    assert set(TOKEN_SCOPES_DEFAULT).isdisjoint({Scope.APPROVALS_WRITE, Scope.TASKS_WORK, Scope.MANAGE})
