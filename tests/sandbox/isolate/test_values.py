"""Values that leave: one canonical encoder inside the sandbox, JSON's rule, refusals with the path."""

import hashlib
import json
import struct

import pytest

from tests.fixtures.cases import OWN, shared_cases
from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = 'import { probe } from "rewind:tools";\nexport default async function main(input: any) { void probe;\n'
EDGE = json.loads((OWN / "jcs" / "edge-cases.json").read_text())["cases"]
ACCEPTED = [case for case in EDGE if case["expect"] != "reject"]


async def refusal(run: Run, expression: str) -> str:
    world = await run(
        HEAD
        + f"return await probe.echo({{ value: {expression} }}).catch((e: Error) => `${{e.name}}: ${{e.message}}`); }}"
    )
    assert world.calls == []
    return world.output


async def test_edge_cases(run: Run) -> None:
    world = await run(
        HEAD + "for (const text of input) await probe.echo(JSON.parse(text)); }",
        input=[case["input"] for case in ACCEPTED],
        answer=lambda _call, _tool, _args: Outcome(),
    )
    texts = [call["args"] for call in world.of_type("schedule_tool_call")]
    assert texts == [case["expect"] for case in ACCEPTED]
    for case, text in zip(ACCEPTED, texts, strict=True):
        if "sha256" in case:
            assert hashlib.sha256(text.encode()).hexdigest() == case["sha256"], case["name"]


async def test_official_numbers(run: Run) -> None:
    lines = shared_cases("jcs", "es6numbers-10000.txt").read_text().split()[:4000]
    pairs = [line.split(",") for line in lines]
    words = [[int(bits.rjust(16, "0")[:8], 16), int(bits.rjust(16, "0")[8:], 16)] for bits, _ in pairs]
    finite = [
        (pair, expected)
        for pair, (bits, expected) in zip(words, pairs, strict=True)
        if abs(struct.unpack(">d", bytes.fromhex(bits.rjust(16, "0")))[0]) <= 1.7976931348623157e308
    ]
    world = await run(
        HEAD
        + "const v = new DataView(new ArrayBuffer(8)); return input.map(([a, b]: number[]) => { v.setUint32(0, a!); v.setUint32(4, b!); return v.getFloat64(0); }); }",
        input=[pair for pair, _ in finite],
    )
    assert world.end["output"] == "[" + ",".join("0" if e == "-0" else e for _, e in finite) + "]"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("10n", "probe.echo: args.value is a BigInt, which JSON cannot hold: send it as text or a number"),
        (
            "[{ when: 1n }]",
            "probe.echo: args.value[0].when is a BigInt, which JSON cannot hold: send it as text or a number",
        ),
        (
            "{ 'odd key': 1n }",
            'probe.echo: args.value["odd key"] is a BigInt, which JSON cannot hold: send it as text or a number',
        ),
        (
            "(() => { const a: any = {}; a.self = { back: a }; return a; })()",
            "probe.echo: args.value.self.back is a cycle: it contains itself",
        ),
        (
            "'\\ud800'",
            "probe.echo: args.value holds a lone surrogate, which no JSON text can: use String.prototype.toWellFormed()",
        ),
        ("{ ['\\udead']: 1 }", "probe.echo: args.value has a key with a lone surrogate"),
    ],
)
async def test_refused(run: Run, expression: str, message: str) -> None:
    assert await refusal(run, expression) == f"TypeError: {message}"


async def test_depth(run: Run) -> None:
    nest = "(n: number) => { let v: any = 0; for (let i = 0; i < n; i++) v = [v]; return v; }"
    world = await run(
        HEAD
        + f"const nest = {nest}; const r = await probe.echo({{ value: nest(199) }}) as any; return typeof r.value; }}"
    )
    assert world.output == "object"
    assert "is nested deeper than 200" in await refusal(run, f"({nest})(200)")


async def test_size(run: Run) -> None:
    world = await run(
        HEAD + "const fits = await probe.echo({ v: 'é'.repeat(40) }).then(() => 'sent');\n"
        "const not = await probe.echo({ v: 'é'.repeat(48) }).catch((e: Error) => e.message); return [fits, not]; }",
        limits={"value_bytes": 100},
    )
    assert world.output == [
        "sent",
        "probe.echo: args is 104 bytes as JSON, more than the 100 that a value may have",
    ]


async def test_json_rule_of_arguments(run: Run) -> None:
    world = await run(
        HEAD
        + "await probe.echo({ nan: NaN, inf: -Infinity, undef: undefined, zero: -0, date: new Date(0), bad: new Date(NaN),"
        " map: new Map([[1, 2]]), set: new Set([1]), sym: Symbol('s'), fn: () => 1, bytes: new Uint8Array([1, 2]), holes: [1, , 3],"
        " boxed: [Object('s'), Object(1), Object(true)], re: /x/g, err: new Error('e'), weak: new WeakMap(),"
        " own: Object.create({ inherited: 1 }, { hidden: { value: 1 }, shown: { value: 2, enumerable: true } }) } as any); }"
    )
    assert world.calls[0][1] == {
        "bad": None,
        "boxed": ["s", 1, True],
        "bytes": {"0": 1, "1": 2},
        "date": "1970-01-01T00:00:00.000Z",
        "err": {},
        "holes": [1, None, 3],
        "inf": None,
        "map": {},
        "nan": None,
        "own": {"shown": 2},
        "re": {},
        "set": {},
        "weak": {},
        "zero": 0,
    }


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{ a: new Map() }", "output.a is a Map"),
        ("[new Set()]", "output[0] is a Set"),
        ("NaN", "output is NaN"),
        ("{ a: [1, Infinity] }", "output.a[1] is Infinity"),
        ("() => 1", "output is a function"),
        ("{ s: Symbol('x') }", "output.s is a symbol"),
        ("1n", "output is a BigInt"),
    ],
)
async def test_the_output_is_stricter(run: Run, expression: str, message: str) -> None:
    world = await run(HEAD + f"return {expression}; }}")
    assert world.error["name"] == "TypeError"
    assert world.error["message"].startswith(message)


async def test_undefined_output(run: Run) -> None:
    assert (await run(HEAD + "}")).output is None
    assert (await run(HEAD + "return { a: undefined, b: [undefined] }; }")).output == {"b": [None]}


async def test_logs_never_throw(run: Run) -> None:
    world = await run(
        HEAD + "const cycle: any = { n: 1 }; cycle.me = cycle;\n"
        "console.log(undefined, null, 1n, NaN, Symbol('s'), () => 1, new Map([[1, 2]]), new Set([1]), cycle, '\\ud800', { get x() { throw new Error('g') } });\n"
        "console.warn(new RangeError('bad'));\n"
        "console.error('%s has %d of %i%%, %o', 'x', 1.5, 2.7, { a: 1 }, 'rest');\nconsole.assert(false, 'why'); console.table([1]); }"
    )
    first, second, third, fourth, fifth = world.logs
    assert first[:8] == ["log", "undefined", None, "1n", "NaN", "Symbol(s)", "[function]", "Map(1)"]
    assert first[8:11] == ["Set(1)", {"me": "[cycle]", "n": 1}, "\ufffd"]
    assert first[11].startswith("[cannot be shown: Error: g")
    assert second == ["warn", "RangeError: bad\n    at main (script.ts:5:14)"]
    assert third == ["error", 'x has 1.5 of 2%, {"a":1}', "rest"]
    assert fourth == ["error", "Assertion failed", "why"]
    assert fifth == ["log", [1]]


async def test_logged_objects_with_odd_keys_stay_json(run: Run) -> None:
    world = await run(HEAD + "console.log({ ['\\udead']: 1, ['\\udeae']: 2 }, { a: { '': 1 } }); }")
    assert world.logs == [["log", "[object with a key that is no text]", {"a": {"": 1}}]]


async def test_long_log_values_are_cut(run: Run) -> None:
    world = await run(
        HEAD + "console.log('é'.repeat(10_000), 'short'); console.log({ a: 'x'.repeat(9_000) }); }"
    )
    first, second = world.of_type("log")
    long, short = json.loads(first["values"])
    assert short == "short"
    assert 8_000 <= len(json.dumps(long, ensure_ascii=False).encode()) <= 8_200
    assert json.loads(second["values"])[0].startswith('{"a":"xxx')
    assert (first["truncated"], second["truncated"]) == (True, True)


async def test_log_volume_is_cut_once_with_a_notice(run: Run) -> None:
    world = await run(
        HEAD + "for (let i = 0; i < 100; i++) console.log('x'.repeat(100)); return 1; }",
        limits={"log_bytes": 1000},
    )
    assert len(world.logs) == 10
    assert world.logs[-1][0] == "warn"
    assert "as much as it may" in world.logs[-1][1]
    assert world.output == 1
