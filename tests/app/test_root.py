"""What is at the root: health, documents."""

import re

import pytest

from app.openapi import openapi_of
from sandbox.journal.errors import Unavailable
from sandbox.store.postgres.connection import acquired
from tests.fixtures.api import Api


async def test_healthz_needs_nothing(api: Api) -> None:
    answer = await api.call("GET", "/healthz", secret="")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_readyz_needs_a_live_worker_of_the_epoch(own_api: Api) -> None:
    answer = await own_api.call("GET", "/readyz", secret="")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "worker" in answer.json()["detail"] and answer.headers["retry-after"] == "1"
    run = await own_api.start()
    await own_api.puppet(run["id"])
    assert (await own_api.call("GET", "/readyz", secret="")).json() == {"status": "ready"}


async def test_readyz_sees_migrations_of_another_build(own_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    health = own_api.services.health
    monkeypatch.setattr(health, "_migrations", {*health._migrations, (9_999, "0" * 64)})
    assert "db upgrade" in (await own_api.call("GET", "/readyz")).json()["detail"]


async def test_readyz_without_a_database(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: object) -> object:
        raise Unavailable("the database is not reachable: gone")

    monkeypatch.setattr("app.health.acquired", gone)
    answer = await api.call("GET", "/readyz")
    assert (answer.status_code, "not reachable" in answer.json()["detail"]) == (503, True)


OTHER_TYPES = {
    "/v1/runs/{run}/events": "text/event-stream",
    "/v1/toolsets/{name}/declarations": "text/plain",
}
BODILESS = {
    "/v1/namespaces/{name}/export",
    "/v1/namespaces/{name}/resume",
    "/v1/namespaces/{name}/suspend",
    "/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver",
    "/v1/webhooks/{webhook}/ping",
}
"""Calls that say all with their path."""
ANY_JSON = {"/v1/runs/{run}/values/{sha256}", "/v1/namespaces/{name}/export"}
"""Calls that answer whatever value the run has: no schema can say more."""


async def test_the_openapi_document_describes_every_call(api: Api) -> None:
    document = (await api.call("GET", "/openapi.json", secret="")).json()
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    assert "Problem" in schemas and "HTTPValidationError" not in schemas
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            if not path.startswith("/v1/"):
                continue
            responses = operation["responses"]
            assert {"400", "401", "403", "404", "500", "503"} <= set(responses), where
            assert operation["security"] == [{"bearer": []}], where
            if method in {"post", "put"} and path not in BODILESS:
                assert "requestBody" in operation, where
                assert {"413", "415"} <= set(responses), where
            success = [code for code in responses if code.startswith("2")]
            assert success, where
            for code, response in responses.items():
                assert "X-Request-Id" in response["headers"], where
                if code >= "400":
                    assert "application/problem+json" in response["content"], where
                elif path in OTHER_TYPES:
                    assert OTHER_TYPES[path] in response["content"]
                elif code != "204":
                    schema = response["content"]["application/json"]["schema"]
                    shapes = schema.get("anyOf", [schema])
                    assert all("$ref" in shape for shape in shapes) or path in ANY_JSON, where
    start = document["paths"]["/v1/runs"]["post"]
    assert "script_refused" in start["responses"]["422"]["description"]
    assert [parameter["name"] for parameter in start["parameters"]] == ["namespace", "Idempotency-Key"]


async def test_every_reference_of_the_document_resolves(api: Api) -> None:
    document = openapi_of(api.app, "1")()

    def references(node: object) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(value) for value in node.values()))
        if isinstance(node, list):
            return set().union(*(references(value) for value in node))
        return set()

    prefix = "#/components/schemas/"
    named = references(document)
    assert all(reference.startswith(prefix) for reference in named)
    assert {reference.removeprefix(prefix) for reference in named} <= set(document["components"]["schemas"])


async def test_docs_show_every_call_and_load_nothing_from_elsewhere(api: Api) -> None:
    answer = await api.call("GET", "/docs", secret="")
    assert answer.status_code == 200
    page, document = answer.text, openapi_of(api.app, "1")()
    calls = [
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith("/v1/")
    ]
    assert len(calls) > 60
    assert "`" not in page, "marks of Markdown are shown as what they mean"
    assert "</code> <small>Start a run of a script.</small></summary>" in page
    assert [(method, path) for method, path in calls if f"<b>{method}</b> {path}<" not in page] == []
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert "StartRunBody" in links and links <= set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'(?:src|href)="(?!#)([^"]+)"', page)) <= {
        "/", "/static/plain.css", "/static/icon.svg", "/organizations", "/docs", "/login", "/signup",
        "/openapi.json", "/llms.txt",
    }  # fmt: skip
    assert "<script" not in page and "http" not in answer.headers["content-security-policy"]


async def test_llms_txt(api: Api) -> None:
    llms = await api.call("GET", "/llms.txt", secret="")
    assert llms.text.startswith("# Rewind") and llms.headers["content-type"].startswith("text/plain")


async def test_every_answer_has_an_id_of_its_own(api: Api) -> None:
    ids = {
        (await api.call("GET", path)).headers["x-request-id"]
        for path in ("/healthz", "/v1/me", "/none", "/docs")
    }
    assert len(ids) == 4


async def test_what_nobody_expected_is_answered_as_internal(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(api.services.toolsets._repository, "delete", broken)
    async with api.client(raise_app_exceptions=False) as client:
        answer = await client.delete("/v1/toolsets/support")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] == answer.json()["request_id"]


async def test_a_lost_database_is_unavailable(api: Api) -> None:
    async with acquired(api.store.pool) as connection:
        name = await connection.fetchval("select current_database()")
    assert name.startswith("test_")
    await api.store.pool.close()
    for path in ("/v1/toolsets", "/v1/runs?namespace=acme"):
        answer = await api.call("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"] == "1"
