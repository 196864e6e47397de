"""Hints reach every process of a role, survive dead peers, and wake exactly who should look."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from sandbox.journal.ids import NamespaceId, OrganizationId, RunId
from sandbox.store.hints import HintBus
from sandbox.store.interface import TaskFilter
from sandbox.store.wakeups import LOOKS_PER_S, Wakeups
from tests.fixtures.turns import until

ORGANIZATION = OrganizationId("o")
OFFER = {"k": "tasks", "organization": "o", "namespace": "n", "toolset": "tools", "tools": ["a"]}


def bus(folder: Path, role: str, inbox: list[dict[str, Any]]) -> HintBus:
    made = HintBus(folder, role)
    made.on_message(inbox.append)
    made.start()
    return made


async def test_a_hint_reaches_every_process_of_the_role_and_no_other(tmp_path: Path) -> None:
    first: list[Any] = []
    second: list[Any] = []
    other: list[Any] = []
    buses = [bus(tmp_path, "worker", first), bus(tmp_path, "worker", second), bus(tmp_path, "api", other)]
    buses[2].send("worker", {"k": "ready"})
    await until(lambda: len(first) == 1)
    await until(lambda: len(second) == 1)
    assert first == second == [{"k": "ready"}]
    assert other == []
    for made in buses:
        made.close()


async def test_the_socket_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    inbox: list[Any] = []
    sender = bus(tmp_path, "api", inbox)
    dead = bus(tmp_path, "worker", [])
    assert dead._socket is not None
    asyncio.get_running_loop().remove_reader(dead._socket.fileno())
    dead._socket.close()  # as kill -9 leaves it: the file stays
    sender.send("worker", {"k": "ready"})
    await until(lambda: not (tmp_path / dead.address).exists())
    sender.close()


async def test_a_hint_that_is_too_long_is_not_sent(tmp_path: Path) -> None:
    inbox: list[Any] = []
    made = bus(tmp_path, "worker", inbox)
    made.send("worker", {"k": "event", "body": "x" * 70_000})
    made.send("worker", {"k": "ready"})
    await until(lambda: len(inbox) == 1)
    assert inbox == [{"k": "ready"}]
    made.close()


async def test_a_burst_arrives_whole_and_in_order(tmp_path: Path) -> None:
    inbox: list[Any] = []
    sender, receiver = bus(tmp_path, "worker", []), bus(tmp_path, "api", inbox)
    sent = [{"k": "leased", "n": n, "body": "x" * 20_000} for n in range(100)]
    for message in sent:
        sender.send_to(receiver.address, message)
    await until(lambda: len(inbox) == len(sent))
    assert inbox == sent
    for made in (sender, receiver):
        made.close()


async def test_wakeups_are_for_the_run_and_for_one_waiter_per_call(tmp_path: Path) -> None:
    receiver = HintBus(tmp_path, "api")
    wakeups = Wakeups(receiver)
    receiver.start()
    everything = TaskFilter(ORGANIZATION)
    narrow = TaskFilter(ORGANIZATION, NamespaceId("n"), "tools", ("b",))
    with (
        wakeups.watch_run(RunId("r")) as run,
        wakeups.watch_run(RunId("s")) as other,
        wakeups.park(narrow, "c1", 1) as narrow_watch,
        wakeups.park(everything, "c2", 1) as first,
        wakeups.park(everything, "c3", 1) as second,
    ):
        receiver.send("api", {"k": "run", "run": "r"})
        receiver.send("api", OFFER)
        await run.wait(5)
        await first.wait(5)
        assert not other.woken
        assert not narrow_watch.woken
        assert not second.woken
        first.offers.clear()  # it looks
    assert not wakeups._runs
    assert not wakeups._tasks
    assert not any(wakeups._unseen.values())
    receiver.close()


async def test_of_many_waiting_claims_few_look_without_a_hint(tmp_path: Path) -> None:
    """Thousands of them would otherwise ask the database thousands of times a second."""
    wakeups = Wakeups(HintBus(tmp_path, "api"))
    moment = 2 / LOOKS_PER_S
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(wakeups.park(TaskFilter(ORGANIZATION), "first", 1))
        assert watch.look
        await watch.wait(moment)
        assert watch.look, "alone it is a safety net for a lost hint"
        for number in range(20 * LOOKS_PER_S):
            stack.enter_context(wakeups.park(TaskFilter(ORGANIZATION), str(number), 1))
        other = stack.enter_context(wakeups.park(TaskFilter(OrganizationId("p")), "other", 1))
        await asyncio.gather(watch.wait(moment), other.wait(moment))
        assert (watch.look, other.look) == (False, True)
        watch.wake()
        await watch.wait(moment)
        assert watch.look
    assert not wakeups._tasks


async def test_an_offer_that_nobody_looked_at_wakes_the_next_claim(tmp_path: Path) -> None:
    receiver = HintBus(tmp_path, "api")
    wakeups = Wakeups(receiver)
    receiver.start()
    wanted = TaskFilter(ORGANIZATION, NamespaceId("n"), "tools", ("a",))
    wakeups.wake_task("o", "n", "tools", "a")  # no claim is parked
    with wakeups.park(wanted, "c1", 1) as first:
        assert first.woken
        with wakeups.park(wanted, "c2", 1) as second:
            assert not second.woken
    # c1 has left with other tasks, without a look.
    with wakeups.park(TaskFilter(ORGANIZATION, NamespaceId("n"), "tools", ("b",)), "c3", 1) as stranger:
        assert not stranger.woken
    with wakeups.park(wanted, "c4", 1) as third:
        assert third.woken
        third.offers.clear()
    with wakeups.park(wanted, "c5", 1) as fourth:
        assert not fourth.woken
    receiver.close()


async def test_a_lazy_hint_travels_with_the_next_one_or_alone_a_little_later(tmp_path: Path) -> None:
    inbox: list[Any] = []
    sender, receiver = bus(tmp_path, "api", []), bus(tmp_path, "worker", inbox)
    datagrams = []
    send = sender._send

    def spy(address: str, datagram: bytes) -> bool:
        datagrams.append(datagram)
        return send(address, datagram)

    sender._send = spy  # type: ignore[method-assign]
    sender.send("worker", {"k": "unpark"}, lazy=True)
    sender.send("worker", {"k": "park"}, lazy=True)
    sender.send("worker", {"k": "event"})
    await until(lambda: len(inbox) == 3)
    assert datagrams == [b'[{"k":"unpark"},{"k":"park"},{"k":"event"}]']
    sender.send("worker", {"k": "unpark"}, lazy=True)
    await until(lambda: len(inbox) == 4)
    for made in (sender, receiver):
        made.close()
