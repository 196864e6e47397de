"""SPEC, rules of runs: Limits; what is cut, refused, or ends the run."""

import pytest

from sandbox.journal import entries as e
from sandbox.journal.entries import Limits
from tests.sandbox.rules.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024


async def test_logs_are_cut_once_at_1_mib_with_a_notice(rig: Rig) -> None:
    await rig.start(
        "for (let i = 0; i < 300; i++) console.log('x'.repeat(8_000)); await sleep(1);\n"
        "for (let i = 0; i < 9; i++) console.log('more'); return 'fine';"
    )
    await rig.advance(1)
    lines = rig.bodies(e.Log)
    assert rig.output == "fine"
    assert len(lines) == MIB // 8_002 + 1
    assert (lines[-1].level, lines[-1].truncated) == ("warn", True)
    assert "as much as it may" in lines[-1].values[0]


async def test_a_log_value_above_8_kib_is_cut_and_marked(rig: Rig) -> None:
    await rig.start(
        "console.log('x'.repeat(8 * 1024 - 2)); console.log('é'.repeat(9_000)); progress('y'.repeat(9_000));"
    )
    whole, cut, progress = rig.bodies(e.Log)
    assert (whole.truncated, len(whole.values[0])) == (False, 8 * 1024 - 2)
    for line in (cut, progress):
        assert line.truncated
        assert 8_000 < len(line.values[0].encode()) <= 8 * 1024


async def test_an_error_with_a_text_above_8_kib_is_cut_and_marked(rig: Rig) -> None:
    await rig.start("throw Object.assign(new Error('é'.repeat(9_000)), { cause: new Error('no') });")
    (ended,) = rig.bodies(e.FailRun)
    error = ended.error
    assert error.truncated
    assert error.stack is not None
    for text in (error.message, error.stack):
        assert 8_000 < len(text.encode()) <= 8 * 1024
        assert text.endswith("é…")
    assert "truncated" not in error.cause


async def test_an_error_that_fits_is_whole(rig: Rig) -> None:
    await rig.start("throw Object.assign(new Error('x'.repeat(8_000)), { cause: 'y'.repeat(8_190) });")
    (ended,) = rig.bodies(e.FailRun)
    assert (ended.error.truncated, ended.error.message) == (False, "x" * 8_000)


async def test_the_error_of_which_a_text_was_cut_is_the_one_marked(rig: Rig) -> None:
    await rig.start("throw new Error('no', { cause: new Error('z'.repeat(20_000)) });")
    (ended,) = rig.bodies(e.FailRun)
    assert not ended.error.truncated
    assert ended.error.cause["truncated"] is True
    assert len(ended.error.cause["message"].encode()) <= 8 * 1024


async def test_what_was_thrown_and_is_no_error_is_cut_and_marked(rig: Rig) -> None:
    await rig.start("throw 'w'.repeat(20_000);")
    (ended,) = rig.bodies(e.FailRun)
    assert ended.error.truncated
    assert len(ended.error.message.encode()) <= 8 * 1024


async def test_outcomes_and_the_end_may_exceed_the_history(rig: Rig) -> None:
    await rig.start(
        "await Promise.all(Array.from({ length: 8 }, (_, n) => g.echo({ n }))); return 'done';",
        limits=Limits(history_entries=9),
    )
    await rig.answer(*range(8))
    assert (rig.output, rig.row.next_seq) == ("done", 18)


async def test_a_command_beyond_the_history_ends_the_run(rig: Rig) -> None:
    await rig.start("for (;;) await g.echo({});", limits=Limits(history_entries=9))
    for _ in range(3):
        await rig.answer(1)
    assert rig.told[-2:] == ["outcome 3", "call 4"]
    await rig.answer(1)
    assert rig.told[-2:] == ["cancel limit", "aborted history"]
    asked = rig.bodies(e.CancelRequested)[0]
    assert (asked.limit, asked.allowed, asked.used) == ("history", 9, 10)


async def test_a_value_beyond_its_limit_is_a_type_error_with_its_path(rig: Rig) -> None:
    await rig.start(
        "return await g.echo({ big: ['x'.repeat(3_000)] }).catch((error) => [error.name, error.message]);",
        limits=Limits(value_bytes=2_000),
    )
    name, message = rig.output
    assert name == "TypeError"
    assert message.startswith("g.echo: args")
    assert rig.told == ["started", "completed"]


async def test_an_output_beyond_its_limit_fails_the_run(rig: Rig) -> None:
    await rig.start("return 'x'.repeat(3_000);", limits=Limits(value_bytes=2_000))
    assert rig.told == ["started", "failed TypeError"]


@pytest.mark.parametrize(
    ("script", "limit"),
    [
        ("for (;;);", "cpu"),
        ("const again = () => Promise.resolve().then(again); await again();", "cpu"),
        ("const kept = []; for (;;) kept.push(new Array(10_000).fill(1));", "heap"),
    ],
    ids=["loop", "microtasks", "heap"],
)
async def test_what_never_ends_is_aborted_with_its_limit(rig: Rig, script: str, limit: str) -> None:
    await rig.start(f"await sleep(5); {script}", limits=Limits(cpu_ms_per_event=600, heap_bytes=32 * MIB))
    await rig.advance(5)
    assert rig.told[-2:] == ["cancel limit", f"aborted {limit}"]


async def test_a_thousand_calls_are_in_flight_and_more_are_offered_later(rig: Rig) -> None:
    await rig.start(
        "return (await Promise.all(Array.from({ length: 1_003 }, (_, n) => g.echo({ n })))).length;"
    )
    tasks = await rig.claim(2_000)
    assert (len(tasks), len(rig.bodies(e.ScheduleToolCall))) == (1_000, 1_003)
    for task in tasks[:2]:
        await rig.complete(task, 1, go=False)
    later = await rig.claim(2_000)
    assert [task.call for task in later] == [1_001, 1_002]
    for task in [*tasks[2:], *later]:
        await rig.complete(task, 1, go=False)
    await rig.go()
    await rig.answer(1)
    assert rig.output == 1_003
