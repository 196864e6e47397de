"""Scripts that take memory: each kind of bomb ends its own run and nothing else, and nothing is left behind."""

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from sandbox.isolate import pool as pools
from sandbox.isolate.api import ChildDied, IsolateLost, LimitExceeded, ToolName
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool
from tests.sandbox.isolate.test_hostile import source
from tests.sandbox.isolate.test_limits import LOOP, completed, exceeded, opened, started
from tests.sandbox.isolate.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOAK = os.environ.get("REWIND_SOAK") == "1"
MIB = 1024 * 1024
HEAP_BYTES = 128 * MIB
RSS_BYTES_MAX = HEAP_BYTES + 1_700 * MIB
SERVED_WITHIN_S = 10
"""Two on a machine that does nothing else: a new process is there after half a second."""
KINDS = ["array", "string", "buffer", "map", "spread", "closure", "bigint", "json", "sharedTail", "holes"]
ECHO = (ToolName("probe.echo", gated=False),)
ORDINARY = """
import { probe } from "rewind:tools";
export default async function main(input: { n: number }) {
  let sum = 0;
  for (let i = 0; i < 5; i++) {
    const { value } = await probe.echo({ value: input.n * 10 + i });
    sum += new Uint8Array(1000).fill(1).reduce((a, b) => a + b) + value;
  }
  return sum;
}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChildPool]:
    async with ChildPool(children=2) as children:
        yield children


class Peak:
    """The highest resident memory of every child that the pool had meanwhile."""

    def __init__(self, pool: ChildPool) -> None:
        self._pool = pool
        self._done = threading.Event()
        self.bytes = 0

    def watch(self) -> None:
        while not self._done.wait(0.005):
            for child in self._pool.children:
                self.bytes = max(self.bytes, status(child.pid, "VmHWM"))

    def stop(self) -> None:
        self._done.set()


@contextmanager
def peak_of(pool: ChildPool) -> Iterator[Peak]:
    peak = Peak(pool)
    watcher = threading.Thread(target=peak.watch)
    watcher.start()
    try:
        yield peak
    finally:
        peak.stop()
        watcher.join()


def status(pid: int, field: str) -> int:
    """In bytes; 0 when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), 0)


async def stripped(pool: ChildPool, text: str) -> Compiled:
    compiled = await pool.strip(text, 1)
    assert isinstance(compiled, Compiled), compiled
    return compiled


def bomb_text(first: str) -> str:
    return 'import { probe } from "rewind:tools";\n' + source("17").replace(
        "  const keep", f"  void probe; {first}\n  const keep"
    )


async def explode(pool: ChildPool, compiled: Compiled, kind: str, first: str) -> None:
    """It ends with the heap limit and true figures, or with a RangeError that the language has for lengths."""
    world = World(pool=pool, compiled=compiled, tools=ECHO, input={"kind": kind}, cpu_ms=20_000)
    try:
        await world.run_to_end()
    except LimitExceeded as limit:
        assert (limit.limit, limit.allowed) == ("heap", HEAP_BYTES), limit
        assert limit.used > limit.allowed
        assert limit.event_seq == (2 if first else 0)
    else:
        assert world.error["name"] == "RangeError"


async def ordinary(pool: ChildPool, compiled: Compiled, n: int) -> int:
    """Its output; replayed as a worker does when its isolate or the whole process was lost to another run."""
    while True:
        world = World(pool=pool, compiled=compiled, tools=ECHO, input={"n": n})
        try:
            await world.run_to_end()
        except IsolateLost:
            continue
        output: int = world.output
        return output


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ["", "await probe.echo({});"], ids=["at the start", "after an await"])
async def test_17_memory_bombs(pool: ChildPool, kind: str, first: str) -> None:
    compiled = await stripped(pool, bomb_text(first))
    neighbour = await stripped(pool, ORDINARY)
    with peak_of(pool) as peak:
        await explode(pool, compiled, kind, first)
        exploded = time.monotonic()
        assert await ordinary(pool, neighbour, 1) == 5 * 1000 + 50 + 10
    assert time.monotonic() - exploded < SERVED_WITHIN_S
    assert 0 < peak.bytes < RSS_BYTES_MAX, f"{peak.bytes // MIB} MiB"


async def test_O22_spreading_a_huge_string_kills_no_process(pool: ChildPool) -> None:  # noqa: N802
    compiled = await stripped(pool, bomb_text(""))
    before = {child.pid for child in pool.children}
    await explode(pool, compiled, "spread", "")
    assert {child.pid for child in pool.children} == before


async def test_O23_endless_awaits_a_hundred_times_crash_nothing_and_leak_nothing() -> None:  # noqa: N802
    """With the full CPU budget in `make soak`."""
    async with ChildPool(children=1) as pool:
        compiled = await stripped(pool, source("15"))
        child = pool.children[0]
        for round_ in range(110):
            world = World(pool=pool, compiled=compiled, tools=ECHO, cpu_ms=5_000 if SOAK else 60)
            with pytest.raises(LimitExceeded) as caught:
                await world.run_to_end()
            assert caught.value.limit == "cpu"
            if round_ == 9:
                before = status(child.pid, "VmRSS")
        assert [one.pid for one in pool.children] == [child.pid]
        await ordinary(pool, await stripped(pool, ORDINARY), 1)
        assert status(child.pid, "VmRSS") < before * 1.1


