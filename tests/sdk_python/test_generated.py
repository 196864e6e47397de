"""The blocking resources are those that the asynchronous ones make."""

import ast
import subprocess
import sys
from pathlib import Path

SDK = Path(__file__).resolve().parents[2] / "sdk_python"


def test_the_blocking_resources_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, SDK / "make_sync.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_package_imports_nothing_of_the_server() -> None:
    """Only itself, the standard library, and what its pyproject.toml names (pydantic brings its core)."""
    allowed = {
        *sys.stdlib_module_names,
        "rewind",
        "httptools",
        "orjson",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
    }
    files = sorted((SDK / "rewind").rglob("*.py"))
    assert len(files) > 20
    imported = {
        (name.partition(".")[0], file.name)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        for name in _names(node)
    }
    assert {pair for pair in imported if pair[0] not in allowed} == set()


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
