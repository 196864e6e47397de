"""Canonical JSON against the RFC's own vectors, ours, and an oracle of a few lines."""

import hashlib
import json
import math
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.journal.canonical import (
    DEPTH_MAX,
    INLINE_MAX_BYTES,
    CanonicalError,
    canonical_text,
    number_text,
    parse_json,
    sha256_hex,
    value_of,
    value_of_text,
)
from tests.fixtures.cases import OWN, shared_cases

EDGE = json.loads((OWN / "jcs" / "edge-cases.json").read_text())


@pytest.mark.parametrize("case", EDGE["cases"], ids=lambda case: case["name"])
def test_edge_case(case: dict[str, Any]) -> None:
    if case["expect"] == "reject":
        with pytest.raises(CanonicalError):
            canonical_text(parse_json(case["input"]))
        return
    text = canonical_text(parse_json(case["input"]))
    assert text.hex() == case["utf8_hex"]
    assert sha256_hex(text) == case["sha256"]


@pytest.mark.parametrize("case", EDGE["deep"], ids=lambda case: f"{case['shape']}-{case['depth']}")
def test_deep_case_is_written_or_refused_by_name(case: dict[str, Any]) -> None:
    depth = case["depth"]
    text = "[" * depth + "]" * depth if case["shape"] == "array" else '{"a":' * depth + "1" + "}" * depth
    if depth <= DEPTH_MAX:
        assert sha256_hex(canonical_text(parse_json(text))) == case["sha256"]
        return
    with pytest.raises(CanonicalError) as refused:
        parse_json(text)
    assert refused.value.error_code == "too_deep"


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_rfc_vector(name: str) -> None:
    source = shared_cases("jcs", "input", f"{name}.json").read_bytes()
    assert canonical_text(parse_json(source)) == shared_cases("jcs", "output", f"{name}.json").read_bytes()


def test_es6_numbers() -> None:
    lines = shared_cases("jcs", "es6numbers-10000.txt").read_text().split()
    assert len(lines) >= 10_000
    for line in lines:
        double, expected = line.split(",")
        (number,) = struct.unpack(">d", bytes.fromhex(double.rjust(16, "0")))
        assert canonical_text([number]) == f"[{expected}]".encode(), double
        assert canonical_text(number) == expected.encode(), double


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ('{"items":[0,1,2,{"when":"\\ud800"}]}', "lone_surrogate", "items[3].when"),
        ('{"items":[0,{"a":1,"a":2}]}', "duplicate_key", "items[1]"),
        ('{"a b":{"n":[1e999]}}', "number_out_of_range", '["a b"].n[0]'),
        ('{"n":' + "9" * 400 + "}", "number_out_of_range", "n"),
        ('{"n":[NaN]}', "invalid_json", "n[0]"),
        ('{"a":1', "invalid_json", ""),
        (b'{"a":"\xff"}', "invalid_json", ""),
        ('"\ud800"', "lone_surrogate", ""),
        ('{"\\uD83D":{"b":1}}', "lone_surrogate", '["\\\\ud83d"]'),
        ('{"x":[1,{"]":"[","y":' + "[" * 300, "too_deep", "x[1].y" + "[0]" * 21 + "…"),
    ],
)
def test_refusal_names_code_and_path(text: str | bytes, code: str, path: str) -> None:
    with pytest.raises(CanonicalError) as refused:
        parse_json(text)
    assert (refused.value.error_code, refused.value.path) == (code, path)


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ({"items": [1, {"when": math.nan}]}, "number_out_of_range", "items[1].when"),
        ([math.inf], "number_out_of_range", "[0]"),
        ({"n": 10**400}, "number_out_of_range", "n"),
        ({"a": {"b": {1, 2}}}, "not_json", "a.b"),
        ({"a": b"bytes"}, "not_json", "a"),
        ({"a": 1, 2: 3}, "not_json", ""),
        ({"a": ["\udfff"]}, "lone_surrogate", "a[0]"),
    ],
)
def test_writer_refuses_what_json_cannot_hold(value: object, code: str, path: str) -> None:
    with pytest.raises(CanonicalError) as refused:
        canonical_text(value)
    assert (refused.value.error_code, refused.value.path) == (code, path)


