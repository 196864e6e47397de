"""A test takes what a real run takes: arguments and mocked results are held against the tools' schemas."""

from typing import Any

import pytest

from tests.sandbox.activation.conftest import Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRICE: dict[str, Any] = {
    "name": "shop.price",
    "kind": "host",
    "input_schema": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]},
    "output_schema": {
        "type": "object",
        "properties": {"lines": {"type": "array", "items": {"type": "object", "required": ["cents"]}}},
        "required": ["lines"],
    },
}
ASKS = """
import { shop } from "rewind:tools";
export default async function main(input: any) {
  try { return await shop.price(input); }
  catch (error: any) { return [error.name, error.code, error.message]; }
}
"""
GOOD = {"lines": [{"cents": 5}]}


async def test_arguments_that_the_tool_does_not_take_are_never_answered(stage: Stage) -> None:
    mocks = {"shop.price": [{"result": GOOD}]}
    report = await stage.tried(ASKS, PRICE, input={"sku": 5}, mocks=mocks)
    name, code, message = report["output"]
    assert (name, code) == ("ToolError", "invalid_arguments")
    assert message == 'the arguments do not match the tool\'s input schema: sku: 5 is not of type "string"'
    assert report["unused"] == [{"tool": "shop.price", "args": "*", "from": "mocks"}]
    assert report["missing"] == []
    (completed,) = [entry for entry in report["journal"] if entry["type"] == "tool_call_completed"]
    assert (completed["error"]["code"], completed["attempts"]) == ("invalid_arguments", 1)


async def test_arguments_that_it_takes_are(stage: Stage) -> None:
    report = await stage.tried(ASKS, PRICE, input={"sku": "a"}, mocks={"shop.price": [{"result": GOOD}]})
    assert (report["output"], report["unused"]) == (GOOD, [])


async def test_a_cassette_says_itself_what_became_of_wrong_arguments(stage: Stage) -> None:
    recorded = {"message": "it said no", "code": "invalid_arguments"}
    call = {"call": 1, "tool": "shop.price", "args": {"sku": 5}, "error": recorded, "after": 0}
    cassette = {"cassette": 1, "calls": [call]}
    report = await stage.tried(ASKS, PRICE, input={"sku": 5}, cassette=cassette)
    assert report["output"] == ["ToolError", "invalid_arguments", "it said no"]
    assert report["unused"] == []


@pytest.mark.parametrize(
    ("result", "path"),
    [
        ({"lines": [{"cents": 1}, {}]}, "mocks['shop.price'][1].result.lines[1]"),
        ({}, "mocks['shop.price'][1].result"),
        ([], "mocks['shop.price'][1].result"),
    ],
)
async def test_a_mocked_result_that_the_tool_could_not_give_is_refused(
    stage: Stage, result: Any, path: str
) -> None:
    mocks = {"shop.price": [{"error": {"message": "no"}}, {"result": result}]}
    report = await stage.tried(ASKS, PRICE, input={"sku": "a"}, mocks=mocks)
    assert report["refused"]["path"] == path
    assert "the output schema of shop.price forbids this result" in report["refused"]["message"]


async def test_what_rewind_answers_itself_may_be_mocked_in_part(stage: Stage) -> None:
    """Nobody declared a schema for the results of `http`: those of a real run are always whole."""
    http = {**PRICE, "name": "http.request", "kind": "http", "input_schema": {"type": "object"}}
    source = 'import { http } from "rewind:tools"; export default async () => (await http.get("https://a.b")).status'
    report = await stage.tried(source, http, mocks={"http.request": [{"result": {"status": 200}}]})
    assert report["output"] == 200
