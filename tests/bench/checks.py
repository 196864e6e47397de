"""What checking a script costs: warm, and beside one and two other tenants' type bombs."""

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any

from tests.bench import budgets
from tests.bench.report import quantile
from tests.bench.session import Phase, Session, latencies

TOOLS = 60
LINES = 100
TOOLSET = "checks"
BOMBS = sorted((Path(__file__).parents[1] / "cases" / "type-bombs").glob("*.ts"))


def tool(number: int) -> dict[str, Any]:
    """A tool of usual size: four arguments, a list of objects as its result."""
    text, count = {"type": "string", "description": "What it is about."}, {"type": "integer"}
    given = {"repo": text, "query": text, "page": count, "state": {"enum": ["open", "closed", "all"]}}
    labels = {"type": "array", "items": text}
    item = {"id": count, "title": text, "state": {"enum": ["open", "closed"]}, "labels": labels}
    items = {"type": "array", "items": {"type": "object", "properties": item}}
    return {
        "name": f"tracker.list_{number}",
        "description": "Lists what is there.",
        "input_schema": {"type": "object", "properties": given, "required": ["repo"]},
        "output_schema": {"type": "object", "properties": {"items": items}, "required": ["items"]},
    }


def script() -> str:
    """A new script of LINES lines: every fourth calls a tool and uses what it gives."""
    body = []
    for number in range(LINES // 4 - 2):
        body += [
            f'  const page{number} = await tracker.list_{number}({{ repo: input.repo, state: "open" }});',
            f"  for (const one of page{number}.items) {{",
            f'    if (one.labels?.includes("bug")) found.push(`${{one.id}} ${{one.title}} {number}`);',
            "  }",
        ]
    head = [
        f"// {secrets.token_hex(8)}",
        'import { tracker } from "rewind:tools";',
        "export default async function main(input: { repo: string; days: number }) {",
        "  const found: string[] = [];",
    ]
    return "\n".join([*head, *body, "  return { found, total: found.length };", "}", ""])


async def checks(session: Session) -> None:
    """New scripts against a known toolset, one after another; then the same beside one and two other tenants' type bombs."""
    await session.driver.client.toolsets.register(TOOLSET, tools=[tool(number) for number in range(TOOLS)])
    for _ in range(4):  # all children have the toolset open
        await asyncio.gather(*(_check(session, f"warm{number}") for number in range(3)))
    took = [await _check(session, "bench") for _ in range(session.scaled(60, 15))]
    name = f"check of a new script, {LINES} lines, {TOOLS} tools, p50"
    session.report.add(name, quantile(took, 0.5), "ms", budgets.CHECK_P50)
    alone = asyncio.create_task(_bombs(session, "author"))
    beside = [await _check(session, "bench")]
    while not alone.done():
        beside.append(await _check(session, "bench"))
    session.report.add("type bomb, worst", max(await alone), "s", budgets.BOMB)
    surge = asyncio.gather(*(_bombs(session, namespace) for namespace in ("hostile", "evil")))
    while not surge.done():
        beside.append(await _check(session, "bench"))
    await surge
    session.report.add(
        "check beside one and two tenants' bombs, worst", 1_000 * max(beside), "ms", budgets.CHECK_BESIDE
    )
    session.detail("checks", warm=latencies(took), beside=latencies(beside))


async def _check(session: Session, namespace: str) -> float:
    source = script()
    began = time.perf_counter()
    found = await session.driver.client.scripts.check(source, toolset=TOOLSET, namespace=namespace)
    if not found.ok:
        raise AssertionError(f"a good script was refused: {found.diagnostics}")
    return time.perf_counter() - began


async def _bombs(session: Session, namespace: str) -> list[float]:
    """What each costs its author, one after another."""
    took = []
    for path in BOMBS:
        began = time.perf_counter()
        source = f"// {secrets.token_hex(8)}\n{path.read_text()}"
        await session.driver.client.scripts.check(source, namespace=namespace)
        took.append(time.perf_counter() - began)
    return took


PHASES = (Phase("checks", checks, 60, 30),)
