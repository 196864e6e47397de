"""Customers take turns at threads; who wastes them is among others of that kind."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from sandbox.compiler import fair_threads, value_checks
from sandbox.compiler.fair_threads import FairThreads
from sandbox.compiler.json_schema import ValueValidator
from sandbox.compiler.value_checks import TOO_LONG, problem_of
from sandbox.customers import on_behalf_of
from sandbox.journal.canonical import parse_json

WAIT_S = 20.0


class Log:
    """Work that notes when it was done, and work that waits to be let go."""

    def __init__(self, threads: FairThreads) -> None:
        self.threads = threads
        self.done: list[str] = []
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.loop = asyncio.get_running_loop()

    def ask(self, owner: str, name: str, gate: threading.Event | None = None) -> "asyncio.Task[None]":
        def work() -> None:
            self.loop.call_soon_threadsafe(self.begun.put_nowait, name)
            assert gate is None or gate.wait(WAIT_S)
            self.done.append(name)

        async def run() -> None:
            on_behalf_of(owner)
            await self.threads.run(work)

        return asyncio.create_task(run())


async def test_customers_take_turns() -> None:
    gate, log = threading.Event(), Log(FairThreads(1, "test"))
    first = log.ask("a", "a0", gate)
    await log.begun.get()
    many = [log.ask("a", f"a{number}") for number in range(1, 6)]
    others = [log.ask("b", "b0"), log.ask("c", "c0"), log.ask("b", "b1")]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *many, *others)
    assert log.done == ["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4", "a5"]


async def test_nobody_has_all_threads() -> None:
    gate, log = threading.Event(), Log(FairThreads(2, "test"))
    many = [log.ask("a", f"a{number}", gate) for number in range(4)]
    assert await log.begun.get() == "a0"
    await log.ask("b", "b0")
    assert log.done == ["b0"]
    gate.set()
    await asyncio.gather(*many)
    assert log.done == ["b0", "a0", "a1", "a2", "a3"]


async def test_the_wasteful_share_one() -> None:
    gate, log = threading.Event(), Log(FairThreads(2, "test"))
    for owner in ("a", "b"):
        on_behalf_of(owner)
        log.threads.note_waste()
    held = [log.ask("a", "a0", gate), log.ask("b", "b0", gate)]
    assert await log.begun.get() == "a0"
    await log.ask("c", "c0")
    assert log.done == ["c0"]
    gate.set()
    await asyncio.gather(*held)


async def test_who_gives_up_waiting_is_not_worked_for() -> None:
    gate, log = threading.Event(), Log(FairThreads(1, "test"))
    first, second = log.ask("a", "a0", gate), log.ask("a", "a1")
    await log.begun.get()
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    gate.set()
    await first
    await log.ask("a", "a2")
    assert log.done == ["a0", "a2"]


async def test_whose_checks_take_too_long_is_wasteful(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = FairThreads(2, "test")
    monkeypatch.setattr(value_checks, "_threads", threads)
    slow: Callable[[bytes, bytes], str] = lambda _schema, _text: TOO_LONG  # noqa: E731
    monkeypatch.setattr(value_checks, "_asked", slow)
    on_behalf_of("a")
    validator = ValueValidator({"type": "string", "pattern": "(?=(a+)+)b"})
    assert await problem_of(validator, b'"' + b"a" * 100_000 + b'"', parse_json) == TOO_LONG
    assert list(threads._wasteful) == ["a"]


def test_who_is_wasteful_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_threads, "WASTEFUL_MAX", 2)
    threads = FairThreads(1, "test")
    for owner in "abca":
        on_behalf_of(owner)
        threads.note_waste()
    assert list(threads._wasteful) == ["c", "a"]
