"""Limits through the real child: the culprit is known exactly, its neighbours can go on elsewhere."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import uvloop

from sandbox.isolate import pool as pools
from sandbox.isolate.api import ChildDied, IsolateLost, LimitExceeded, RunSetup, SandboxFault, ToolName
from sandbox.isolate.compiled import Compiled, Import
from sandbox.isolate.pool import ChildPool, IsolateInChild
from tests.sandbox.isolate.world import SEED, START_MS, value

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = Import("rewind:tools", "echo", "echo", 1, 1)
LOOP = "async function main() { for (;;) await echo({}); }"


async def opened(
    pool: ChildPool, source: str, *, cpu_ms: int = 200, heap_mib: int = 128, alone: bool = False
) -> IsolateInChild:
    return await pool.open(
        RunSetup(
            run="r",
            namespace="n",
            epoch=1,
            compiled=Compiled(source, [ECHO], "main"),
            tools=(ToolName("echo", gated=False),),
            cpu_ms_per_event=cpu_ms,
            heap_bytes=heap_mib * 1024 * 1024,
            alone=alone,
        )
    )


def started(content: object = None) -> bytes:
    event = {
        "seq": 0,
        "type": "run_started",
        "time": START_MS,
        "input": value(content),
        "seed": SEED,
        "deadline": START_MS + 1,
        "labels": {},
        "limits": {},
    }
    return json.dumps(event).encode()


def completed(call: int, content: object = None) -> bytes:
    event = {
        "seq": 2 * call,
        "type": "tool_call_completed",
        "time": START_MS,
        "call": call,
        "result": value(content),
    }
    return json.dumps(event).encode()


async def exceeded(isolate: IsolateInChild, *events: bytes) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as caught:
        await isolate.deliver(list(events))
    return caught.value


@pytest.mark.parametrize(
    "body",
    [
        "for (;;) {}",
        "for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } }",
        "for (;;) await null;",
        "/(x+x+)+y/.test('x'.repeat(60));",
        "[1, 2, 3].sort(() => { for (;;) {} });",
        "({ get x() { for (;;) {} } }).x;",
        "JSON.stringify(new Proxy({}, { ownKeys() { for (;;) {} } }));",
    ],
)
async def test_cpu(pool: ChildPool, body: str) -> None:
    limit = await exceeded(await opened(pool, f"async function main() {{ {body} }}"), started())
    assert (limit.limit, limit.allowed, limit.event_seq) == ("cpu", 200, 0)
    assert 200 < limit.used < 900


async def test_an_endless_chain_of_promises_is_cpu_not_heap(pool: ChildPool) -> None:
    source = "async function main() { const spin = () => Promise.resolve().then(spin); await spin(); }"
    limit = await exceeded(await opened(pool, source, cpu_ms=3_000), started())
    assert (limit.limit, limit.allowed) == ("cpu", 3_000)


async def test_the_guilty_event_of_many_is_known(pool: ChildPool) -> None:
    isolate = await opened(pool, "async function main() { await echo({}); await echo({}); for (;;) {} }")
    limit = await exceeded(isolate, started(), completed(1), completed(2), completed(3))
    assert limit.event_seq == 4


async def test_the_budget_is_per_event(pool: ChildPool) -> None:
    work = "let n = 0; while (n < 8_000_000) n++;"
    isolate = await opened(
        pool, f"async function main() {{ for (;;) {{ {work} await echo({{}}); }} }}", cpu_ms=300
    )
    delivery = await isolate.deliver([started(), *(completed(n) for n in range(1, 12))])
    assert len(delivery.commands) == 12
    assert delivery.cpu_us > 300_000
    await isolate.close()


async def test_more_cpu_for_events_that_were_survived(pool: ChildPool) -> None:
    source = (
        "async function main() { const end = 30_000_000; let n = 0; while (n < end) n++; await echo({}); }"
    )
    await exceeded(await opened(pool, source, cpu_ms=20), started())
    isolate = await opened(pool, source, cpu_ms=20)
    delivery = await isolate.deliver([started()], cpu_factor=100)
    assert delivery.stage == "running"
    await isolate.close()


@pytest.mark.parametrize(
    "body",
    [
        "const keep = []; for (;;) keep.push(new Array(1000).fill({}));",
        "const keep = []; for (let i = 0; ; i++) keep.push(('x'.repeat(1e6) + i).split('y')[0]);",
        "const keep = new Map(); for (let i = 0; ; i++) keep.set(`k${i}`, { i });",
        "const keep = []; for (;;) keep.push(new ArrayBuffer(64 * 2 ** 20));",
    ],
    ids=["arrays", "strings", "map", "buffers"],
)
async def test_heap(pool: ChildPool, body: str) -> None:
    try:
        limit = await exceeded(
            await opened(pool, f"async function main() {{ {body} }}", cpu_ms=20_000), started()
        )
    except AssertionError:
        pytest.fail("the bomb did not end the delivery")
    assert (limit.limit, limit.allowed) == ("heap", 128 * 1024 * 1024)
    assert limit.used > limit.allowed


async def test_what_cannot_be_interrupted_is_killed_and_the_neighbour_goes_on(pool: ChildPool) -> None:
    neighbour = await opened(pool, LOOP)
    await neighbour.deliver([started(), completed(1)])
    bomb = await opened(
        pool, "async function main() { let s = 'a,'; for (let i = 0; i < 27; i++) s += s; s.split(','); }"
    )
    limit = await exceeded(bomb, started())
    assert limit.limit in {"cpu", "heap"}
    assert limit.event_seq == 0
    with pytest.raises(ChildDied):
        await neighbour.deliver([completed(2)])
    again = await opened(pool, LOOP)
    delivery = await again.deliver([started(), completed(1), completed(2)])
    assert [command["call"] for command in delivery.commands] == [1, 2, 3]
    await again.close()


@pytest.mark.parametrize(
    "expression",
    [
        "'x'.repeat(2 ** 27)",
        "'x'.padStart(2 ** 27)",
        "'x'.padEnd(2 ** 27, 'ab')",
        "new Array(2 ** 27).fill(1.5)",
        "Array.from({ length: 2 ** 27 })",
        "Uint8Array.from({ length: 2 ** 27 })",
        "Float64Array.from({ length: 2 ** 27 }, () => 1)",
    ],
)
async def test_what_could_not_be_interrupted_is_bounded_by_its_length(
    pool: ChildPool, expression: str
) -> None:
    isolate = await opened(pool, f"async function main() {{ {expression}; }}")
    error = (await isolate.deliver([started()])).commands[-1]["error"]
    assert (error["name"], error["line"]) == ("RangeError", 1)
    await isolate.close()


async def test_bounded_methods_are_otherwise_the_same(pool: ChildPool) -> None:
    isolate = await opened(
        pool,
        "async function main() { const holes = []; holes[2 ** 25] = 1; return [[1, 2, 3].fill(0, -1), [1, 2].fill(7), 'ab'.repeat(2), "
        "'5'.padStart(3, '0'), '5'.padEnd(2), Array.from('ab'), Array.from({ length: 2 }, (_, i) => i), [...Uint8Array.from([1, 2])], "
        "[...Uint8Array.from(new Set([3]))], Array.from.length, [].fill.length, ''.repeat.name, holes.fill(1, 0, 2)[1], "
        "Array.prototype.fill.call({ length: 1 }, 5)[0], (class X extends Array {}).from([1]).constructor.name]; }",
    )
    delivery = await isolate.deliver([started()])
    assert json.loads(delivery.commands[-1]["output"]) == [
        [1, 2, 0],
        [7, 7],
        "abab",
        "005",
        "5 ",
        ["a", "b"],
        [0, 1],
        [1, 2],
        [3],
        1,
        1,
        "repeat",
        1,
        5,
        "X",
    ]
    await isolate.close()


async def test_a_stopped_isolate_is_gone_and_others_in_the_child_stay(pool: ChildPool) -> None:
    neighbour = await opened(pool, LOOP)
    await neighbour.deliver([started()])
    bomb = await opened(pool, "async function main() { for (;;) {} }")
    await exceeded(bomb, started())
    with pytest.raises(ChildDied):
        await bomb.deliver([completed(1)])
    assert len((await neighbour.deliver([completed(1)])).commands) == 1
    await neighbour.close()


async def test_a_crashed_child_is_replaced(pool: ChildPool) -> None:
    isolate = await opened(pool, LOOP)
    os.kill(pool.children[0].pid, signal.SIGKILL)
    with pytest.raises(ChildDied):
        await isolate.deliver([started()])
    again = await opened(pool, LOOP)
    assert (await again.deliver([started()])).stage == "running"
    await again.close()


async def test_an_idle_child_that_was_killed_is_nobodys_fault() -> None:
    """On the loop of the product, which refuses to write to a socket that is closed."""

    async def kill_and_go_on() -> None:
        async with ChildPool(children=1) as pool:
            held = [await opened(pool, LOOP) for _ in range(4)]
            for isolate in held:
                await isolate.deliver([started()])
            child = pool.children[0]
            os.kill(child.pid, signal.SIGKILL)
            await asyncio.to_thread(os.waitid, os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            with pytest.raises(IsolateLost):
                await held[0].deliver([completed(1)])
            for isolate in held:
                await isolate.close()
            again = await opened(pool, LOOP)
            assert (await again.deliver([started()])).stage == "running"

    await asyncio.to_thread(uvloop.run, kill_and_go_on())


async def test_no_state_carries_over_between_runs(pool: ChildPool) -> None:
    first = await opened(
        pool,
        "async function main() { globalThis.leak = 1; Array.prototype.leak = 2; Object.prototype.leak = 3; Math.max = () => 4; }",
    )
    await first.deliver([started()])
    await first.close()
    second = await opened(
        pool, "async function main() { return [typeof leak, [].leak, ({}).leak, Math.max(1)]; }"
    )
    delivery = await second.deliver([started()])
    assert json.loads(delivery.commands[-1]["output"]) == ["undefined", None, None, 1]
    await second.close()


async def test_the_isolate_that_was_idle_longest_makes_room(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "ISOLATES_PER_CHILD_MAX", 3)
    first, second, third = [await opened(pool, LOOP) for _ in range(3)]
    for isolate in (second, third, first):
        await isolate.deliver([started()])
    fourth = await opened(pool, LOOP)
    with pytest.raises(ChildDied):
        await second.deliver([completed(1)])
    for isolate in (first, third):
        assert (await isolate.deliver([completed(1)])).stage == "running"
    for isolate in (first, third, fourth):
        await isolate.close()
    assert len(pool.children[0].isolates) == 0


async def test_deliveries_to_one_child_take_turns(pool: ChildPool) -> None:
    isolates = [await opened(pool, LOOP) for _ in range(8)]
    deliveries = await asyncio.gather(*(isolate.deliver([started()]) for isolate in isolates))
    assert [delivery.commands[0]["call"] for delivery in deliveries] == [1] * 8
    for isolate in isolates:
        await isolate.close()


async def test_a_script_that_does_not_compile_is_a_fault_not_a_crash(pool: ChildPool) -> None:
    with pytest.raises(SandboxFault, match="SyntaxError"):
        await opened(pool, "async function main() { ")
    isolate = await opened(pool, LOOP)
    await isolate.close()


async def test_an_epoch_that_is_not_served(pool: ChildPool) -> None:
    setup = RunSetup("r", "n", 99, Compiled(LOOP, [ECHO], "main"), (), 100, 1 << 27)
    with pytest.raises(SandboxFault, match="epoch 99"):
        await pool.open(setup)


_WORKER = """
import asyncio, sys
from sandbox.isolate.pool import ChildPool

