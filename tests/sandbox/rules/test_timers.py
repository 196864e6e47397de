"""SPEC, rules of runs: Timers."""

import pytest

from sandbox.journal import entries as e
from tests.sandbox.rules.rig import DAY_MS, START_MS, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


def due(rig: Rig) -> list[int]:
    """When each timer of the journal was to fire, in ms from the start."""
    return [body.fire_at - START_MS for body in rig.bodies(e.StartTimer)]


@pytest.mark.parametrize(
    ("asked", "delay", "after"),
    [
        ("0", 0, 0),
        ("-1", 0, 0),
        ("NaN", 0, 0),
        ("'-5m'", 0, 0),
        ("0.5", 0.5, 1),
        ("1000.25", 1000.25, 1001),
        ("3 * 47 + 0.1 * 10", 142, 142),
        ("Date.now() - Date.now()", 0, 0),
        ("2 ** 31", 2**31, 2**31),
        ("'26d'", 26 * DAY_MS, 26 * DAY_MS),
    ],
)
async def test_every_length_is_a_recorded_timer_that_fires_at_its_time(
    rig: Rig, asked: str, delay: float, after: int
) -> None:
    await rig.start(f"await sleep({asked}); return Date.now();")
    (timer,) = rig.bodies(e.StartTimer)
    assert (timer.delay, timer.why, due(rig)) == (delay, "sleep", [after])
    if after:
        await rig.advance(after - 1)
        assert rig.told[-1] == "timer 1 sleep", "not early"
    await rig.advance(1)
    assert rig.output == START_MS + after
    assert rig.entries[-2].time == START_MS + after


@pytest.mark.parametrize(("ago", "after"), [(DAY_MS, -DAY_MS), (0, 0), (-5_000, 5_000), (-0.5, 1)])
async def test_a_date_is_a_time_also_when_it_has_passed(rig: Rig, ago: float, after: int) -> None:
    await rig.start(f"await sleep(new Date({START_MS} - {ago})); return Date.now();".replace("- -", "+ "))
    await rig.advance(max(after, 0))
    assert rig.output == START_MS + max(int(-ago), 0), "time does not go back"


async def test_a_timeout_of_30_days_does_not_fire_at_once(rig: Rig) -> None:
    await rig.start(
        "setTimeout(() => console.log('fired'), 30 * 86_400_000 - 1); await sleep('29d'); await sleep('1d');"
    )
    await rig.advance(30 * DAY_MS - 2)
    assert rig.logs == []
    await rig.advance(1)
    assert rig.logs == ["fired"]


async def test_due_timers_fire_by_time_then_by_number(rig: Rig) -> None:
    await rig.start(
        "const seen = []; const at = (n, ms) => setTimeout(() => seen.push(n), ms);\n"
        "at(1, 30); at(2, 10); at(3, 20); at(4, 10); at(5, 0); at(6, -7); await sleep(31); return seen;"
    )
    rig.journals.advance(1_000)  # all of them are late
    await rig.fire()
    assert rig.output == [5, 6, 2, 4, 3, 1]
    assert {entry.time for entry in rig.entries if isinstance(entry.body, e.TimerFired)} == {START_MS + 1_000}


@pytest.mark.parametrize(
    ("wait", "fired"),
    [("setTimeout(() => console.log('fired'), 10)", []), ("setInterval(() => console.log('fired'), 10)", [])],
)
async def test_a_timer_cleared_in_the_turn_in_which_it_is_due(rig: Rig, wait: str, fired: list[str]) -> None:
    """The outcome and the firing are recorded before either is delivered: the clear makes the firing a no-op."""
    await rig.start(f"const t = {wait}; await g.echo({{}}); clearTimeout(t); await sleep(5);")
    (task,) = await rig.claim()
    rig.journals.advance(10)
    await rig.complete(task, 1, go=False)
    await rig.store.append_event(rig.due_timer(1))
    await rig.go()
    assert rig.told[3:] == ["outcome 1", "fired 1", "cleared 1", "timer 2 sleep"]
    await rig.advance(5)
    assert (rig.status, rig.logs) == ("completed", fired)


async def test_a_timer_that_fires_before_it_is_cleared_has_fired(rig: Rig) -> None:
    await rig.start(
        "const t = setTimeout(() => console.log('fired'), 10); await g.echo({}); clearTimeout(t);"
    )
    (task,) = await rig.claim()
    rig.journals.advance(10)
    await rig.store.append_event(rig.due_timer(1))
    await rig.complete(task, 1)
    assert rig.told[3:] == ["fired 1", "outcome 1", "log fired", "completed"]


async def test_an_interval_rearms_itself_before_its_callback_with_a_new_timer(rig: Rig) -> None:
    await rig.start(
        "let n = 0;\nsetInterval(() => { console.log(++n); if (n === 2) throw new Error('tick'); }, 100);\nawait sleep('1d');"
    )
    await rig.advance(200)
    told = rig.told
    assert told[-7:] == [
        "fired 1",
        "timer 3 interval",
        "log 1",
        "fired 3",
        "timer 4 interval",
        "log 2",
        "failed Error",
    ]
    sites = {
        entry.callsite
        for entry in rig.entries
        if isinstance(entry.body, e.StartTimer) and entry.body.why == "interval"
    }
    assert len(sites) == 1, "every tick has the callsite of the setInterval"


async def test_missed_ticks_are_not_made_up(rig: Rig) -> None:
    await rig.start("setInterval(() => console.log(Date.now()), 100); await sleep('1d');")
    rig.journals.advance(1_000)
    await rig.fire()
    assert rig.logs == [START_MS + 1_000]
    await rig.advance(99)
    assert len(rig.logs) == 1
    await rig.advance(1)
    assert rig.logs == [START_MS + 1_000, START_MS + 1_100]


async def test_an_interval_can_clear_itself_in_its_callback(rig: Rig) -> None:
    await rig.start(
        "let n = 0; const t = setInterval(() => { n++; clearInterval(t); clearInterval(t); }, 10); await sleep(100); return n;"
    )
    await rig.advance(100)
    assert rig.output == 1
    assert [name for name in rig.told if "3" in name] == ["timer 3 interval", "cleared 3"]


async def test_an_interval_of_zero_lets_other_things_happen(rig: Rig) -> None:
    await rig.start(
        "let n = 0; const t = setInterval(() => { n++; }, 0); await sleep(3); clearInterval(t); return n > 0;"
    )
    for _ in range(4):
        rig.journals.advance(1)
        await rig.fire()
    assert rig.output is True


async def test_a_cleared_timer_leaves_nothing_behind(rig: Rig) -> None:
    await rig.start(
        "const t = setTimeout(() => {}, 10); clearTimeout(t); clearTimeout(t); await sleep('1h');"
    )
    assert rig.pending == [("timer", 2)]
    await rig.advance(20)
    assert rig.told == ["started", "timer 1 timeout", "cleared 1", "timer 2 sleep"]


async def test_the_clocks_of_hosts_do_not_matter(rig: Rig) -> None:
    """Time is the database's; should it be set back, time in the journal still does not go back."""
    await rig.start(
        "const a = Date.now(); await waitForSignal('s'); const b = Date.now(); await sleep(10); return [b - a, Date.now() - b];"
    )
    rig.journals.advance(5_000)
    await rig.signal("x", 1, "s1")
    rig.journals.time = START_MS
    await rig.signal("s", 1, "s2")
    await rig.advance(10_000)
    times = [entry.time for entry in rig.entries if entry.cause is None]
    assert times == sorted(times)
    assert rig.output == [5_000, 0], "the timer was due before the time that the journal has"
