"""On the real processes: calls of MCP tools and of `http` that wait for a person; nothing leaves before the yes."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rewind import AsyncRewind, Run
from rewind._types import Approval

from sandbox.journal.canonical import canonical_text
from tests.e2e.stack import Stack, eventually
from tests.fixtures.mcp_versions import MODERN, VersionServer
from tests.fixtures.web_server import Asked, Reply, WebServer

pytestmark = pytest.mark.e2e

ALLOW = {"REWIND_EGRESS_ALLOW": "127.0.0.0/8"}
SCRIPT = """import { ApprovalDeniedError, OutcomeUnknownError } from "rewind";
import { fs, http } from "rewind:tools";

const tried = async (call: Promise<any>) => {
  try {
    return await call;
  } catch (e) {
    if (e instanceof OutcomeUnknownError) return "unknown";
    if (!(e instanceof ApprovalDeniedError)) throw e;
    return { tool: e.tool, reason: e.reason ?? null, expired: e.expired };
  }
};

export default async function main(input: { url: string, names: string[] }) {
  const seen = await fs.look({ name: "first" });
  const asked = input.names.map(name => tried(fs.greet({ name })));
  const posted = tried(http.post(input.url, { json: { cents: 5 } }).then(found => found.json));
  return { seen, greeted: await Promise.all(asked), posted: await posted };
}
"""
GREET_LINE, POST_LINE = 16, 17


class Tools(VersionServer):
    """`look` needs no approval, `greet` does; which calls of each were executed."""

    def __init__(self) -> None:
        super().__init__(MODERN)
        self.tools.append({"name": "look", "inputSchema": {"type": "object"}})
        self.executed: list[tuple[str, str, dict[str, Any]]] = []

    def called(self, message: dict[str, Any]) -> Any:
        params = message["params"]
        self.executed.append((params["name"], self.keys[-1], params["arguments"]))
        return super().called({**message, "params": {**params, "name": "greet"}})

    def greeted(self) -> list[str]:
        return [args["name"] for name, _, args in self.executed if name == "greet"]


def posting(asked: Asked) -> Reply:
    return Reply(200, asked.body, (("Content-Type", "application/json"),))


async def pending(client: AsyncRewind, run: str, count: int) -> list[Approval]:
    async def asked() -> list[Approval]:
        found = [approval async for approval in client.approvals.list(run=run, status="pending")]
        return found if len(found) == count else []

    found: list[Approval] = await eventually(asked, what=f"{count} approvals")
    return sorted(found, key=lambda approval: approval.call)


async def started(client: AsyncRewind, mcp: str, web: WebServer, names: list[str]) -> Run:
    await client.toolsets.register(
        "gated",
        mcp=[{"name": "fs", "url": mcp, "approval": ["greet"]}],
        http={"allow": [web.host], "approval": {"expires": "1h"}},
    )
    return await client.runs.start(
        script=SCRIPT, toolset="gated", input={"url": f"{web.url}/pay", "names": names}
    )


async def seen_by_the_approver(client: AsyncRewind, run: str, call: int) -> Approval:
    """The approval of the first greeting: tool, arguments, line, script and what the run did before."""
    seen = await client.approvals.get(run, call)
    assert (seen.tool, seen.args, seen.line, seen.status) == (
        "fs.greet",
        {"name": "Ada"},
        GREET_LINE,
        "pending",
    )
    assert "tried(fs.greet({ name }))" in (seen.frame or "")
    assert (await client.scripts.get(seen.script or "")).raw["source"] == SCRIPT
    assert [(told["tool"], told["status"]) for told in seen.story or []] == [("fs.look", "completed")]
    return seen


@pytest.mark.timeout(180)
async def test_gated_calls_of_servers(database_url: str, s3_url: str, tmp_path: Path) -> None:
    server = Tools()
    async with (
        WebServer(server) as mcp,
        WebServer(posting) as web,
        Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="gated") as client,
    ):
        run = await started(client, f"{mcp.url}/mcp", web, ["Ada", "Bob", "Cyd"])
        first, second, third, post = await pending(client, run.id, 4)
        assert [name for name, _, _ in server.executed] == ["look"]
        assert web.asked == []

        seen = await seen_by_the_approver(client, run.id, first.call)
        posted = await client.approvals.get(run.id, post.call)
        assert (posted.tool, posted.line, posted.args["method"]) == ("http.request", POST_LINE, "POST")
        assert (posted.args["url"], posted.args["json"]) == (f"{web.url}/pay", {"cents": 5})

        assert (await client.approvals.decide(run.id, first.call, "approved", by="ann")).status == "approved"
        await client.approvals.decide(run.id, second.call, "denied", by="ann", reason="not Bob")

        async def one_sent() -> bool:
            return server.greeted() == ["Ada"]

        await eventually(one_sent, what="the approved call at the server")
        assert web.asked == []
        _, key, args = server.executed[-1]
        assert key == f"{run.id}/{first.call}"
        digest = hashlib.sha256(canonical_text(args)).hexdigest()
        journal = list(await client.runs.journal(run.id))
        [scheduled] = [
            entry
            for entry in journal
            if entry["type"] == "schedule_tool_call" and entry["call"] == first.call
        ]
        assert seen.args_sha256 == scheduled["args"]["sha256"] == digest

        decided = await client.approvals.decide_many(
            [
                {"run": run.id, "call": third.call, "decision": "approved"},
                {"run": run.id, "call": second.call, "decision": "approved"},
            ]
        )
        assert [item.code for item in decided] == [None, "approval_settled"]
        await stack.database.advance(3_600_001)  # nobody decides about the request in time
        ended = await client.runs.wait(run.id, timeout_s=60)
        assert ended.status == "completed", ended.raw
        assert ended.output == {
            "seen": f"{MODERN} greets first",
            "greeted": [
                f"{MODERN} greets Ada",
                {"tool": "fs.greet", "reason": "not Bob", "expired": False},
                f"{MODERN} greets Cyd",
            ],
            "posted": {"tool": "http.request", "reason": None, "expired": True},
        }
        assert (sorted(server.greeted()), web.asked, server.faults) == (["Ada", "Cyd"], [], [])


@pytest.mark.timeout(180)
async def test_an_approved_request_is_sent_as_it_was_shown(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    server = Tools()
    async with (
        WebServer(server) as mcp,
        WebServer(posting) as web,
        Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="gated") as client,
    ):
        run = await started(client, f"{mcp.url}/mcp", web, [])
        [asked] = await pending(client, run.id, 1)
        await client.approvals.decide(run.id, asked.call, "approved", by="ann")
        ended = await client.runs.wait(run.id, timeout_s=60)
        assert ended.output["posted"] == {"cents": 5}
        [sent] = web.asked
        assert (sent.method, sent.path, json.loads(sent.body)) == ("POST", "/pay", {"cents": 5})
        assert sent.headers["idempotency-key"] == f"{run.id}/{asked.call}"


@pytest.mark.timeout(240)
async def test_a_death_between_the_decision_and_the_call(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    """The api and the dispatcher are killed as soon as the yes is answered: what was approved is sent, once at most."""
    server = Tools()
    names = [f"n{number}" for number in range(6)]
    async with (
        WebServer(server) as mcp,
        WebServer(posting) as web,
        Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="gated", max_retries=40) as client,
    ):
        run = await started(client, f"{mcp.url}/mcp", web, names)
        *greets, post = await pending(client, run.id, 7)
        for approval in greets:
            await client.approvals.decide(run.id, approval.call, "approved", by="ann")
            stack.serve.kill()
            stack.start_serve()
            await stack.ready()
        await client.approvals.decide(run.id, post.call, "denied", by="ann")
        await stack.database.advance(30_001)  # the leases of the dead dispatchers run out
        ended = await client.runs.wait(run.id, timeout_s=60)
        decisions = [
            entry["call"]
            for entry in await client.runs.journal(run.id)
            if entry["type"] == "approval_decided"
        ]
        assert sorted(decisions) == sorted(approval.call for approval in [*greets, post])
        outcomes = dict(zip(names, ended.output["greeted"], strict=True))
        print(f"\n{Counter(outcomes.values())}")
        assert len(server.greeted()) == len(set(server.greeted()))
        for name, outcome in outcomes.items():
            assert outcome == (f"{MODERN} greets {name}" if outcome != "unknown" else "unknown")
            assert name in server.greeted() or outcome == "unknown"
        assert ended.output["posted"]["reason"] is None
        assert web.asked == []