async def main():
    async with ChildPool(children=2) as pool:
        print(*[child.pid for child in pool.children], flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_children_die_with_a_killed_worker() -> None:
    root = Path(__file__).resolve().parents[3]
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WORKER, cwd=root, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    pids = [int(pid) for pid in (await worker.stdout.readline()).split()]
    descriptors = [os.pidfd_open(pid) for pid in pids]
    worker.kill()
    await worker.wait()
    loop = asyncio.get_running_loop()
    for descriptor in descriptors:
        ended = asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        await asyncio.wait_for(ended.wait(), 10)
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def test_a_run_under_suspicion_has_a_process_of_its_own(pool: ChildPool) -> None:
    """No more than two at once; the process ends with the run's isolate."""
    among_others = await opened(pool, LOOP)
    alone = [await opened(pool, LOOP, alone=True) for _ in range(pools.LONE_CHILDREN_MAX)]
    waiting = asyncio.create_task(opened(pool, LOOP, alone=True))
    for isolate in alone:
        await isolate.deliver([started()])
        assert isolate._child not in pool.children
    assert not waiting.done()
    await alone[0].close()
    third = await waiting
    assert (await third.deliver([started()])).stage == "running"
    assert alone[0]._child.process.wait() == -signal.SIGKILL
    for isolate in (alone[1], third, among_others):
        await isolate.close()
