"""A customer's process that serves host tools, to be killed: `python -m tests.chaos.host_tools URL KEY WORLD`.

What its tools do happens in the world's process (`tests.chaos.tool_server`), which writes it down.
"""

import asyncio
import sys

import httpx2
import rewind

from tests.e2e.stack import pause

TOOLSET, CHORES = "chaos", "chores"
NAMESPACES = ("acme", "bolt", "crate")
RETRIES = {"attempts": 4, "backoff": "50ms", "max": "200ms"}
BIG_CHARS = 90_000
SLOTS = 24


def host_tools(world: str, client: httpx2.AsyncClient | None = None) -> list[rewind.Tool]:
    """The declarations, and with a client the functions that do it."""

    async def act(ctx: rewind.ToolContext, step: int, before: int, after: int) -> dict[str, object]:
        assert client is not None
        await pause(before / 1000)
        asked = {"tool": ctx.tool, "key": ctx.idempotency_key, "step": step}
        answer = await client.post(f"{world}/effect", json=asked)
        await pause(after / 1000)
        return {"step": step, "number": answer.json()["number"]}

    @rewind.tool(name="host.once")
    async def once(step: int, before: int, after: int, ctx: rewind.ToolContext) -> dict[str, object]:
        return await act(ctx, step, before, after)

    @rewind.tool(name="host.again", idempotent=True)
    async def again(step: int, before: int, after: int, ctx: rewind.ToolContext) -> dict[str, object]:
        return await act(ctx, step, before, after)

    @rewind.tool(name="host.big", idempotent=True)
    async def big(step: int, before: int, after: int, ctx: rewind.ToolContext) -> dict[str, object]:
        return {**await act(ctx, step, before, after), "pad": "x" * BIG_CHARS}

    @rewind.tool(name="host.flaky", idempotent=True, retry=RETRIES)
    async def flaky(step: int, before: int, after: int, ctx: rewind.ToolContext) -> dict[str, object]:
        """Fails at first, for a reason that passes."""
        found = await act(ctx, step, before, after)
        if ctx.attempt == 1:
            raise rewind.ToolError("busy", code="busy", retryable=True)
        return found

    @rewind.tool(name="host.refuse")
    async def refuse(step: int, before: int, after: int, ctx: rewind.ToolContext) -> dict[str, object]:
        """Has its effect, and then fails for good."""
        await act(ctx, step, before, after)
        raise rewind.ToolError("no", code="refused")

    return [once, again, big, flaky, refuse]


async def main(url: str, key: str, world: str) -> None:
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=30) as client,
        rewind.AsyncRewind(api_key=key, base_url=url, max_retries=40) as sdk,
    ):
        worker = sdk.worker(tools=host_tools(world, client), max_slots=SLOTS)
        await worker.run_until_signal()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
