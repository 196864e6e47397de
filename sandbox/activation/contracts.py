"""What the tools of a toolset take and give, for tests of scripts: the same schemas as in a real run.

A check that is not known to be cheap is left out: a worker has others to serve, and nothing is sent here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from sandbox.activation.scenario import Failure, ScenarioError
from sandbox.compiler.json_schema import ValueValidator
from sandbox.journal.canonical import parse_json

CHECKED = frozenset({"host", "mcp"})
"""Kinds of tools whose results a real run checks; those of the others Rewind makes itself."""


class Contracts:
    """By the tools' names in scripts; validators are made when they are needed."""

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        self._tools = {tool["name"]: tool for tool in tools if not tool.get("disabled")}
        self._inputs: dict[str, ValueValidator] = {}

    def refused(self, tool: str, args: bytes) -> Failure | None:
        """The error of a call whose arguments the tool does not take: it is never sent."""
        definition = self._tools.get(tool)
        if definition is None or "input_schema" not in definition:
            return None
        if tool not in self._inputs:
            self._inputs[tool] = ValueValidator(definition["input_schema"])
        validator = self._inputs[tool]
        problem = validator.problem(parse_json(args)) if validator.is_cheap(len(args)) else None
        if problem is None:
            return None
        message = f"the arguments do not match the tool's input schema: {problem}"
        return Failure("ToolError", "invalid_arguments", message)

    def check_mocks(self, mocks: Any) -> None:
        """Refuse a mock with a result that the tool could not give. `mocks`: read without errors before.

        Errors: ScenarioError.
        """
        for name, rows in (mocks or {}).items():
            definition = self._tools.get(name, {})
            if "output_schema" not in definition or definition.get("kind", "host") not in CHECKED:
                continue
            validator = ValueValidator(definition["output_schema"])
            for index, row in enumerate(rows):
                if not validator.is_cheap(len(orjson.dumps(row.get("result")))):
                    continue
                for path, message in validator.problems(row["result"]) if "result" in row else []:
                    at = path if not path or path.startswith("[") else f".{path}"
                    said = f"{message}: the output schema of {name} forbids this result, in a real run the call fails with `invalid_result`"
                    raise ScenarioError(f"mocks[{name!r}][{index}].result{at}", said)
