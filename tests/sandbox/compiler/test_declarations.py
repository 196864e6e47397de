"""Declarations of toolsets: real and nasty schemas compile, and say what they must."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.toolsets.names import script_names
from sandbox.compiler.declarations import declarations, declare
from tests.fixtures.cases import OWN, shared_cases
from tests.fixtures.typescript import type_check


def pinned(name: str, input_schema: Any, **fields: Any) -> dict[str, Any]:
    return {"name": name, "original": name, "description": "", "input_schema": input_schema, **fields}


def recorded_tools() -> list[dict[str, Any]]:
    """Those of the ten recorded servers, as they are pinned."""
    return [tool for case in sorted(shared_cases("mcp-tools").glob("*.json")) for tool in of_server(case)]


def of_server(case: Path) -> Iterator[dict[str, Any]]:
    server = case.stem.replace("-", "_")
    listed = json.loads(case.read_text())["tools"]
    names = script_names([f"{server}.{tool['name']}" for tool in listed])
    for tool, name in zip(listed, names, strict=True):
        output = {} if "outputSchema" not in tool else {"output_schema": tool["outputSchema"]}
        yield {
            **pinned(name, tool["inputSchema"], description=tool.get("description", ""), **output),
            "original": tool["name"],
        }


def errors_in(tools: list[dict[str, Any]], script: str = "", **options: Any) -> list[str]:
    found = type_check({"tools.d.ts": declarations(tools, **options), "script.ts": script})
    return [f"{error.file}:{error.line} {error.code} {error.message}" for error in found]


def test_every_recorded_tool_compiles() -> None:
    tools = recorded_tools()
    assert len(tools) == 173
    made = declare(tools, http=True)
    assert made.warnings == ()
    assert type_check({"tools.d.ts": made.text}) == []


def test_every_nasty_schema_compiles_as_input_and_output() -> None:
    cases = sorted((OWN / "nasty-schemas").glob("*.json"))
    assert len(cases) >= 16
    tools = [
        pinned(
            f"nasty.n{case.stem}", json.loads(case.read_text()), output_schema=json.loads(case.read_text())
        )
        for case in cases
    ]
    assert errors_in(tools) == []
    for tool in tools:
        assert errors_in([{**tool, "name": "alone"}]) == []
