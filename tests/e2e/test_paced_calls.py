"""Limits of MCP servers on the real processes, measured at the servers: from a script, over the dispatcher, to HTTP."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from rewind import AsyncRewind

from app.dispatcher.loop import SERVER_MAX
from tests.e2e.stack import Stack, pause
from tests.fixtures.mcp_versions import VersionServer, text_result
from tests.fixtures.web_server import Asked, Reply, Stream, WebServer

pytestmark = pytest.mark.e2e

ALLOW = {"REWIND_EGRESS_ALLOW": "127.0.0.0/8,localhost"}
PER_MS, RATE = 1_000, 4
SCRIPT = """import { http, keyed, narrow, rated, stuck, wide } from "rewind:tools";

const code = async (call: Promise<any>) => { try { return await call; } catch (e: any) { return e.code; } };
const many = (count: number, call: (n: number) => Promise<any>) => Promise.all(Array.from({ length: count }, (_, n) => call(n)));

export default async function main(input: { port: number }) {
  const stopped = Promise.all([code(stuck.greet({})), code(stuck.greet({}, { timeout: "150ms" }))]);
  const [a, b, c, d, e] = await Promise.all([
    many(12, () => narrow.greet({})),
    many(12, n => keyed.greet({ account: `a${n % 3}` })),
    many(12, () => rated.greet({})),
    many(80, () => wide.greet({})),
    many(8, n => http.get(`http://${n % 2 ? "localhost" : "127.0.0.1"}:${input.port}/`)),
  ]);
  return { counts: [a.length, b.length, c.length, d.length, e.length], stopped: await stopped };
}
"""


class Measured(VersionServer):
    """Takes `ms` for a call, once `together` calls have been there at once; how many there were, and when they came."""

    def __init__(self, ms: int | None, together: int = 1) -> None:
        super().__init__("2025-11-25")
        self._ms = ms
        self._together = together
        self._so_many = asyncio.Event()
        self._now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.at: list[float] = []

    def called(self, message: dict[str, Any]) -> Reply | Stream | None:
        self.at.append(asyncio.get_running_loop().time())
        if self._ms is None:
            return None
        names = ("in all", str(message["params"]["arguments"].get("account")))
        for name in names:
            self._now[name] += 1
            self.most[name] = max(self.most[name], self._now[name])
        if self._now["in all"] >= self._together:
            self._so_many.set()
        return Stream(self._answer(message, names, self._ms / 1000))

    async def _answer(
        self, message: dict[str, Any], names: tuple[str, ...], takes_s: float
    ) -> AsyncIterator[bytes]:
        await self._so_many.wait()
        await pause(takes_s)
        for name in names:
            self._now[name] -= 1
        yield b"data: " + self.body({"id": message["id"], "result": text_result("done")}) + b"\n\n"


class Hosts:
    """A web server that counts requests at once by the host that they name."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def __call__(self, asked: Asked) -> Stream:
        names = (asked.headers["host"].partition(":")[0], "in all")
        for name in names:
            self.now[name] += 1
            self.most[name] = max(self.most[name], self.now[name])

        async def answer() -> AsyncIterator[bytes]:
            await pause(0.06)
            for name in names:
                self.now[name] -= 1
            yield b"done"

        return Stream(answer(), (("Content-Type", "text/plain"),))


@pytest.mark.timeout(180)
async def test_limits_hold_at_the_servers(database_url: str, s3_url: str, tmp_path: Path) -> None:
    limits: dict[str, tuple[int | None, dict[str, Any]]] = {
        "narrow": (60, {"concurrency": {"limit": 2}}),
        "keyed": (60, {"concurrency": {"key": "account", "limit": 1}}),
        "rated": (1, {"rate": {"limit": RATE, "per": PER_MS}}),
        "wide": (60, {}),
        "stuck": (None, {"timeout": "400ms"}),
    }
    servers = {name: Measured(ms, SERVER_MAX if name == "wide" else 1) for name, (ms, _) in limits.items()}
    async with AsyncExitStack() as running:
        webs = {
            name: await running.enter_async_context(WebServer(server)) for name, server in servers.items()
        }
        stack = await running.enter_async_context(Stack(database_url, s3_url, tmp_path, environ=ALLOW))
        client = await running.enter_async_context(
            AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="paced")
        )
        mcp = [
            {"name": name, "url": f"{webs[name].url}/mcp", **fields} for name, (_, fields) in limits.items()
        ]
        hosts = Hosts()
        web = await running.enter_async_context(WebServer(hosts))
        http = {"allow": ["localhost", "127.0.0.1"], "concurrency": {"key": "host", "limit": 1}}
        await client.toolsets.register("paced", mcp=mcp, http=http)
        port = int(web.host.partition(":")[2])
        run = await client.runs.start(script=SCRIPT, toolset="paced", input={"port": port})
        ended = await client.runs.wait(run.id, timeout_s=90)
        assert ended.status == "completed", ended.raw
        assert ended.output == {"counts": [12, 12, 12, 80, 8], "stopped": ["timeout", "timeout"]}
        journal = list(await client.runs.journal(run.id))

    print("\n" + "; ".join(f"{name}: {dict(server.most)}" for name, server in servers.items()))
    assert dict(hosts.most) == {"localhost": 1, "127.0.0.1": 1, "in all": 2}
    assert servers["narrow"].most["in all"] == 2
    assert {servers["keyed"].most[f"a{number}"] for number in range(3)} == {1}
    assert servers["keyed"].most["in all"] > 1
    assert servers["wide"].most["in all"] == SERVER_MAX

    tools = {entry["call"]: entry["tool"] for entry in journal if entry["type"] == "schedule_tool_call"}
    begun = sorted(
        entry["begun_at"]
        for entry in journal
        if entry["type"] == "tool_call_completed" and tools[entry["call"]] == "rated.greet"
    )
    assert len(begun) == 12
    for at in begun:
        assert sum(at <= other < at + PER_MS for other in begun) <= RATE
    at_the_server = servers["rated"].at
    assert at_the_server[-1] - at_the_server[0] >= (12 / RATE - 1) * PER_MS / 1000 - 0.5
    outcomes = Counter(entry["call"] for entry in journal if entry["type"] == "tool_call_completed")
    assert set(outcomes.values()) == {1}
    assert {name: len(server.keys) for name, server in servers.items()} == {
        "narrow": 12, "keyed": 12, "rated": 12, "wide": 80, "stuck": 2,
    }  # fmt: skip
    assert [fault for server in servers.values() for fault in server.faults] == []
