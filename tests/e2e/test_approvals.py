"""On the real processes: a script whose calls wait for a person, who says yes, no, or nothing."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from rewind import AsyncRewind

from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e

SCRIPT = """import { ApprovalDeniedError } from "rewind";
import { note, pay } from "rewind:tools";

const tried = async (cents: number) => {
  try {
    return await pay({ cents });
  } catch (e) {
    if (!(e instanceof ApprovalDeniedError)) throw e;
    return [e.tool, e.reason, e.by, e.expired];
  }
};

export default async function main() {
  await note({ text: "begun" });
  return [await tried(1), await tried(2), await tried(3)];
}
"""
GATED_LINE = 6


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": "", "input_schema": {"type": "object"}, **fields}


async def waits(client: AsyncRewind, run: str, call: int) -> None:
    async def asked() -> bool:
        found = [approval async for approval in client.approvals.list(run=run, status="pending")]
        return [approval.call for approval in found] == [call]

    await eventually(asked, what=f"the approval of call {call}")


async def execute(stack: Stack, name: str, result: Any) -> None:
    """Work at one task of this tool, as a host does."""
    headers = {"authorization": f"Bearer {stack.api_key}"}
    async with httpx2.AsyncClient(base_url=stack.url, headers=headers, timeout=70) as http:
        claimed = await http.post("/v1/tasks/claim", json={"tools": [name], "max": 1, "wait": "60s"})
        [task] = claimed.json()["tasks"]
        item = {"token": task["token"], "result": result}
        answer = await http.post("/v1/tasks/complete", json={"items": [item]})
        assert answer.json()["results"][0]["ok"]


@pytest.mark.timeout(180)
async def test_yes_no_and_silence(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path, workers=2) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="gated") as client,
    ):
        tools = [tool("note"), tool("pay", approval={"expires": "1h"})]
        toolset = await client.toolsets.register("shop", tools=tools)
        assert toolset.warnings == []
        run = (await client.runs.start(script=SCRIPT, toolset="shop")).id
        await execute(stack, "note", {"noted": True})
        await waits(client, run, 2)
        seen = await client.approvals.get(run, 2)
        assert (seen.args, seen.line, seen.status) == ({"cents": 1}, GATED_LINE, "pending")
        assert seen.frame is not None
        assert "return await pay({ cents });" in seen.frame
        assert seen.story is not None
        assert [(call["tool"], call["status"], call["result"]) for call in seen.story] == [
            ("note", "completed", '{"noted":true}')
        ]
        owner = await stack.owner_of(run)
        if owner is not None:  # whoever has the run dies between the question and the answer
            await stack.kill_worker(owner)
        assert (await client.approvals.decide(run, 2, "approved", by="ann")).status == "approved"
        await execute(stack, "pay", {"paid": 1})
        await waits(client, run, 3)
        await client.approvals.decide(run, 3, "denied", by="ann", reason="too much")
        await waits(client, run, 4)
        await stack.database.advance(3_600_000)
        ended = await client.runs.wait(run, timeout_s=60)
        assert (ended.status, ended.output) == (
            "completed",
            [{"paid": 1}, ["pay", "too much", "ann", False], ["pay", None, None, True]],
        )
        journal = list(await client.runs.journal(run))
        decided = [entry["decision"] for entry in journal if entry["type"] == "approval_decided"]
        assert decided == ["approved", "denied", "expired"]
        forked = await client.runs.fork(run, at=journal[-2]["seq"])
        await waits(client, forked.id, 4)  # what is made anew asks again
        await client.runs.cancel(forked.id)
        assert (await client.runs.wait(forked.id, timeout_s=60)).status == "cancelled"
        [withdrawn] = [approval async for approval in client.approvals.list(run=forked.id)]
        assert withdrawn.status == "expired"
