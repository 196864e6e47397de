"""The sandbox without a server: one line of JSON in, one line out."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fixtures.local_sandbox import LocalSandbox, local_sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = """
import { g } from "rewind:tools";
export default async function main(input: { n: number }) {
  return [await g.echo({ n: input.n }), Math.random(), crypto.randomUUID()];
}
"""
TOOLSET = {"tools": [{"name": "g.echo"}]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local() -> AsyncIterator[LocalSandbox]:
    async with local_sandbox() as started:
        yield started


async def tested(local: LocalSandbox, script: str = SCRIPT) -> Any:
    answer = await local.ask(
        id=1,
        verb="test",
        script=script,
        toolset=TOOLSET,
        input={"n": 1},
        mocks={"g.echo": [{"result": "one"}]},
    )
    return answer["result"]


async def test_a_test_s_journal_replays(local: LocalSandbox) -> None:
    report = await tested(local)
    assert report["output"][0] == "one"
    answer = await local.ask(id="r", verb="replay", script=SCRIPT, toolset=TOOLSET, journal=report["journal"])
    assert answer["id"] == "r"
    assert answer["result"]["matches"] is True
    assert answer["result"]["output"] == report["output"]


async def test_another_script_diverges_where_it_differs(local: LocalSandbox) -> None:
    report = await tested(local)
    other = SCRIPT.replace("n: input.n }", "n: input.n + 1 }")
    answer = await local.ask(id=2, verb="replay", script=other, toolset=TOOLSET, journal=report["journal"])
    diverged = answer["result"]["diverged_at"]
    assert (answer["result"]["matches"], diverged["seq"], diverged["line"]) == (False, 1, 4)


@pytest.mark.parametrize(
    ("request_", "code", "says"),
    [
        ({}, "invalid_request", "verb is None: use replay, verify or test"),
        ({"verb": "replay"}, "invalid_request", "script must be the source text"),
        ({"verb": "replay", "script": ""}, "invalid_request", "journal must be the list"),
        (
            {"verb": "replay", "script": "", "journal": [{"seq": 0}]},
            "invalid_request",
            "journal[0] is no entry",
        ),
        ({"verb": "replay", "script": SCRIPT, "journal": "epoch"}, "epoch_unavailable", "epoch 9"),
        ({"verb": "replay", "script": "enum A { B }", "journal": "real"}, "script_refused", "enum"),
    ],
)
async def test_what_is_wrong_is_said_and_the_next_request_is_answered(
    local: LocalSandbox, request_: Any, code: str, says: str
) -> None:
    if isinstance(request_.get("journal"), str):
        journal = (await tested(local))["journal"]
        if request_["journal"] == "epoch":
            journal[0]["epoch"] = 9
        request_ = {**request_, "journal": journal}
    answer = await local.ask(id=7, **request_)
    assert (answer["id"], answer["error"]["code"]) == (7, code), answer
    assert says in answer["error"]["message"]
    assert (await tested(local))["output"][0] == "one"


async def test_a_line_that_is_no_json(local: LocalSandbox) -> None:
    answer = await local.ask_raw(b"{nonsense")
    assert (answer["id"], answer["error"]["code"]) == (None, "invalid_request")


async def test_a_value_that_was_not_exported_is_named(local: LocalSandbox) -> None:
    journal = (await tested(local))["journal"]
    completed = next(entry for entry in journal if entry["type"] == "tool_call_completed")
    del completed["result"]["value"]
    completed["result"]["bytes"] = 100_000
    answer = await local.ask(id=3, verb="replay", script=SCRIPT, toolset=TOOLSET, journal=journal)
    assert answer["error"]["code"] == "value_missing"
    assert completed["result"]["sha256"] in answer["error"]["message"]


async def test_a_journal_with_holes_is_verified_and_they_are_named(local: LocalSandbox) -> None:
    journal = (await tested(local))["journal"]
    sealed = len(journal)
    asked = {"verb": "verify", "script": SCRIPT, "toolset": TOOLSET, "root": "00", "entries": sealed}
    whole = (await local.ask(id=1, journal=journal, **asked))["result"]
    assert (whole["missing"], whole["matches"], whole["root_ok"]) == ([], True, False)
    holes = (await local.ask(id=2, journal=[journal[0], *journal[2:-1]], **asked))["result"]
    assert (holes["missing"], holes["replayable"], holes["matches"]) == ([1, sealed - 1], False, None)
    for wrong, says in (
        ({"journal": [*journal, journal[0]]}, f"journal[{sealed}] has seq 0"),
        ({"entries": "all"}, "entries must be the number"),
    ):
        answer = await local.ask(id=3, **{"journal": journal, **asked, **wrong})
        assert answer["error"]["code"] == "invalid_request"
        assert says in answer["error"]["message"]