def test_depth_of_a_value_counts_its_arrays_and_objects() -> None:
    value: Any = 1.5
    for _ in range(DEPTH_MAX):
        value = [value]
    assert canonical_text(value) == b"[" * DEPTH_MAX + b"1.5" + b"]" * DEPTH_MAX
    for deep in ([value], {"a": value}, {"a": [value, "x"]}):
        with pytest.raises(CanonicalError, match="nest more than 200 deep"):
            canonical_text(deep)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CanonicalError, match="nest more than 200 deep"):
        canonical_text(loop)


KEYS = ",".join(f'"{n}":0' for n in range(100_000))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 4_000_000,
        '"\\' * 2_000_000,
        "[]," * 1_000_000,
        '{"":[' * 1_000_000,
        '["' * 2_000_000,
        f'{{{KEYS},"99999":1}}',
    ],
)
def test_hostile_text_is_refused_in_linear_time(text: str) -> None:
    started = time.process_time()
    with pytest.raises(CanonicalError):
        parse_json(text)
    assert time.process_time() - started < 2


def test_wide_and_bracketed_strings_are_not_deep() -> None:
    wide = [[[]] * 3 for _ in range(200)] + ["[[[[" * 200, '{"' * 300, "\\"]
    assert parse_json(json.dumps(wide)) == wide


def test_inline_limit_counts_bytes_of_canonical_text() -> None:
    inline = value_of("é" * ((INLINE_MAX_BYTES - 2) // 2))
    assert inline.bytes == INLINE_MAX_BYTES
    assert inline.text is not None
    large = value_of_text(b'"' + b"x" * (INLINE_MAX_BYTES - 1) + b'"')
    assert (large.bytes, large.text) == (INLINE_MAX_BYTES + 1, None)
    assert value_of({"b": 1.0, "a": None}).text == b'{"a":null,"b":1}'
    assert value_of(None).sha256 == hashlib.sha256(b"null").hexdigest()


# -- An oracle: sort by UTF-16, let V8's number rule be Python's shortest repr placed by hand

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70)
_values = st.recursive(
    st.none() | st.booleans() | _numbers | _text | st.sampled_from(["e1", ":-1.5", "[1e5", "😀", "ﬀ"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_text | st.sampled_from(["😀", "￿", "z"]), inner, max_size=4)
    ),
    max_leaves=20,
)


def _oracle(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be"))
        yield (
            "{"
            + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{''.join(_oracle(v))}" for k, v in members)
            + "}"
        )
    elif isinstance(value, list):
        yield "[" + ",".join("".join(_oracle(item)) for item in value) + "]"
    elif isinstance(value, bool) or value is None or isinstance(value, str):
        yield json.dumps(value, ensure_ascii=False)
    else:
        yield number_text(float(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1.0, 2.5], "[1,2.5]"),
        ({"a": -0.0}, '{"a":0}'),
        ([1e-5, 1e-7], "[0.00001,1e-7]"),
        ([1e16, 1e21], "[10000000000000000,1e+21]"),
        ([1234567890123456.0], "[1234567890123456]"),
        ([2**53 + 1], "[9007199254740992]"),
        (["1.0,", "x:1e5]"], '["1.0,","x:1e5]"]'),
        ([[{"b": 1.25, "a": [0.5]}]] * 200, "[" + ",".join(['[{"a":[0.5],"b":1.25}]'] * 200) + "]"),
    ],
)
def test_numbers_are_spelled_as_in_ecmascript_wherever_they_stand(value: Any, text: str) -> None:
    assert canonical_text(value).decode() == text
    assert canonical_text(parse_json(json.dumps(value))).decode() == text


@settings(max_examples=300, deadline=None)
@given(_values)
def test_canonical_text_agrees_with_the_oracle(value: Any) -> None:
    text = canonical_text(value)
    assert text.decode() == "".join(_oracle(value))
    assert canonical_text(parse_json(text)) == text
    assert canonical_text(parse_json(json.dumps(value))) == text


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_text_reads_back_as_the_same_double(number: float) -> None:
    text = number_text(number)
    assert float(text) == number
    digits = text.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    assert len(digits) <= 17


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('[]{}",:\\ 1ae.-tu')))
def test_any_text_is_read_as_python_reads_it_or_refused(text: str) -> None:
    try:
        value = parse_json(text)
    except CanonicalError:
        return
    assert value == json.loads(text)
