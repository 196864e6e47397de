"""Large bodies are read and written beside the event loop."""

import asyncio
import gc
import threading

import pytest

from app.large import LARGE_BYTES, beside_loop, note_body


async def worked_in(size: int) -> str:
    note_body(size)
    return await beside_loop(lambda: threading.current_thread().name)


async def test_a_small_body_stays_on_the_loop() -> None:
    assert await worked_in(LARGE_BYTES - 1) == threading.main_thread().name


async def test_a_large_body_leaves_the_loop_free() -> None:
    free = asyncio.Event()
    released = threading.Event()
    note_body(LARGE_BYTES)
    work = asyncio.create_task(beside_loop(released.wait, 20))
    asyncio.get_running_loop().call_soon(free.set)
    await free.wait()  # the loop turns while the work waits
    released.set()
    assert await work is True
    assert await worked_in(LARGE_BYTES) != threading.main_thread().name


async def test_a_request_knows_its_own_body_only() -> None:
    large, small = await asyncio.gather(worked_in(LARGE_BYTES), worked_in(10))
    assert large != small == threading.main_thread().name


async def test_errors_come_through_and_the_collector_is_on_again() -> None:
    def fail() -> None:
        raise ValueError("no JSON")

    note_body(LARGE_BYTES)
    with pytest.raises(ValueError, match="no JSON"):
        await beside_loop(fail)
    assert gc.isenabled()
