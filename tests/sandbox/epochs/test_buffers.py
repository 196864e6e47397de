"""Memory outside the heap: one allocation has a counted bound, the sum of what is alive ends the run, garbage is free."""

import pytest

from sandbox.isolate.api import LimitExceeded
from sandbox.isolate.pool import ChildPool
from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE = 2**27


@pytest.mark.parametrize(
    "expression",
    [
        f"new ArrayBuffer({LARGE})",
        f"new ArrayBuffer(1, {{ maxByteLength: {LARGE} }})",
        f"new ArrayBuffer(1).transfer({LARGE})",
        f"new ArrayBuffer(1).transferToFixedLength({LARGE})",
        f"new Uint8Array({LARGE})",
        f"new Float64Array({LARGE // 8 + 1})",
        f"new BigInt64Array({{ length: {LARGE // 8} }} as any)",
        f"new (Object.getPrototypeOf(new Uint8Array(1)).constructor)({LARGE})",
        f"new (class extends Uint8Array {{}})({LARGE})",
        f"Reflect.construct(Int8Array, [{LARGE}], Uint8Array)",
        f"Uint8Array.of.call(function () {{ return new Uint8Array({LARGE}) }} as any)",
        f"Float64Array.from({{ length: {LARGE} }})",
    ],
)
async def test_one_allocation_has_a_bound(run: Run, expression: str) -> None:
    world = await run(f"export default async function main() {{ return ({expression} as any).byteLength; }}")
    assert world.error["name"] == "RangeError"
    assert "that the sandbox allows at once" in world.error["message"]


@pytest.mark.parametrize(
    "make",
    [
        "new ArrayBuffer(2 ** 24)",
        "new Uint8Array(2 ** 24)",
        "new Uint8Array(2 ** 16)",
        "shared.slice()",
        "shared.toReversed()",
        "shared.with(0, 1)",
        "shared.buffer.slice(0)",
        "structuredClone(shared)",
        "Uint8Array.from(shared)",
        "new (shared.constructor as any)(shared)",
        "new ArrayBuffer(1).transfer(2 ** 24)",
    ],
)
async def test_what_is_kept_ends_the_run(run: Run, pool: ChildPool, make: str) -> None:
    source = (
        "export default async function main() { const kept: any[] = []; const shared = new Uint8Array(2 ** 20);\n"
        f"for (;;) kept.push({make}); }}"
    )
    with pytest.raises(LimitExceeded) as caught:
        await run(source, both=False, cpu_ms=60_000)
    assert caught.value.limit == "heap"
    assert caught.value.allowed < caught.value.used < 3 * caught.value.allowed
    assert all(child.memory.read_bytes() < 2 * 1024**3 for child in pool.children)


async def test_a_million_small_ones_over_many_activations_complete(run: Run) -> None:
    world = await run(
        'import { probe } from "rewind:tools";\n'
        "export default async function main() { let sum = 0;\n"
        "for (let i = 0; i < 40; i++) { for (let j = 0; j < 25_000; j++) sum += new Uint8Array(100 + (j & 63)).length; await probe.echo({ i }); }\n"
        "return sum; }",
        both=False,
        answer=lambda _call, _tool, args: Outcome(result=args),
    )
    assert world.output == sum(100 + (j & 63) for j in range(25_000)) * 40


async def test_garbage_costs_nothing(run: Run) -> None:
    world = await run(
        "export default async function main() { let sum = 0; for (let i = 0; i < 200; i++) sum += new Uint8Array(2 ** 23).length; return sum; }"
    )
    assert world.output == 200 * 2**23


async def test_buffers_are_what_they_are_everywhere_else(run: Run) -> None:
    world = await run(
        "export default async function main() { class Mine extends Uint8Array { twice() { return this.length * 2; } }\n"
        "return [new Mine(3).twice(), new Mine([1, 2]).map((x) => x).twice(), Mine.from([1, 2, 3]).twice(), Uint8Array.of(1, 2).length,\n"
        "Uint8Array.name, Uint8Array.length, Uint8Array.BYTES_PER_ELEMENT, new Uint8Array(2).slice(1).constructor === Uint8Array,\n"
        "[...new Float64Array(new Set([1, 2]))], new Uint8Array(new ArrayBuffer(8), 2).length, new DataView(new ArrayBuffer(3)).byteLength,\n"
        "Object.prototype.toString.call(new Int16Array(1)), new ArrayBuffer(4, { maxByteLength: 8 }).resizable, new ArrayBuffer(4).transfer(8).byteLength,\n"
        "structuredClone(new Uint16Array([1, 2])) instanceof Uint16Array, ArrayBuffer.isView(new Uint8Array(1)), Uint8Array.prototype.constructor === Uint8Array,\n"
        "new Uint8Array('3' as any).length, new Uint8Array().length, new Uint8Array(null as any).length, new Uint8Array([1, 2, 3]).subarray(1).length]; }"
    )
    assert world.output == [
        6, 4, 6, 2, "Uint8Array", 3, 1, True, [1, 2], 6, 3, "[object Int16Array]", True, 8, True, True, True, 3, 0, 0, 2,
    ]  # fmt: skip