async def test_what_an_endless_chain_of_promises_took_is_given_back(pool: ChildPool) -> None:
    async with ChildPool(children=1) as alone:
        compiled = await stripped(alone, source("15"))
        before = status(alone.children[0].pid, "VmRSS")
        with pytest.raises(LimitExceeded, match="cpu"), peak_of(alone) as peak:
            await World(pool=alone, compiled=compiled, tools=ECHO, cpu_ms=3_000).run_to_end()
        await ordinary(alone, await stripped(alone, ORDINARY), 1)
        assert peak.bytes > before + 100 * MIB
        assert status(alone.children[0].pid, "VmRSS") < before + 50 * MIB


async def test_twenty_ordinary_runs_among_a_stream_of_bombs(pool: ChildPool) -> None:
    compiled = await stripped(pool, bomb_text("await probe.echo({});"))
    plain = await stripped(pool, ORDINARY)
    going = True
    exploded = 0

    async def stream(kinds: list[str]) -> None:
        nonlocal exploded
        while going:
            for kind in kinds:
                try:
                    await explode(pool, compiled, kind, "await")
                except ChildDied:  # it shared its process with the other stream's bomb
                    continue
                exploded += 1

    streams = [
        asyncio.create_task(stream(["buffer", "array"])),
        asyncio.create_task(stream(["holes", "closure"])),
    ]
    outputs = await asyncio.gather(*(ordinary(pool, plain, n) for n in range(20)))
    while exploded < 4:
        outputs += await asyncio.gather(*(ordinary(pool, plain, n) for n in range(20)))
    going = False
    await asyncio.gather(*streams)
    assert outputs == [5 * 1000 + 50 * (i % 20) + 10 for i in range(len(outputs))]


# -- Buffers


@pytest.mark.parametrize(
    "body",
    [
        "for (;;) try { keep.push(new ArrayBuffer(2 ** 20)) } catch {}",
        "for (;;) try { keep.push(new Float64Array(5000)) } catch {}",
        "for (;;) try { keep.push(new Uint8Array(2 ** 26).fill(1)) } catch {}",
        "for (;;) try { keep.push(keep.at(-1)?.slice() ?? new Uint8Array(2 ** 22)) } catch {}",
    ],
)
async def test_buffers_are_limited_and_no_script_can_catch_it(pool: ChildPool, body: str) -> None:
    pids = {child.pid for child in pool.children}
    bomb = await opened(pool, f"async function main() {{ const keep = []; {body} }}", cpu_ms=20_000)
    limit = await exceeded(bomb, started())
    assert (limit.limit, limit.allowed) == ("heap", HEAP_BYTES)
    assert HEAP_BYTES < limit.used < 3 * HEAP_BYTES
    assert {child.pid for child in pool.children} == pids, "the process need not die for it"


async def test_buffers_that_nobody_holds_do_not_count(pool: ChildPool) -> None:
    isolate = await opened(
        pool,
        "async function main() { let n = 0; for (let i = 0; i < 2_000; i++) n += new Uint8Array(2 ** 20).length; return n; }",
        cpu_ms=20_000,
    )
    delivery = await isolate.deliver([started()])
    assert json.loads(delivery.commands[-1]["output"]) == 2_000 * 2**20
    await isolate.close()


@pytest.mark.parametrize("length", [8, 300])
async def test_a_million_small_typed_arrays_over_many_activations(pool: ChildPool, length: int) -> None:
    rounds = 1_000
    isolate = await opened(
        pool,
        f"async function main() {{ let n = 0; for (let r = 0; r < {rounds}; r++) {{ "
        f"for (let i = 0; i < 1000; i++) n += new Uint8Array({length}).length; await echo({{}}); }} return n; }}",
        cpu_ms=5_000,
    )
    delivery = await isolate.deliver([started()])
    for call in range(1, rounds + 1):
        delivery = await isolate.deliver([completed(call)])
    assert json.loads(delivery.commands[-1]["output"]) == rounds * 1_000 * length
    await isolate.close()


# -- What is left behind


async def test_thousands_of_runs_in_one_process_leave_nothing_behind() -> None:
    """10,000 in `make soak`."""
    warm_up, runs = (1_000, 10_000) if SOAK else (200, 1_000)
    async with ChildPool(children=1) as pool:
        child = pool.children[0]
        before = 0
        for n in range(warm_up + runs):
            if n == warm_up:
                before = status(child.pid, "VmRSS")
            isolate = await opened(pool, LOOP)
            await isolate.deliver([started()])
            await isolate.deliver([completed(1)])
            await isolate.close()
        after = status(child.pid, "VmRSS")
        assert pool.children == [child]
        print(
            f"resident memory after {warm_up} runs {before // MIB} MiB, after {runs} more {after // MIB} MiB"
        )
        assert after < before * 1.1


async def test_what_idle_runs_hold_is_given_back_before_it_harms_the_next(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ChildPool(children=1) as alone:
        hoard = "async function main() { const a = new Uint8Array(60 * 2 ** 20).fill(1); for (;;) await echo({ n: a[0] }); }"
        small, big = await opened(alone, LOOP), await opened(alone, hoard, cpu_ms=5_000)
        await small.deliver([started()])
        await big.deliver([started()])
        monkeypatch.setattr(pools, "IDLE_BYTES_MAX", status(alone.children[0].pid, "VmRSS") - 10 * MIB)
        assert (await small.deliver([completed(1)])).stage == "running"
        with pytest.raises(IsolateLost):
            await big.deliver([completed(1)])
        assert (await small.deliver([completed(2)])).stage == "running"
        await small.close()
