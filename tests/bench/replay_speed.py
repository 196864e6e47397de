"""How fast the sandbox replays: `python -m tests.bench.replay_speed [AWAITS]`.

One run with many recorded calls goes through a confined child in one delivery, as a cold replay does; the
database is left out. Prints one line per figure.
"""

import asyncio
import json
import statistics
import sys
import time

from sandbox.isolate.api import RunSetup, ToolName
from sandbox.isolate.compiled import Compiled, Import
from sandbox.isolate.pool import ChildPool

BUDGET_PER_S = 15_000
CHUNK = 4_000
ROUNDS = 5
START = 1_790_000_000_000

SCRIPT = Compiled(
    js="async function main(input) { let sum = 0; for (;;) { const r = await step({ sum }); sum += r.n; } }",
    params=[Import("rewind:tools", "step", "step", 1, 1)],
    main="main",
)


def history(awaits: int) -> list[bytes]:
    value = {"bytes": 7, "sha256": "0" * 64, "value": {"n": 1}}
    started = {
        "seq": 0,
        "type": "run_started",
        "time": START,
        "input": value,
        "seed": "0" * 31 + "1",
        "deadline": START,
        "labels": {},
        "limits": {},
    }
    completed = [
        {
            "seq": 2 * n,
            "type": "tool_call_completed",
            "time": START + n,
            "call": n,
            "attempts": 1,
            "result": value,
        }
        for n in range(1, awaits + 1)
    ]
    return [json.dumps(event).encode() for event in (started, *completed)]


async def main(awaits: int) -> None:
    events = history(awaits)
    setup = RunSetup("r", "n", 1, SCRIPT, (ToolName("step", gated=False),), 5_000, 128 * 1024 * 1024)
    walls: list[float] = []
    cpu_us: list[int] = []
    opens: list[float] = []
    async with ChildPool(children=1) as pool:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            isolate = await pool.open(setup)
            opens.append(time.perf_counter() - began)
            began, used = time.perf_counter(), 0
            for start in range(0, len(events), CHUNK):
                used += (await isolate.deliver(events[start : start + CHUNK])).cpu_us
            walls.append(time.perf_counter() - began)
            cpu_us.append(used)
            await isolate.close()
    wall = statistics.median(walls)
    print(f"replay           {awaits / wall:12,.0f} recorded awaits/s (budget {BUDGET_PER_S:,})")
    print(f"isolate CPU      {statistics.median(cpu_us) / awaits:12.1f} us per await")
    print(f"open             {statistics.median(opens) * 1e3:12.2f} ms")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
