"""The parent's side of one sandbox process: start it, ask it, watch it, kill it.

One request at a time, the tenants in turn. While a delivery runs, the parent reads the child's CPU clock and its resident memory:
some scripts cannot be interrupted from inside. Whatever happens, exactly one run is to blame: the one inside.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socketpair
from typing import Any, Protocol

import orjson

from sandbox.isolate.api import ChildDied, IsolateLost, LimitExceeded, SandboxFault
from sandbox.isolate.confine import LAYERS, ON
from sandbox.isolate.frames import Frame, FrameError, read_frame
from sandbox.isolate.turns import Turns
from sandbox.isolate.vitals import ResidentMemory, Vitals, process_cpu_ns

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
NICE = 10
"""Of a process that is slow with what nobody else waits for."""
WATCH_INTERVAL_S = 0.02
CPU_GRACE_NS = 500_000_000
"""The child stops a script itself; the parent kills when that has not helped for so long."""
RSS_GRACE_BYTES = 1024**3 + 256 * 1024 * 1024
"""Resident memory of one delivery beyond its heap limit: V8's grace while it terminates, and some room."""
RSS_BYTES_MAX = 1024**3 + 512 * 1024 * 1024
"""Resident memory of the whole process beyond the heap limit of the run inside; what others keep is far less."""
WALL_LIMIT_S = 600
START_TIMEOUT_S = 30
STDERR_BYTES_MAX = 16 * 1024
FIRST_CHILD_UID = 61_184
CHILD_UIDS = 4_000
"""A range that systems leave to short-lived services; every child of a worker has its own."""

_uids = iter(range(10**9))


@dataclass
class _Flight:
    """What is inside the child now."""

    budget_us: int
    heap_bytes: int
    started_s: float
    rss_bytes: int
    began_ns: int
    """Of the process's CPU clock."""
    events: Sequence[bytes] = ()
    cpu_us: int = 0
    rss_seen: int = 0
    """At the last look."""
    killed_for: LimitExceeded | None = None
    look_after: asyncio.TimerHandle | None = None


class Droppable(Protocol):
    @property
    def tenant(self) -> str: ...

    @property
    def idle(self) -> bool: ...

    @property
    def held_bytes(self) -> int:
        """About how much dropping it would free."""
        ...

    def drop(self) -> None: ...


