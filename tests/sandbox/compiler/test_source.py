"""Scanning what a hostile author sends: the time grows with the text's length, not with its square."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from sandbox.compiler.check import masked_source
from sandbox.compiler.diagnostics import readable, too_complex
from sandbox.compiler.source import NESTING_MAX, Source, too_deep_at
from sandbox.compiler.strip import SCRIPT_BYTES_MAX, early_refusal
from sandbox.compiler.toolset import NO_TOOLS

CPU_S_MAX = 5.0
"""Each takes a tenth of that; what grows with the square takes minutes."""
PIECES = {
    "comments": "/* ", "templates": "`\\", "escaped": '"\\', "quotes": "\"'", "lines": "\n", "slashes": "///\n",
    "indented": "\n" + " " * 200, "directives": "/// <", "paths": "a.", "calls": "a(", "imports": "import { a } from ",
}  # fmt: skip
SCANNERS: dict[str, Callable[[str], object]] = {
    "masked": masked_source,
    "nesting": too_deep_at,
    "early": early_refusal,
    "readable": lambda text: readable(text, NO_TOOLS, [], []),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scanner", SCANNERS)
@pytest.mark.parametrize("piece", PIECES)
def test_no_text_takes_long(piece: str, scanner: str) -> None:
    text = PIECES[piece] * (SCRIPT_BYTES_MAX // len(PIECES[piece]))
    began = time.process_time()
    SCANNERS[scanner](text)
    assert time.process_time() - began < CPU_S_MAX


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("'a' + \"b\" // 'c", ["text", "mark", "text"]),
        ("a = 'open\nb", ["word", "mark", "text", "word"]),
        ("`open ${a}\nb", ["text"]),
        ("a /* open ' b", ["word"]),
    ],
)
def test_what_is_not_closed_ends_with_its_line_or_the_text(text: str, kinds: list[str]) -> None:
    assert [token.kind for token in Source(text).tokens] == kinds


def test_a_quote_in_a_regular_expression_hides_no_nesting() -> None:
    deep = "[" * (NESTING_MAX + 1)
    assert too_deep_at(deep) == NESTING_MAX
    assert too_deep_at("/['\"]/; " + deep) == len("/['\"]/; ") + NESTING_MAX
    assert too_deep_at(f"'{deep}'; // {deep}\n/* {deep}") is None


def test_of_very_many_mistakes_a_few_are_explained_and_all_are_counted() -> None:
    """Each explanation looks through the whole script: of 20,000 they would take a minute."""
    names = [f"none{number}" for number in range(20_000)]
    text = "\n".join([*names, "export default () => 1;"])
    raws, at = [], 0
    for name in names:
        raws.append(
            {
                "code": 2304,
                "category": 1,
                "pos": at,
                "end": at + len(name),
                "text": f"Cannot find name '{name}'.",
            }
        )
        at += len(name) + 1
    raws.insert(0, {**raws[0], "code": 7006, "text": "Parameter 'x' implicitly has an 'any' type."})
    began = time.process_time()
    found = readable(text, NO_TOOLS, raws, [])
    assert time.process_time() - began < CPU_S_MAX
    assert [one.line for one in found[:3]] == [1, 2, 3]
    assert (found[-1].code, found[-1].severity) == ("more", "error")
    shown = len(found) - 1
    assert int(found[-1].message.split()[0]) in {len(raws) - shown, len(raws) - shown - 1}


@pytest.mark.parametrize("text", ["plain", "é漢x", "a😀b😀😀c", "😀"])
def test_offsets_are_of_utf16_units(text: str) -> None:
    source, units = Source(text), 0
    for at, mark in enumerate(text):
        assert source.offset(units) == at
        units += 1 + (mark > "\uffff")
    assert source.offset(units) == source.offset(units + 5) == len(text)


def test_of_a_script_that_could_not_be_read_nothing_else_is_looked_for() -> None:
    """Looking through its tokens took longer than checking it, beside everybody's runs."""
    text = 'import { sleep } from "rewind";\nsleep(1);\n' + "(1," * 80_000
    refusal = too_complex(text)
    nested = replace(refusal, code="nested_too_deeply")
    began = time.process_time()
    assert readable(text, NO_TOOLS, [], [nested, nested]) == [nested]
    assert time.process_time() - began < 0.1
    assert [one.code for one in readable(text[:42], NO_TOOLS, [], [])] == ["floating_promise"]
