"""Checks of values whose cost is not known to be small: made elsewhere, ended when they take too long."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.compiler import value_checks
from sandbox.compiler.json_schema import ValueValidator
from sandbox.compiler.value_checks import TOO_LONG, problem_of
from sandbox.journal.canonical import parse_json
from sandbox.journal.errors import Unavailable

EMAIL = {"type": "string", "pattern": r"^(?!\.)(?!.*\.\.)[a-z.]+@[a-z]+\.com$"}
LOOK_AROUND = ({"type": "string", "pattern": "(?=(a+)+)b"}, "a" * 100_000)
ENUMERATION = ({"items": {"enum": list(range(20_000))}}, [-1] * 20_000)
NESTED_LOOKS = ({"type": "string", "pattern": "(?:(?=(?:.*b|.*a))a){0,1000}(?=c)"}, "a" * 50_000)
BRANCHES: tuple[Any, Any] = (
    {
        "$defs": {"a": {"anyOf": [{"items": {"$ref": "#/$defs/a"}, "maxItems": i} for i in range(40)]}},
        "$ref": "#/$defs/a",
    },
    [[[[[[[[1]]]]]]]] * 50,
)


async def checked(schema: Any, value: Any) -> str | None:
    return await problem_of(ValueValidator(schema), orjson.dumps(value), orjson.loads)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": "one"}),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "c", 1]),
        (EMAIL, "ada@example.com"),
        (EMAIL, "a..b@example.com"),
        (True, [1]),
    ],
)
def test_the_process_says_what_is_said_at_once(schema: Any, value: Any) -> None:
    text = orjson.dumps(value)
    assert value_checks._asked(orjson.dumps(schema), text) == ValueValidator(schema).problem(value)


@settings(max_examples=30, deadline=None)
@given(st.recursive(st.none() | st.integers(-(2**60), 2**60) | st.text(), st.lists, max_leaves=8))
def test_any_value_gets_there(value: Any) -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": "(?=.*a)"}}
    expected = ValueValidator(schema).problem(parse_json(orjson.dumps(value)))
    assert value_checks._asked(orjson.dumps(schema), orjson.dumps(value)) == expected


def test_what_is_cheap_is_known() -> None:
    assert ValueValidator(EMAIL).is_cheap(40)
    assert not ValueValidator(EMAIL).is_cheap(4_000)
    assert ValueValidator({"type": "object"}).is_cheap(100_000)
    for schema, value in (LOOK_AROUND, ENUMERATION, NESTED_LOOKS, BRANCHES):
        assert not ValueValidator(schema).is_cheap(len(orjson.dumps(value)))
    assert ValueValidator(True).is_cheap(1 << 24), "checks nothing"


@pytest.mark.parametrize("case", [LOOK_AROUND, ENUMERATION, NESTED_LOOKS], ids=["look", "enum", "nested"])
async def test_a_check_that_takes_too_long_is_ended_and_the_loop_goes_on(case: tuple[Any, Any]) -> None:
    check = asyncio.create_task(checked(*case))
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert not check.done(), "the loop turned a thousand times meanwhile"
    assert await check == TOO_LONG
    assert await checked(EMAIL, "ada@example.com" + "m" * 200) is not None, "the next one has a new process"
    assert await checked(EMAIL, "a" * 200 + "@example.com") is None


async def test_references_that_multiply_are_checked_within_the_limit() -> None:
    assert await checked(*BRANCHES) in {None, TOO_LONG}


def test_the_process_has_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWIND_DATABASE_URL", "postgres://secret")
    child = value_checks._start()
    assert b"secret" not in Path(f"/proc/{child.pid}/environ").read_bytes()
    child.communicate(timeout=30)
    assert child.returncode == 0, "it leaves when nobody can ask any more"


def test_a_process_that_does_not_start_is_a_fault_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Unavailable):
        value_checks._start()


def test_a_killed_process_is_replaced() -> None:
    schema, text = orjson.dumps(EMAIL), b'"ada@example.com"'
    assert value_checks._asked(schema, text) is None
    child: subprocess.Popen[bytes] = value_checks._mine.child
    child.kill()
    child.wait(30)
    assert value_checks._asked(schema, text) is None
