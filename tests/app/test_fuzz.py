"""Whatever is sent as a body, path or query: never a server error, and refusals are problem documents."""

from typing import Any

import httpx2
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fixtures.api import SCRIPT, Api

BODIES: dict[str, dict[str, Any]] = {
    "/v1/runs?namespace=acme": {
        "script": SCRIPT, "input": {"a": [1]}, "wait": 0, "until": "ended", "ttl": "1h", "labels": {"k": "v"},
        "toolset": "support", "namespace": "acme",
    },
    "/v1/runs/RUN/signals?namespace=acme": {"name": "go", "payload": {"a": 1}, "id": "x", "by": "me"},
    "/v1/runs/RUN/cancel?namespace=acme": {"reason": "r"},
    "/v1/toolsets": {
        "name": "fuzzed",
        "tools": [{
            "name": "a.b", "description": "d", "input_schema": {"type": "object"}, "output_schema": {"type": "string"},
            "approval": True, "idempotent": True, "retry": {"attempts": 2, "backoff": 1, "max": 2}, "timeout": 5,
        }],
    },
    "/v1/tokens": {
        "namespace": "acme", "scopes": ["runs:read"], "ttl": "1h", "name": "n", "narrow": {"toolset": "t", "signals": ["s"]},
    },
    "/v1/tasks/claim": {
        "max": 1, "wait": 0, "tools": ["a"], "toolset": "t", "namespace": "acme",
        "claim_id": "01890000-0000-7000-8000-000000000000",
    },
    "/v1/tasks/complete": {"items": [{"token": "TASK", "result": {"a": 1}}], "claim": {"max": 1}},
    "/v1/tasks/fail": {"items": [{"token": "TASK", "error": {"message": "m", "code": "c", "data": 1, "retryable": True}}]},
    "/v1/tasks/heartbeat": {"items": [{"token": "TASK"}]},
    "/v1/tasks/defer": {"items": [{"token": "TASK", "expires": 5}]},
    "/v1/tasks/release": {"items": [{"token": "TASK", "after": 5}]},
}  # fmt: skip

text = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["\0", "", "1h", "-1", "sha256:" + "0" * 64, "a@b", "__proto__", "𝄞", "x" * 300, "1e400"]
)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | text
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn, body: Any) -> Any:
    """The body with one place replaced, removed or added to."""
    if isinstance(body, dict) and body and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(body)))
        changed = dict(body)
        match draw(st.sampled_from(["inside", "replace", "remove", "add"])):
            case "inside":
                changed[key] = draw(mutated(body[key]))
            case "replace":
                changed[key] = draw(values)
            case "remove":
                del changed[key]
            case _:
                changed[draw(text)] = draw(values)
        return changed
    if isinstance(body, list) and body and draw(st.integers(0, 4)):
        return [draw(mutated(body[0])), *body[1:], *draw(st.lists(values, max_size=2))]
    return draw(values)


def encoded(value: Any) -> bytes:
    """JSON as any client may write it, big numbers and NaN included."""
    import json

    return json.dumps(value).encode()


def acceptable(answer: httpx2.Response) -> bool:
    if answer.status_code < 300:
        return True
    problem = orjson.loads(answer.content)
    return (
        answer.status_code < 500
        and answer.headers["content-type"] == "application/problem+json"
        and problem["status"] == answer.status_code
        and bool(problem["code"] and problem["detail"])
    )


@pytest.fixture
async def places(api: Api) -> dict[str, str]:
    await api.toolset("support", "echo")
    run = (await api.start(toolset="support"))["id"]
    puppet = await api.puppet(run)
    for _ in range(3):
        await puppet.call_tool("echo", {})
    tasks = (await api.call("POST", "/v1/tasks/claim", json={"max": 1})).json()["tasks"]
    return {"RUN": run, "TASK": tasks[0]["token"]}


relaxed = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@relaxed
@given(data=st.data())
async def test_bodies(api: Api, places: dict[str, str], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(BODIES)))
    body = encoded(data.draw(mutated(BODIES[path])))
    for place, value in places.items():
        path, body = path.replace(place, value), body.replace(place.encode(), value.encode())
    answer = await api.call("POST", path, content=body, headers={"content-type": "application/json"})
    assert acceptable(answer), (path, body, answer.status_code, answer.text)


@relaxed
@given(
    path=st.sampled_from(sorted(BODIES)),
    body=st.binary(max_size=200),
    kind=st.sampled_from(["application/json", "a/b"]),
)
async def test_bytes(api: Api, path: str, body: bytes, kind: str) -> None:
    answer = await api.call("POST", path, content=body, headers={"content-type": kind})
    assert acceptable(answer), (path, body, answer.status_code, answer.text)


@relaxed
@given(
    path=st.sampled_from(["/v1/runs", "/v1/runs/RUN", "/v1/runs/RUN/output", "/v1/runs/RUN/journal", "/v1/tokens", "/v1/toolsets"]),
    query=st.dictionaries(
        st.sampled_from(
            ["namespace", "limit", "after", "status", "wait", "until", "offset", "from", "to", "script", "toolset",
             "parent", "label.a", "label.", "as", "workflow"]
        ),
        text | st.sampled_from(["acme", "1", "50", "0ms", "99999999999999999999", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"]),
        max_size=4,
    ),
)  # fmt: skip
async def test_queries(api: Api, places: dict[str, str], path: str, query: dict[str, str]) -> None:
    if "wait" in query:
        query["wait"] = query["wait"].replace("1h", "0")
    answer = await api.call("GET", path.replace("RUN", places["RUN"]), params=query)
    assert acceptable(answer), (path, query, answer.status_code, answer.text)


@relaxed
@given(
    segment=text,
    place=st.sampled_from(
        ["/v1/runs/X", "/v1/runs/X/journal", "/v1/toolsets/X", "/v1/tokens/X", "/v1/namespaces/X"]
    ),
)
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_paths(api: Api, segment: str, place: str, method: str) -> None:
    url = httpx2.URL("http://rewind.test").join(
        place.replace("X", httpx2.QueryParams({"x": segment}).__str__()[2:].replace("+", "%20"))
    )
    answer = await api.call(method, str(url), params={"namespace": "acme"})
    assert acceptable(answer), (method, segment, answer.status_code, answer.text)
