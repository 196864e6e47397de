"""What a Python function becomes as a host tool: name, schemas, policy, and how it is called."""

import datetime as dt
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from rewind import ConfigurationError, Deferred, Tool, ToolContext, ToolError, tool
from rewind._tools import build_tool, declare
from rewind._types import Task

CTX = ToolContext(Task(token="t", run="r", namespace="n", call=1, tool="x", args={}))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    sku: str
    title: str = "?"


@dataclass
class Order:
    items: list[Item]
    note: str | None = None


def called(made: Tool, args: Any) -> Any:
    positional, keywords = made.invocation(args, CTX)
    return made.handler(*positional, **keywords)


def test_parameters_become_a_closed_schema() -> None:
    @tool
    def search(
        text: str,
        limit: Annotated[int, Field(ge=1, description="how many")] = 10,
        *,
        color: Color | None = None,
    ) -> list[str]:
        """Search the shop.

        Ranks by relevance.
        """
        return [text, str(limit), str(color)]

    assert search.name == "search"
    assert search.description == "Search the shop.\n\nRanks by relevance."
    assert search.input_schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "description": "how many", "default": 10},
            "color": {"anyOf": [{"$ref": "#/$defs/Color"}, {"type": "null"}], "default": None},
        },
        "required": ["text"],
        "additionalProperties": False,
        "$defs": {"Color": {"enum": ["red", "blue"], "type": "string"}},
    }
    assert search.output_schema == {"type": "array", "items": {"type": "string"}}
    assert called(search, {"text": "a", "color": "red"}) == ["a", "10", "Color.RED"]
    assert search("direct") == ["direct", "10", "None"]


def test_one_model_is_the_whole_argument() -> None:
    @tool
    def order(request: Order) -> Item:
        return request.items[0]

    assert order.input_schema["properties"].keys() == {"items", "note"}
    assert order.input_schema["additionalProperties"] is False
    assert order.input_schema["$defs"]["Item"]["additionalProperties"] is False
    assert order.output_schema == {
        "type": "object",
        "properties": {"sku": {"type": "string"}, "title": {"type": "string", "default": "?"}},
        "required": ["sku"],
    }
    assert called(order, {"items": [{"sku": "a"}]}) == Item(sku="a")
    assert order.encode_result(Item(sku="a")) == b'{"sku":"a","title":"?"}'


def test_a_tool_without_parameters() -> None:
    @tool(name="clock.now")
    def now(ctx: ToolContext) -> None:
        assert ctx.run == "r"

    assert now.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert now.output_schema == {"type": "null"}
    assert called(now, {}) is None


def test_properties_named_like_schema_words() -> None:
    @tool
    def odd(properties: dict[str, int], title: str, schema: str, *, copy: bool) -> None: ...

    assert odd.input_schema["properties"] == {
        "properties": {"type": "object", "additionalProperties": {"type": "integer"}},
        "title": {"type": "string"},
        "schema": {"type": "string"},
        "copy": {"type": "boolean"},
    }
    called(odd, {"properties": {"a": 1}, "title": "t", "schema": "s", "copy": True})


def test_an_explicit_schema_gives_the_arguments_as_they_came() -> None:
    @tool(input_schema={"type": "object", "required": ["a"]}, output_schema={"type": "number"})
    def raw(args: dict[str, Any], ctx: ToolContext) -> float:
        return float(args["a"])

    assert raw.declaration()["input_schema"] == {"type": "object", "required": ["a"]}
    assert raw.declaration()["output_schema"] == {"type": "number"}
    assert called(raw, {"a": "1.5", "more": 1}) == 1.5


def test_the_policy_is_declared() -> None:
    @tool(
        name="billing.refund",
        description="Refund",
        idempotent=True,
        approval=True,
        timeout=dt.timedelta(minutes=1),
        queue_timeout="5m",
        retry={"attempts": 3},
        concurrency={"limit": 2},
        rate={"limit": 5, "per": "1m"},
    )
    def refund(cents: int) -> Any:
        return cents

    declared = refund.declaration()
    del declared["input_schema"]
    assert declared == {
        "name": "billing.refund",
        "description": "Refund",
        "idempotent": True,
        "approval": True,
        "timeout": 60_000,
        "queue_timeout": "5m",
        "retry": {"attempts": 3},
        "concurrency": {"limit": 2},
        "rate": {"limit": 5, "per": "1m"},
    }
    assert declare({"name": "x", "input_schema": {}}) == {"name": "x", "input_schema": {}}


def answer_later(ctx: ToolContext) -> str | Deferred:
    return ctx.defer()


def untyped(a, b=2):  # type: ignore[no-untyped-def]
    return a


def test_shapes_that_say_nothing_have_no_output_schema() -> None:
    assert build_tool(untyped).output_schema is None
    assert build_tool(untyped).input_schema["properties"] == {"a": {}, "b": {"default": 2}}
    assert build_tool(answer_later).output_schema == {"type": "string"}


def takes_anything(*args: int) -> None: ...


def takes_keywords(**kwargs: int) -> None: ...


def by_position(a: int, /) -> None: ...


def of_no_json_type(a: "threading.Thread") -> None: ...  # type: ignore[name-defined]  # noqa: F821


class Opaque: ...


def opaque(a: Opaque) -> None: ...


@pytest.mark.parametrize("function", [takes_anything, takes_keywords, by_position, of_no_json_type, opaque])
def test_signatures_that_cannot_be_described(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"tool {function.__name__}: "):
        build_tool(function)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="needs a name"):
        build_tool(lambda: None)


def test_arguments_are_converted_and_checked() -> None:
    @tool
    def when(day: dt.date, kind: Literal["a", "b"]) -> dt.date:
        return day

    assert called(when, {"day": "2026-02-03", "kind": "a"}) == dt.date(2026, 2, 3)
    assert when.encode_result(dt.date(2026, 2, 3)) == b'"2026-02-03"'
    with pytest.raises(ToolError) as caught:
        when.invocation({"day": "x", "kind": "c"}, CTX)
    assert caught.value.code == "invalid_arguments"
    assert caught.value.message.startswith("day: Input should be a valid date")
    assert "kind: Input should be 'a' or 'b'" in caught.value.message


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (float("nan"), b"null"),
        ({"a": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}, b'{"a":"2026-01-02T00:00:00+00:00"}'),
        ({1, 2}, b"[1,2]"),
        (Order([Item(sku="x")]), b'{"items":[{"sku":"x","title":"?"}],"note":null}'),
        (2**70, b"1180591620717411303424"),
    ],
)
def test_untyped_results(result: Any, text: bytes) -> None:
    assert build_tool(untyped).encode_result(result) == text


@pytest.mark.parametrize("result", [object(), {"a": "\ud800"}, {"deep": print}])
def test_results_that_are_no_json(result: Any) -> None:
    with pytest.raises(ToolError) as caught:
        build_tool(untyped).encode_result(result)
    assert caught.value.code == "invalid_result"
