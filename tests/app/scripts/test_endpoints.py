"""`/v1/scripts` and the checks before a run, with a double of the sandbox."""

import hashlib
from typing import Any

import pytest

from tests.fixtures.api import DIAGNOSTIC, SCRIPT, Api

SCHEMA = {"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]}
WARNING = {
    "severity": "warning",
    "code": "floating_tool_call",
    "message": "Nothing waits for `g.t(…)`.",
    "line": 3,
    "column": 1,
    "end_line": 3,
    "end_column": 6,
    "frame": "> 3 | g.t()",
    "hint": None,
}


async def check(api: Api, **body: Any) -> Any:
    return await api.call("POST", "/v1/scripts/check", json={"script": SCRIPT, "namespace": "acme", **body})


async def start(api: Api, **body: Any) -> Any:
    return await api.call("POST", "/v1/runs", json={"script": SCRIPT, "namespace": "acme", **body})


async def test_a_script_without_errors(api: Api) -> None:
    answer = await check(api)
    assert answer.status_code == 200
    digest = "sha256:" + hashlib.sha256(SCRIPT.encode()).hexdigest()
    assert answer.json() == {
        "ok": True,
        "digest": digest,
        "input_type": "any",
        "output_type": "any",
        "diagnostics": [],
    }
    assert (await start(api, script=digest)).status_code == 201


async def test_a_script_with_errors_is_an_answer_and_is_not_kept(api: Api) -> None:
    answer = await check(api, script="const x = 1;")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["ok"], found["diagnostics"]) == (False, [DIAGNOSTIC])
    assert (await start(api, script=found["digest"])).status_code == 404


async def test_a_run_is_refused_with_the_diagnostics(api: Api) -> None:
    answer = await start(api, script="const x = 1;")
    assert (answer.status_code, answer.json()["code"]) == (422, "script_refused")
    assert answer.json()["diagnostics"] == [DIAGNOSTIC]
    assert (await api.call("GET", "/v1/runs?namespace=acme")).json()["data"] == []


async def test_warnings_refuse_nothing_and_stand_in_the_run(api: Api) -> None:
    api.desk.warnings = [WARNING]
    told = {name: value for name, value in WARNING.items() if name != "hint"}
    found = (await check(api)).json()
    assert (found["ok"], found["diagnostics"]) == (True, [told])
    run = (await start(api)).json()
    assert run["warnings"] == [told]
    api.services.scripts._known.clear()
    assert (await api.call("GET", f"/v1/runs/{run['id']}?namespace=acme")).json()["warnings"] == [told]


async def test_inputs_are_checked_with_paths(api: Api) -> None:
    api.desk.schema = SCHEMA
    found = (await check(api, input={"repo": 5})).json()
    assert found["ok"] is False
    (diagnostic,) = found["diagnostics"]
    assert (diagnostic["code"], diagnostic["severity"]) == ("input_refused", "error")
    assert diagnostic["message"] == "input.repo: This is a number; it must be a string."
    assert (await check(api, input=None)).json()["ok"] is False
    assert (await check(api)).json()["ok"] is True
    assert (await check(api, input={"repo": "a", "more": 1})).json()["ok"] is True

    answer = await start(api, input={})
    assert (answer.status_code, answer.json()["code"]) == (422, "input_refused")
    assert answer.json()["errors"] == [
        {"path": "input.repo", "code": "missing", "message": "`repo` is required: a string."}
    ]
    assert (await start(api, input={"repo": "a"})).status_code == 201


async def test_a_known_script_and_toolset_cost_no_question(api: Api) -> None:
    await api.toolset("support", "echo")
    for body in ({}, {"toolset": "support"}):
        await start(api, **body)
        asked = api.desk.asked
        await start(api, **body)
        await check(api, **body)
        api.services.scripts._known.clear()  # another process: it is kept in the database
        await start(api, **body)
        assert api.desk.asked == asked


async def test_another_toolset_is_another_check(api: Api) -> None:
    await api.toolset("support", "echo")
    await check(api, toolset="support")
    asked = api.desk.asked
    await api.toolset("support", "echo", "other")
    await check(api, toolset="support")
    assert api.desk.asked == asked + 1


async def test_refused_scripts_are_remembered(api: Api) -> None:
    await check(api, script="const x = 1;")
    asked = api.desk.asked
    await check(api, script="const x = 1;")
    assert api.desk.asked == asked


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"toolset": "nothing"}, 422, "unknown_toolset"),
        ({"script": "sha256:" + "0" * 64}, 404, "not_found"),
        ({"script": "x" * 262_145}, 413, "too_large"),
        ({"script": "a\0b"}, 400, "invalid_request"),
        ({"strict": True}, 400, "invalid_request"),
    ],
)
async def test_bad_requests(api: Api, body: dict[str, Any], status: int, code: str) -> None:
    answer = await check(api, **body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_narrowed_token_checks_against_its_toolset(api: Api) -> None:
    await api.toolset("support", "echo")
    secret = await api.token("acme", narrow={"toolset": "support"})
    ok = await api.call(
        "POST", "/v1/scripts/check", json={"script": SCRIPT, "toolset": "support"}, secret=secret
    )
    assert ok.status_code == 200
    other = await api.call("POST", "/v1/scripts/check", json={"script": SCRIPT}, secret=secret)
    assert (other.status_code, other.json()["code"]) == (403, "insufficient_scope")


async def test_scripts_are_listed_and_read(api: Api) -> None:
    await api.toolset("support", "echo")
    sources = [f"{SCRIPT} // {number}" for number in range(3)]
    for source in sources:
        await check(api, script=source, toolset="support")
    first = (await api.call("GET", "/v1/scripts?namespace=acme&limit=2")).json()
    assert len(first["data"]) == 2
    second = (await api.call("GET", f"/v1/scripts?namespace=acme&limit=2&after={first['next']}")).json()
    assert second["next"] is None
    digests = [one["digest"] for one in [*first["data"], *second["data"]]]
    assert sorted(digests) == sorted(
        "sha256:" + hashlib.sha256(source.encode()).hexdigest() for source in sources
    )
    one = (await api.call("GET", f"/v1/scripts/{digests[0]}?namespace=acme")).json()
    assert one["source"] in sources
    assert one["toolset"].startswith("support@sha256:")
    assert (one["input_type"], one["output_type"]) == ("any", "any")
    bad = await api.call("GET", "/v1/scripts?namespace=acme&after=x")
    assert (bad.status_code, bad.json()["code"]) == (400, "invalid_request")
    missing = await api.call("GET", "/v1/scripts/nothing?namespace=acme")
    assert missing.status_code == 404