@dataclass
class ChildProcess:
    """Errors of every request: ChildDied; of deliveries also LimitExceeded and SandboxFault."""

    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    vitals: Vitals
    memory: ResidentMemory
    confinement: dict[str, str] = field(default_factory=dict)
    isolates: OrderedDict[int, Droppable] = field(default_factory=OrderedDict)
    """Those in it by number, the one that was idle longest first."""
    turns: Turns = field(default_factory=Turns)
    resident_bytes: int = 0
    """After the last watched request, and how much more than before it."""
    grown_bytes: int = 0
    _killed: bool = False
    _flight: _Flight | None = None
    _stderr: bytes = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def dead(self) -> bool:
        """Killed by us, or ended by itself or by others, also while it had nothing to do: that is nobody's fault."""
        return self._killed or self.process.poll() is not None or self.writer.is_closing()

    async def ask(self, request: Frame, *, tenant: str = "") -> Frame:
        """Send and wait for the answer, unwatched."""
        async with self.turns.turn(tenant):
            return await self._exchange(request)

    async def ask_watched(
        self,
        request: Frame,
        *,
        tenant: str,
        budget_us: int,
        heap_bytes: int,
        events: Sequence[bytes] = (),
    ) -> Frame:
        """As `ask`, but kill the child when CPU or memory run away. A limit that was hit raises LimitExceeded."""
        async with self.turns.turn(tenant):
            if self.dead:
                raise IsolateLost("the sandbox process is gone")
            flight = _Flight(
                budget_us,
                heap_bytes,
                time.monotonic(),
                self.memory.read_bytes(),
                self.cpu_ns(),
                events,
            )
            self._flight = flight
            flight.look_after = asyncio.get_running_loop().call_later(WATCH_INTERVAL_S, self._look, flight)
            try:
                answer = await self._exchange(request)
            finally:
                self._flight = None
                flight.look_after.cancel()
            self.resident_bytes = self.memory.read_bytes()
            self.grown_bytes = self.resident_bytes - flight.rss_bytes
        self._raise_stop(answer, flight)
        return answer

    def cpu_ns(self) -> int:
        """What the process has used; 0 when it is gone."""
        try:
            return process_cpu_ns(self.pid)
        except OSError:
            return 0

    def tell(self, request: Frame) -> None:
        """Send what needs no answer."""
        if not self.dead:
            self.writer.write(request.encode())

    def yield_to_others(self) -> None:
        """Let everything else on this machine go first, for good: the way back takes privileges."""
        with contextlib.suppress(OSError):  # it has just ended
            os.setpriority(os.PRIO_PROCESS, self.pid, NICE)

    def kill(self) -> None:
        self._killed = True
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)

    async def stop(self) -> None:
        """Kill and reap."""
        self.kill()
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
        await asyncio.to_thread(self.process.wait)
        if self.process.stderr is not None and not self.process.stderr.closed:
            self.process.stderr.close()
            self.memory.close()

    async def _exchange(self, request: Frame) -> Frame:
        if self.dead:
            raise IsolateLost("the sandbox process is gone")
        try:
            self.writer.write(request.encode())
            await self.writer.drain()
            answer = await read_frame(self.reader)
        except (asyncio.IncompleteReadError, OSError, FrameError) as error:
            raise await self._post_mortem() from error
        except asyncio.CancelledError:
            # The answer would be taken for that of the next request.
            self.kill()
            raise
        if (fault := answer.header.get("fault")) is not None:
            raise SandboxFault(fault)
        return answer

    async def _post_mortem(self) -> Exception:
        self.kill()
        code = await asyncio.to_thread(self.process.wait)
        flight = self._flight
        if flight is not None:
            if flight.killed_for is not None:
                return flight.killed_for
            held = flight.rss_seen - flight.rss_bytes
            killed_by_the_system = code == -signal.SIGKILL and held > flight.heap_bytes
            if self.vitals.out_of_memory or killed_by_the_system:
                return self._exceeded(flight, "heap", max(held, flight.heap_bytes + 1))
        detail = self._last_words()
        return ChildDied(f"the sandbox process ended with {code}{': ' if detail else ''}{detail}")

    def _last_words(self) -> str:
        stream = self.process.stderr
        if stream is None:
            return ""
        os.set_blocking(stream.fileno(), False)
        text = stream.read(STDERR_BYTES_MAX) or b""
        return text.decode(errors="replace").strip()[-2_000:]

    def _look(self, flight: _Flight) -> None:
        """One look at a busy child; again after the interval unless it had to be killed."""
        try:
            now_ns = process_cpu_ns(self.pid)
            used_ns = now_ns - max(self.vitals.event_began_ns, flight.began_ns)
            flight.cpu_us = (now_ns - flight.began_ns) // 1_000
        except OSError:
            return
        rss = flight.rss_seen = self.memory.read_bytes()
        if used_ns > flight.budget_us * 1_000 + CPU_GRACE_NS:
            flight.killed_for = self._exceeded(flight, "cpu", used_ns // 1_000_000)
        elif rss > flight.heap_bytes + min(flight.rss_bytes + RSS_GRACE_BYTES, RSS_BYTES_MAX):
            flight.killed_for = self._exceeded(flight, "heap", rss - flight.rss_bytes)
        elif time.monotonic() - flight.started_s < WALL_LIMIT_S:
            flight.look_after = asyncio.get_running_loop().call_later(WATCH_INTERVAL_S, self._look, flight)
            return
        self.kill()

    def _exceeded(self, flight: _Flight, limit: str, used: int) -> LimitExceeded:
        allowed = flight.budget_us // 1_000 if limit == "cpu" else flight.heap_bytes
        return LimitExceeded(limit, allowed, used, self._event_seq(flight.events), flight.cpu_us)

    def _event_seq(self, events: Sequence[bytes]) -> int | None:
        """Of the event that the script was working on."""
        done = self.vitals.events_done
        if not events:
            return None
        return int(orjson.loads(events[min(done, len(events) - 1)])["seq"])

    def _raise_stop(self, answer: Frame, flight: _Flight) -> None:
        stop = answer.header.get("stop")
        if stop is not None:
            per = 1_000 if stop == "cpu" else 1
            allowed, used = answer.header["allowed"] // per, answer.header["used"] // per
            cpu_us = max(flight.cpu_us, (self.cpu_ns() - flight.began_ns) // 1_000)
            seq = self._event_seq(flight.events)
            raise LimitExceeded(stop, allowed, max(used, allowed + 1), seq, cpu_us)


async def start_child(
    module: str, arguments: Sequence[str] = (), *, require_confinement: bool
) -> ChildProcess:
    """Start `python -m module` with one socket, confined. Errors: SandboxFault when it does not come up."""
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    vitals, page = Vitals.create()
    uid = FIRST_CHILD_UID + next(_uids) % CHILD_UIDS if os.getuid() == 0 else -1
    try:
        process = subprocess.Popen(
            [
                sys.executable,
                "-s",
                "-m",
                module,
                *(str(number) for number in (theirs.fileno(), page, os.getpid(), uid)),
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(), page),
            env={"PYTHONPATH": str(PACKAGE_ROOT), "TZ": "UTC", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
    finally:
        theirs.close()
        os.close(page)
    reader, writer = await asyncio.open_unix_connection(sock=ours, limit=1 << 20)
    child = ChildProcess(process, reader, writer, vitals, ResidentMemory(process.pid))
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            hello = await read_frame(reader)
    except (asyncio.IncompleteReadError, TimeoutError, OSError) as error:
        words = await child._post_mortem()
        await child.stop()
        raise SandboxFault(f"a sandbox process did not start: {words}") from error
    except asyncio.CancelledError:  # nobody wants it any more
        await child.stop()
        raise
    child.confinement = hello.header["confinement"]
    missing = missing_layers(child.confinement)
    if require_confinement and missing:
        await child.stop()
        listed = "; ".join(f"{layer}: {reason}" for layer, reason in missing.items())
        raise SandboxFault(f"REWIND_REQUIRE_CONFINEMENT is set, but this host does not allow: {listed}")
    return child


def missing_layers(confinement: dict[str, str]) -> dict[str, str]:
    return {layer: confinement.get(layer, "unknown") for layer in LAYERS if confinement.get(layer) != ON}


def answer_json(answer: Frame) -> dict[str, Any]:
    parsed: dict[str, Any] = orjson.loads(answer.body)
    return parsed
