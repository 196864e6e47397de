"""Durable timers: every wait is a recorded timer, whatever its length."""

import pytest

from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import START_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = 'import { sleep } from "rewind";\n'


@pytest.mark.parametrize(
    ("duration", "delay"),
    [
        ("1500", 1500),
        ("'250ms'", 250),
        ("'30s'", 30_000),
        ("'1h 30m'", 5_400_000),
        ("'1.5h'", 5_400_000),
        ("'10d'", 864_000_000),
        ("'1w'", 604_800_000),
        ("'PT90S'", 90_000),
        ("'P1DT2H3M4.5S'", 93_784_500),
        ("0", 0),
        ("-5", 0),
        ("NaN", 0),
        ("'-5m'", 0),
        ("0.5", 0.5),
        ("1000 * 86_400_000", 86_400_000_000),
        ("new Date(NaN)", 0),
    ],
)
async def test_sleep(run: Run, duration: str, delay: float) -> None:
    world = await run(
        HEAD + f"export default async function main() {{ await sleep({duration}); return Date.now(); }}"
    )
    (timer,) = world.of_type("start_timer")
    assert (timer["delay"], timer["why"], timer["at"], timer["line"]) == (delay, "sleep", None, 2)
    assert world.output == int(START_MS + delay)


async def test_sleep_until_a_date(run: Run) -> None:
    world = await run(
        HEAD
        + f"export default async function main() {{ await sleep(new Date({START_MS + 5000})); await sleep(new Date(0)); }}"
    )
    first, second = world.of_type("start_timer")
    assert (first["delay"], first["at"]) == (5000, START_MS + 5000)
    assert (second["delay"], second["at"]) == (0, 0)


@pytest.mark.parametrize(
    "text", ["soon", "", "5", "5 minutes", "P1M", "PT", "1h30", "1y", "P", "PT1D", "5m x"]
)
async def test_other_text_is_a_range_error(run: Run, text: str) -> None:
    world = await run(
        HEAD
        + f"export default async function main() {{ await sleep({text!r}).catch((e) => {{ throw e }}); }}"
    )
    assert world.error["name"] == "RangeError"
    assert world.of_type("start_timer") == []


@pytest.mark.parametrize("value", ["Infinity", "9e15", "undefined as any", "{} as any"])
async def test_what_no_clock_reaches_is_refused(run: Run, value: str) -> None:
    world = await run(HEAD + f"export default async function main() {{ await sleep({value}); }}")
    assert world.error["name"] in {"RangeError", "TypeError"}


async def test_equal_timers_fire_in_the_order_in_which_they_were_made(run: Run) -> None:
    world = await run(
        "export default async function main() { const seen: string[] = [];\n"
        "for (const name of ['a', 'b', 'c']) setTimeout((x: string) => { seen.push(x) }, 0, name);\n"
        "setTimeout(() => { seen.push('early') }, -10);\n"
        "await new Promise((ok) => setTimeout(ok, 1)); return seen.join(); }"
    )
    assert world.output == "a,b,c,early"


async def test_an_interval_rearms_before_its_callback(run: Run) -> None:
    world = await run(
        "export default async function main() { let n = 0;\n"
        "  await new Promise<void>((ok) => {\n"
        "    const handle = setInterval(() => { if (++n === 3) { clearInterval(handle); ok(); } }, 1000);\n"
        "  });\n  return [n, Date.now()]; }"
    )
    assert world.output == [3, START_MS + 3000]
    timers = world.of_type("start_timer")
    assert [timer["timer"] for timer in timers] == [1, 2, 3, 4]
    assert {(timer["why"], timer["line"]) for timer in timers} == {("interval", 3)}
    assert [cleared["timer"] for cleared in world.of_type("timer_cleared")] == [4]


async def test_clear(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { let fired = 0;\n"
        "const a = setTimeout(() => fired++, 10); clearTimeout(a); clearTimeout(a); clearTimeout(undefined); clearTimeout(99);\n"
        "const b = setInterval(() => fired++, 10); clearTimeout(b); await sleep(50); clearTimeout(a); return fired; }"
    )
    assert world.output == 0
    assert [cleared["timer"] for cleared in world.of_type("timer_cleared")] == [1, 2]


async def test_a_sleep_cannot_be_cleared(run: Run) -> None:
    world = await run(
        HEAD
        + "export default async function main() { const p = sleep(10); clearTimeout(1); await p; return 'slept'; }"
    )
    assert world.output == "slept"


async def test_a_timer_needs_a_function(run: Run) -> None:
    world = await run("export default async function main() { setTimeout('alert(1)' as any, 5); }")
    assert world.error["name"] == "TypeError"


async def test_lengths_from_random_numbers_are_the_same_on_replay(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {"
        "for (let i = 0; i < 8; i++) await sleep(1000 + Math.random() * 9000); return Date.now(); }"
    )
    delays = [timer["delay"] for timer in world.of_type("start_timer")]
    assert len(set(delays)) == 8
    assert world.output >= START_MS + sum(delays) - 8
