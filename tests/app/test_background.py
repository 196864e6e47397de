"""What a process repeats by itself: faults are logged and survived, `stop` ends it, more work is done at once."""

import asyncio
import logging

import pytest

from app.background import pause, repeat
from sandbox.journal.errors import Unavailable

LONG_S = 3_600.0


async def test_more_work_is_done_at_once_and_faults_are_survived(caplog: pytest.LogCaptureFixture) -> None:
    stop = asyncio.Event()
    left: list[bool | Exception] = [True, True, Unavailable("the database is away"), KeyError("bug"), False]

    async def work() -> bool:
        done = left.pop(0)
        if not left:
            stop.set()
        if isinstance(done, Exception):
            raise done
        return done

    with caplog.at_level(logging.WARNING):
        await repeat("sweeping", work, stop, every_s=0)
    assert not left
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "sweeping: waits: the database is away"),
        ("ERROR", "sweeping: failed; it goes on"),
    ]


async def test_stop_ends_a_pause() -> None:
    stop = asyncio.Event()
    began = asyncio.Event()

    async def work() -> bool:
        began.set()
        return False

    repeating = asyncio.create_task(repeat("sweeping", work, stop, every_s=LONG_S))
    await began.wait()
    stop.set()
    await repeating
    await pause(stop, LONG_S)


async def test_what_wakes_the_work_ends_its_pause_and_is_not_missed_while_it_works() -> None:
    stop, wake = asyncio.Event(), asyncio.Event()
    times = 0

    async def work() -> None:
        nonlocal times
        times += 1
        if times < 3:
            wake.set()
        else:
            stop.set()

    async with asyncio.timeout(10):
        await repeat("dispatching", work, stop, every_s=LONG_S, wake=wake)
    assert times == 3
