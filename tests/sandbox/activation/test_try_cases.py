"""The case scripts with their mocks and signals in virtual time; then their own journals and cassettes."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.journal.canonical import parse_json
from tests.sandbox.activation.conftest import Stage

CASES = sorted((Path(__file__).parents[2] / "cases" / "scripts").glob("*/script.ts"))
pytestmark = pytest.mark.asyncio(loop_scope="module")


def load(script: Path) -> tuple[str, Any, Any]:
    """Numbers as a request's are: those that no integer of 64 bits holds are floats."""
    read = (script.parent / "tools.json").read_text(), (script.parent / "expected.json").read_text()
    return script.read_text(), parse_json(read[0]), parse_json(read[1])


def check(report: dict[str, Any], expected: dict[str, Any]) -> None:
    assert report["status"] == expected["status"], report
    if expected["status"] == "completed":
        assert report["output"] == expected["output"]
    else:
        assert report["error"]["name"] == expected["error"]["name"]
        assert expected["error"]["message"] in report["error"]["message"]
    assert [[call["tool"], call["args"]] for call in report["calls"]] == expected["calls"]
    logs = [
        f"{log['level']} " + " ".join(v if isinstance(v, str) else json.dumps(v) for v in log["values"])
        for log in report["logs"]
    ]
    assert logs == expected["logs"]
    assert report["missing"] == []


@pytest.mark.parametrize("script", CASES, ids=lambda path: path.parent.name)
async def test_case(stage: Stage, script: Path) -> None:
    source, spec, expected = load(script)
    tools = [
        {"name": name, "input_schema": known["inputSchema"], "output_schema": known["outputSchema"]}
        for name, known in spec["schemas"].items()
    ]
    report = await stage.tried(
        source, *tools, input=spec["input"], mocks=spec["tools"], signals=spec.get("signals")
    )
    check(report, expected)
    assert [entry["seq"] for entry in report["journal"]] == list(range(len(report["journal"])))

    replayed = await stage.replayed(source, report["journal"], *spec["tools"])
    assert (replayed["matches"], replayed["output"]) == (True, report["output"]), replayed
    assert replayed["calls"] == report["calls"]

    again = await stage.tried(source, *spec["tools"], input=spec["input"], cassette=cassette_of(report))
    check(again, expected)
    assert again["unused"] == []
    assert again["journal"] == report["journal"]


def cassette_of(report: dict[str, Any]) -> dict[str, Any]:
    started = report["journal"][0]
    signals = [
        {
            "name": n["name"],
            "payload": n["payload"]["value"],
            "id": n["id"],
            "at": n["time"] - started["time"],
        }
        for n in report["journal"]
        if n["type"] == "signal_received"
    ]
    head = {"cassette": 1, "seed": started["seed"], "started_at": started["time"]}
    return {**head, "calls": report["calls"], "signals": signals}


async def test_every_case_is_here() -> None:
    assert len(CASES) == 52
