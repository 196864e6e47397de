"""Frames as people read them."""

import pytest

from sandbox.journal.codeframe import code_frame

SOURCE = "one\ntwo\r\n\tconst x = '😀' + y;\nfour\n" + "\n".join(f"line {n}" for n in range(5, 12))


def test_a_frame_has_two_lines_of_context_and_a_caret() -> None:
    assert code_frame(SOURCE, 3, 19) == (
        "  1 | one\n  2 | two\n> 3 | \tconst x = '😀' + y;\n    | \t                ^\n  4 | four\n  5 | line 5"
    )
    assert code_frame(SOURCE, 11, 1) == "   9 | line 9\n  10 | line 10\n> 11 | line 11\n     | ^"
    assert code_frame(SOURCE, 1, 2).startswith("> 1 | one\n    |  ^")


@pytest.mark.parametrize("line", [0, 12, -1])
def test_there_is_no_frame_outside_the_source(line: int) -> None:
    assert code_frame(SOURCE, line, 1) == ""


def test_a_very_long_line_is_cut() -> None:
    assert max(map(len, code_frame("x" * 10_000, 1, 9_000).split("\n"))) < 200
