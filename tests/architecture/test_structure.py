"""Sizes, the purity of the journal core, and our rules over the whole tree."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.lint.__main__ import findings, sources
from infra.lint.rules import Source

REPOSITORY = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
CORE_LINES_MAX = 1_500

LONGER: dict[str, str] = {}
"""Files and functions (`path` or `path:function`) above the budgets, each with its reason."""

CONTRACTED = ("app", "dashboard", "billing", "tenancy", "sandbox")
PURE_IMPORTS = {
    "abc", "bisect", "collections", "dataclasses", "decimal", "enum", "functools", "hashlib", "heapq",
    "itertools", "json", "math", "operator", "re", "struct", "types", "typing", "unicodedata",
}  # fmt: skip
"""What the journal core may import beside itself: nothing that reads a clock, draws, blocks or does I/O."""


@pytest.fixture(scope="module")
def tree() -> list[Source]:
    return list(sources())


def test_files_fit_their_budget(tree: list[Source]) -> None:
    sizes = {source.path: len(source.lines()) for source in tree}
    for path in REPOSITORY.glob("sandbox/epochs/*/src/*.js"):
        sizes[path.relative_to(REPOSITORY).as_posix()] = len(path.read_text().splitlines())
    for path in REPOSITORY.glob("infra/migrations/*.sql"):
        sizes[path.relative_to(REPOSITORY).as_posix()] = len(path.read_text().splitlines())
    over = {path: size for path, size in sizes.items() if size > FILE_LINES_MAX and path not in LONGER}
    assert over == {}, f"split them: a file has at most {FILE_LINES_MAX} lines"


def test_functions_fit_a_screen(tree: list[Source]) -> None:
    over = {
        f"{source.path}:{function.name}": size
        for source in tree
        for function in functions(source.tree)
        if (size := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
        and f"{source.path}:{function.name}" not in LONGER
    }
    assert over == {}, f"split them: a function has at most {FUNCTION_LINES_MAX} lines"


def test_exceptions_are_still_needed(tree: list[Source]) -> None:
    known = {source.path for source in tree}
    known |= {f"{source.path}:{function.name}" for source in tree for function in functions(source.tree)}
    assert set(LONGER) <= known


def test_journal_core_fits_its_budget(tree: list[Source]) -> None:
    """Code lines: comments, docstrings and blank lines are free, so that nobody saves on them."""
    size = sum(len(code_lines(source)) for source in tree if source.path.startswith("sandbox/journal/"))
    assert 0 < size <= CORE_LINES_MAX


def test_journal_core_imports_only_what_is_pure(tree: list[Source]) -> None:
    core = [source for source in tree if source.path.startswith("sandbox/journal/")]
    assert core
    stray = {
        f"{source.path}: {module}"
        for source in core
        for module in imported(source.tree)
        if module.split(".")[0] not in PURE_IMPORTS and not module.startswith("sandbox.journal")
    }
    assert stray == set(), "the journal core is pure: hand it what it needs"


def test_our_rules_hold_in_the_whole_tree() -> None:
    assert [str(finding) for finding in findings()] == []


def test_import_contracts_see_every_folder(tree: list[Source]) -> None:
    """A folder without __init__.py is none of the contracts' business, whatever it imports."""
    folders = {Path(source.path).parent for source in tree}
    product = {folder for folder in folders if folder.parts and folder.parts[0] in CONTRACTED}
    assert {str(folder) for folder in product if not (REPOSITORY / folder / "__init__.py").exists()} == set()


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def code_lines(source: Source) -> set[int]:
    lines = {
        number
        for number, line in enumerate(source.lines(), start=1)
        if line.strip() and not line.strip().startswith("#")
    }
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines
