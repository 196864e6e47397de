"""tests/cases/hostile behave as their headers say, warm and rebuilt after every event."""

from pathlib import Path

import pytest

from sandbox.isolate.api import LimitExceeded
from tests.sandbox.isolate.conftest import Run

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOLDER = Path(__file__).parents[2] / "cases" / "hostile"


def source(number: str) -> str:
    (path,) = FOLDER.glob(f"{number}-*.ts")
    return path.read_text()


OUTPUTS = {
    "01": {"own": True, "leak": []},
    "02": ["value"],
    "03": {"value": 1},
    "04": {"value": "honest"},
    "05": {"values": [1, 2, 3], "stolen": 0},
    "06": {"r": {"value": {"a": 1, "b": "first"}}, "reads": 1, "thrown": "from getter"},
    "08": {"a": {"value": {"n": 1}}, "b": {"value": {"k": 1}}, "c": "no json", "n": 1},
    "11": {"a": "first", "b": "timer"},
    "20": [],
    "23": {
        "r": {"value": [1, 2, 3]},
        "fail": True,
        "slept": True,
        "attempts": 2,
        "hits": ["get Object.timeout", "get Object.signal"],
    },
    "24": {"r": {"value": {"a": 1}}, "s": True, "h": "hijacked"},
    "26": {
        "r": {"value": [1, 2]},
        "p": {"value": 1},
        "all": [{"value": 2}, {"value": 3}],
        "o": {"value": {"own": 2}},
        "n": {"value": {"k": 1}},
        "ctor": True,
    },
    "27": {"v": {"value": 1}, "low": True},
    "28": {"a": {"value": 1}, "b": {"value": 2}, "c": {"value": 3}, "name": "ToolError"},
    "30": {
        "detached": "DataCloneError",
        "transfer": 0,
        "resizable": "RangeError",
        "random": "QuotaExceededError",
        "randomFloat": "TypeMismatchError",
        "digest": [202, 151, 129, 18],
        "digestBad": "NotSupportedError",
        "subtleOther": "undefined",
        "decode": "TypeError",
        "decodeLoose": "\ufffdA",
        "clonefn": "DataCloneError",
        "echo": {"value": {"0": 1.5, "1": None}},
    },
    "33": {"r": {"value": {"list": [1, {"b": "x"}]}}, "ok": "m"},
}

CALLS = {
    "02": [{"value": {}}],
    "03": [{"value": 1}],
    "04": [{"value": "honest"}],
    "06": [{"value": {"a": 1, "b": "first"}}],
    "07": [{"value": "inner"}, {"value": {"x": 1, "y": 2}}],
    "08": [{"value": {"n": 1}}, {"value": {"k": 1}}],
    "22": [{"value": "true"}],
    "23": [{"value": [1, 2, 3]}, {"message": "no"}],
    "24": [{"value": {"a": 1}}, {"value": {"b": 1}}],
    "28": [{"value": 1}, {"value": 2}, {"message": "m"}, {"value": 3}],
}


@pytest.mark.parametrize("number", OUTPUTS)
async def test_outputs(run: Run, number: str) -> None:
    assert (await run(source(number))).output == OUTPUTS[number]


@pytest.mark.parametrize("number", CALLS)
async def test_what_the_journal_records(run: Run, number: str) -> None:
    world = await run(source(number))
    assert [args for _, args in world.calls] == CALLS[number]


async def test_09_cycles(run: Run) -> None:
    world = await run(source("09"))
    assert world.calls == []
    assert world.logs[0][1] == "TypeError: probe.echo: args.value.self.back is a cycle: it contains itself"
    assert world.error["message"] == "output.self.back is a cycle: it contains itself"
    assert world.error["line"] == 1 + source("09").splitlines().index("  return a;")


async def test_10_odd_values(run: Run) -> None:
    out = (await run(source("10"))).output
    assert out["big"] == "TypeError"
    assert {key for key, value in out.items() if value == {}} == {"fn", "sym", "undef"}
    assert {key for key, value in out.items() if value == {"value": None}} == {"badDate", "inf", "nan"}
    assert {key for key, value in out.items() if value == {"value": {}}} == {
        "err",
        "map",
        "re",
        "set",
        "weak",
    }
    assert (out["zero"], out["holes"], out["boxed"]) == (
        {"value": 0},
        {"value": [1, None, 3]},
        {"value": "s"},
    )
    assert (out["date"], out["bytes"]) == ({"value": "1970-01-01T00:00:00.000Z"}, {"value": {"0": 1, "1": 2}})


async def test_12_a_thenable_output_that_never_settles(run: Run) -> None:
    assert (await run(source("12"))).error["name"] == "DeadlockError"


@pytest.mark.parametrize("kind", ["undefined", "null", "number", "symbol", "frozen", "revoked", "function"])
async def test_13_thrown_non_errors(run: Run, kind: str) -> None:
    error = (await run(source("13"), input={"kind": kind})).error
    assert error["name"] == "Error"
    assert error["message"].startswith("non-error thrown: ")


async def test_14_an_error_of_getters(run: Run) -> None:
    world = await run(source("14"))
    assert world.calls == []
    assert world.error["name"] == "Error"
    assert 8_000 < len(world.error["message"]) < 8_300
    assert len(str(world.error)) < 100_000


@pytest.mark.parametrize("number", ["15", "16", "18"])
async def test_endless_work_is_cpu(run: Run, number: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        await run(source(number), cpu_ms=3_000 if number == "15" else 300)
    assert caught.value.limit == "cpu"


async def test_19_no_clock_to_be_found(run: Run) -> None:
    out = (await run(source("19"))).output
    assert out["spin"] == 0
    assert (out["tz"], out["offset"], out["locale"]) == ("UTC", 0, "en-US")
    assert {out[key] for key in ("sab", "waitAsync", "weakRef", "fr", "wasm", "temporal", "d8", "gc")} == {
        "undefined"
    }


async def test_20_both_calls_carry_their_true_line(run: Run) -> None:
    lines = source("20").splitlines()
    expected = [n for n, line in enumerate(lines, 1) if "probe.echo" in line]
    assert [call["line"] for call in (await run(source("20"))).of_type("schedule_tool_call")] == expected


async def test_21_no_code_from_anywhere(run: Run) -> None:
    out = (await run(source("21"))).output
    assert {out.pop(key) for key in ("eval", "Function", "AsyncFunction", "Generator")} == {"EvalError"}
    assert set(out.values()) == {"Error"}


async def test_22_tools_cannot_be_replaced(run: Run) -> None:
    out = (await run(source("22"))).output
    assert out["v"] == {"value": "true"}
    assert out["r"][:4] == [f"{what} TypeError" for what in ("assign", "define", "proto", "namespace")]
    assert out["r"][4] == "unknown undefined undefined undefined"


async def test_25_keys_that_are_names_of_the_language(run: Run) -> None:
    world = await run(source("25"))
    evil = {
        "__proto__": {"polluted": True},
        "constructor": {"prototype": {"x": 1}},
        "length": 3,
        "then": "not a function",
        "toString": 5,
    }
    assert world.calls == [["probe.echo", {"value": evil}]]
    assert world.output == {
        "keys": sorted(evil),
        "own": True,
        "proto": True,
        "polluted": None,
        "x": None,
        "value": evil,
    }


async def test_28_lines_do_not_need_the_scripts_errors(run: Run) -> None:
    lines = source("28").splitlines()
    expected = [n for n, line in enumerate(lines, 1) if "await probe." in line]
    assert [call["line"] for call in (await run(source("28"))).of_type("schedule_tool_call")] == expected


async def test_29_the_stack_is_as_deep_everywhere(run: Run) -> None:
    world = await run(source("29"))
    assert world.output == {"n": 4, "json": 0}
    depths = world.calls[-1][1]["value"]
    assert len(depths) == 4
    assert min(depths) > 1_000


async def test_31_values_that_change_while_they_are_read(run: Run) -> None:
    out = (await run(source("31"))).output
    refused = {"deepToJSON", "deep250", "infiniteProxy", "lone", "loneKey", "bigint"}
    assert {key for key, said in out.items() if said.startswith("TypeError: probe.echo: args")} == refused
    assert {key: said for key, said in out.items() if key not in refused} == {
        "grow": "ok 23",
        "growArray": "ok 13",
        "deleting": "ok 17",
        "deep190": "ok 391",
        "symbolKey": "ok 17",
        "patchedBigint": "ok 25",
        "patchedString": "ok 19",
    }


async def test_32_without_globals(run: Run) -> None:
    out = (await run(source("32"))).output
    assert (out["r"], out["e"], out["again"]) == ({"value": {"a": [1, "x"]}}, "ToolError bad", {"value": 2})
    assert (out["mod"], out["self"], out["argsThis"]) == ("undefined", "undefined", "undefined")


async def test_33_logs_without_methods(run: Run) -> None:
    assert (await run(source("33"))).logs == [["log", "still", {"logging": 1}]]
