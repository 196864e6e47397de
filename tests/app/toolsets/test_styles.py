"""Lists as servers of different languages and libraries give them: every tool of tests/cases/mcp-lists can be called."""

import json
from typing import Any

import pytest

from app.toolsets.mending import mended
from sandbox.compiler.check import Checker
from sandbox.compiler.diagnostics import readable
from sandbox.compiler.json_schema import check_schema
from sandbox.compiler.toolset import toolset_of
from sandbox.journal.ids import Epoch
from tests.fixtures.api import Api
from tests.fixtures.cases import OWN
from tests.fixtures.hostile_mcp import HostileServer
from tests.fixtures.typescript import type_check

LISTS = sorted((OWN / "mcp-lists").glob("*.json"))
SCRIPT = 'import { s } from "rewind:tools";\nexport default async function main() {\n  %s\n}\n'


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
async def test_a_list_registers_and_a_script_uses_all_of_it(api: Api, path: Any) -> None:
    case = json.loads(path.read_text())
    async with HostileServer() as server:
        server.tools = case["tools"]
        body = {"name": "style", "mcp": [{"name": "s", "url": server.url}]}
        answer = await api.call("POST", "/v1/toolsets", json=body)
        assert answer.status_code == 201, answer.text
    view = answer.json()
    assert [tool["disabled"] for tool in view["tools"] if "disabled" in tool] == []
    usable = [tool for tool in case["tools"] if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    assert len(view["tools"]) == len(usable)
    prompt = (await api.call("GET", "/v1/toolsets/style/declarations?format=prompt")).text
    declared = (await api.call("GET", "/v1/toolsets/style/declarations")).text
    script = SCRIPT % case["script"]
    for tool in view["tools"]:
        member = tool["name"].partition(".")[2]
        assert member in prompt
        assert f"s.{member}(" in script
    assert [found for found in type_check({"tools.d.ts": declared}) if found.file == "tools.d.ts"] == []
    async with Checker(children=1) as checker:
        toolset = toolset_of("style", view["tools"])
        report = await checker.check(script, toolset, epoch=Epoch(1), tenant="tests")
        said = readable(script, toolset, report.diagnostics, [])
    assert [one for one in said if one.severity == "error"] == []


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ({"properties": []}, {"properties": {}}),
        ({"properties": None, "required": None, "description": None}, {}),
        ({"required": {}}, {}),
        ({"required": "a"}, {"required": ["a"]}),
        ({"required": ["a", "b", "a"]}, {"required": ["a", "b"]}),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "required": []}, {"$schema": "http://json-schema.org/draft-04/schema#"}),
        ({"properties": {"a": {"required": True}, "b": {"required": False}}, "required": ["c"]},
         {"properties": {"a": {}, "b": {}}, "required": ["c", "a"]}),
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "any"}, {}),
        ({"items": {"type": "int"}, "anyOf": [{"type": "dict"}, {"enum": None}]}, {"items": {"type": "integer"}, "anyOf": [{"type": "object"}, {}]}),
        ({"items": [{"type": "float"}], "$defs": {"a": {"type": "bool"}}}, {"items": [{"type": "number"}], "$defs": {"a": {"type": "boolean"}}}),
    ],
)  # fmt: skip
def test_what_is_meant(schema: Any, meant: Any) -> None:
    with pytest.raises(Exception, match=r"is not|non-unique|less than"):
        check_schema(schema)
    made, note = mended(schema)
    assert made == meant
    assert note
    assert check_schema(made) == []
    assert mended(made) == (made, None)


@pytest.mark.parametrize(
    "schema",
    [
        {
            "properties": {
                "required": {"type": "string"},
                "type": {"const": None},
                "properties": {"default": None},
            }
        },
        {"enum": [None, [], {"type": "int"}], "default": None, "examples": [None]},
        {"const": {"type": "STRING", "properties": []}},
    ],
)
def test_what_is_right_is_left_alone(schema: Any) -> None:
    assert mended(schema) == (schema, None)


def test_a_warning_names_a_few_places() -> None:
    properties = {f"p{n}": {"type": "int"} for n in range(9)}
    _, note = mended({"properties": properties})
    assert note is not None
    assert note.startswith("properties.p0.type is 'int', and taken as integer; ")
    assert note.endswith(", and 6 more")
