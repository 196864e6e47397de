"""Nothing a script can read differs between two executions: time, randomness, locale, stacks, globals."""

import datetime as dt

import pytest

from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import START_MS, Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = 'import { sleep } from "rewind";\nimport { probe } from "rewind:tools";\n'


async def test_every_form_of_date_is_logical(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { void probe; await sleep(5000);\n"
        "class Sub extends Date {}\nconst C: any = Date.prototype.constructor;\n"
        "const F: any = Object.getPrototypeOf(new Date()).constructor;\n"
        "return [new Date(), Date(), Reflect.construct(Date, []), Reflect.construct(Date, [], Sub), new Sub(), new C(), F.now(),"
        " Date.now(), new Intl.DateTimeFormat('en', { timeStyle: 'medium' }).format(), "
        "Intl.DateTimeFormat('en', { timeStyle: 'medium' }).formatToParts().map((p) => p.value).join(''), performance.now(), performance.timeOrigin,"
        "new Date(0).getTime(), new Date(2020, 1).toISOString(), Date.UTC(1970, 0), Date.parse('1970-01-01'), Date.name, Date.length, new Sub() instanceof Date,"
        "new Event('x').timeStamp, [1, 2].map(Intl.DateTimeFormat('en', { year: 'numeric' }).format)];}"
    )
    now = START_MS + 5000
    iso = (
        dt.datetime.fromtimestamp(now / 1000, dt.UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
    out = world.output
    assert [out[0], out[2], out[3], out[4], out[5]] == [iso] * 5
    assert out[1] == "Thu Jan 15 2026 09:00:05 GMT+0000 (Coordinated Universal Time)"
    assert out[6:8] == [now, now]
    assert {text.replace("\u202f", " ") for text in out[8:10]} == {"9:00:05 AM"}
    assert out[10:] == [
        5000,
        START_MS,
        0,
        "2020-02-01T00:00:00.000Z",
        0,
        0,
        "Date",
        7,
        True,
        5000,
        ["1970", "1970"],
    ]


async def test_time_stands_still_within_an_event(run: Run) -> None:
    world = await run(
        "export default async function main() { const a = performance.now(); let n = 0; while (n < 1e5) n++;"
        "await null; return [performance.now() - a, Date.now() - new Date().getTime()]; }"
    )
    assert world.output == [0, 0]


async def test_random_numbers_come_from_the_seed(run: Run) -> None:
    source = (
        "export default async function main() { const bytes = crypto.getRandomValues(new Uint8Array(5));\n"
        "return [Math.random(), Math.random(), crypto.randomUUID(), [...bytes], [...crypto.getRandomValues(new Uint16Array(2))]]; }"
    )
    first, second = (await run(source)).output, (await run(source)).output
    assert first == second
    assert all(0 <= number < 1 for number in first[:2])
    assert first[2][14] == "4"
    assert first[2][19] in "89ab"


async def test_random_numbers_are_spread(run: Run) -> None:
    world = await run(
        "export default async function main() { const buckets = new Array(10).fill(0);"
        "for (let i = 0; i < 20_000; i++) buckets[Math.floor(Math.random() * 10)]++; return buckets; }"
    )
    assert all(1_800 < count < 2_200 for count in world.output)


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("new Float64Array(2)", "TypeMismatchError"),
        ("[1, 2] as any", "TypeError"),
        ("new Uint8Array(70_000)", "QuotaExceededError"),
    ],
)
async def test_get_random_values_refuses(run: Run, argument: str, name: str) -> None:
    world = await run(f"export default async function main() {{ crypto.getRandomValues({argument}); }}")
    assert world.error["name"] == name


async def test_zone_and_locale_are_fixed(run: Run) -> None:
    world = await run(
        "export default async function main() { const o = Intl.DateTimeFormat().resolvedOptions();"
        "return [o.timeZone, o.locale, new Date().getTimezoneOffset(), Intl.NumberFormat().resolvedOptions().locale,"
        " (1234.5).toLocaleString(), new Date(0).toLocaleDateString(), ['b', 'a', 'B'].sort(Intl.Collator().compare).join('')]; }"
    )
    assert world.output == ["UTC", "en-US", 0, "en-US", "1,234.5", "1/1/1970", "abB"]


async def test_what_could_differ_is_absent(run: Run) -> None:
    world = await run(
        "export default async function main() { const g: any = globalThis;\n"
        "return ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'WeakRef', 'FinalizationRegistry', 'Temporal', 'ShadowRealm', 'gc',"
        " 'process', 'require', 'fetch', 'Deno', '__init', '__drain', '__pull', '__load0', '4000000000', '4000000001']"
        ".filter((n) => n in g).concat(typeof g.Date.prototype.toTemporalInstant); }"
    )
    assert world.output == ["undefined"]


@pytest.mark.parametrize(
    "code",
    [
        "(0, eval)('1')",
        "new Function('return 1')()",
        "Object.getPrototypeOf(async () => {}).constructor('return 1')",
        "Object.getPrototypeOf(function* () {}).constructor('yield 1')",
        "(setTimeout as any).constructor('return 1')()",
    ],
)
async def test_no_code_from_strings(run: Run, code: str) -> None:
    world = await run(f"export default async function main() {{ return {code}; }}")
    assert world.error["name"] == "EvalError"


async def test_an_import_of_a_computed_name_rejects(run: Run) -> None:
    world = await run(
        "export default async function main() { const out: string[] = [];"
        "for (const m of ['fs', 'rewind:host', 'data:text/javascript,1']) out.push(await import(m).then(() => 'loaded', (e: any) => e.name));"
        "return out; }"
    )
    assert set(world.output) <= {"Error", "TypeError"}


async def test_the_stack_overflows_at_the_same_depth_live_and_on_replay(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { void sleep; const depths: number[] = [];\n"
        "for (let i = 0; i < 3; i++) { let n = 0; const f = (): void => { n++; f(); }; try { f(); } catch { depths.push(n); } await probe.echo({ depths }); }\n"
        "return depths; }"
    )
    assert len(world.output) == 3


async def test_stacks_show_script_frames_only_and_are_equal_on_replay(run: Run) -> None:
    world = await run(
        HEAD + "const deep = (n: number): Error => (n === 0 ? new Error('deep') : deep(n - 1));\n"
        "export default async function main() { void sleep;\n"
        "  const e: any = await probe.fail({ message: 'x' }).catch((e: Error) => e);\n"
        "  await probe.echo({ stack: e.stack });\n"
        "  const mapped = [1].map(() => new TypeError('in map').stack)[0];\n"
        "  try { null!.x; } catch (err: any) { return [deep(2).stack, mapped, err.stack, await Promise.reject(new Error('r')).catch((e) => e.stack)]; }\n"
        "}"
    )
    assert world.calls[1][1]["stack"] == "ToolError: x\n    at main (script.ts:5:30)"
    deep, mapped, null, rejected = world.output
    assert deep == (
        "Error: deep\n    at deep (script.ts:3:47)\n    at deep (script.ts:3:67)\n    at deep (script.ts:3:67)\n    at main (script.ts:8:47)"
    )
    assert mapped == "TypeError: in map\n    at script.ts:7:32\n    at main (script.ts:7:22)"
    assert null.startswith(
        "TypeError: Cannot read properties of null (reading 'x')\n    at main (script.ts:8:15)"
    )
    assert rejected == "Error: r\n    at main (script.ts:8:102)"


async def test_tampering_with_error_changes_no_callsite(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { void sleep; const E: any = Error;\n"
        "E.prepareStackTrace = () => 'Error\\n    at main (script.ts:9999:1)'; E.stackTraceLimit = 0;\n"
        "await probe.echo({ n: 1 });\nObject.freeze(Error);\nclass Mine extends Error { constructor() { super('m'); E.captureStackTrace(this, Mine); } }\n"
        "return [new Mine().stack, new Mine() instanceof Error, Object.getPrototypeOf(TypeError) === Error, new TypeError('t').constructor.name,"
        " Error('no new').message, Error.isError(new Mine()), new Error('c', { cause: 1 }).cause, Error.prototype.constructor === Error]; }"
    )
    (call,) = world.of_type("schedule_tool_call")
    assert (call["line"], call["column"]) == (5, 13)
    assert world.output == [
        "Error: m\n    at main (script.ts:8:9)",
        True,
        True,
        "TypeError",
        "no new",
        True,
        1,
        True,
    ]


async def test_two_calls_finishing_in_any_order_replay_equal(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { void sleep; const seen: number[] = [];\n"
        "await Promise.all([...Array(10).keys()].map((n) => probe.echo({ n }).then((r: any) => { seen.push(r.n) }))); return seen; }",
        answer=lambda call, _tool, args: Outcome(result=args, after_ms=(call * 7) % 10),
    )
    assert sorted(world.output) == list(range(10))
    assert world.output != list(range(10))
