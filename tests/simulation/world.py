"""The world of one simulation: its clock, its journals, what goes wrong in it, and the trace of what happened."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from sandbox.isolate.api import ChildDied, IsolateLost
from sandbox.journal.canonical import value_of_text
from sandbox.journal.entries import Value
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, RunId, TimeMs
from sandbox.store.memory import Journals
from tests.simulation.checks import Broken, Checks
from tests.simulation.crashes import Point, points, rare
from tests.simulation.history import told
from tests.simulation.loop import PROCESS, Process, SimLoop
from tests.simulation.starting import Starting

if TYPE_CHECKING:
    from tests.simulation.wire import Endpoint

APPENDS = frozenset({"append_event", "append_commands", "append_fork"})
START_MS = 1_700_000_000_000
SKEWS_S = (-3_600.0, 0.0, 0.0, 3_600.0)
FAST_S = (0.0, 0.001, 0.002, 0.02)
SLOW_S = (0.0, 0.002, 0.02, 0.5, 3.0)
"""What a request to the store takes, one way: in a slow world much happens between a question and its answer."""
BIG_BYTES = 70_000
AIMS = 30
"""At so many of the awaits of our code a simulation that takes aim kills whoever stands there, once at each."""
FAVOURS = ("", "", "", "flows", "flows", "forks", "forks", "limit", "deaths", "drains", "orphans")
EDITS = {"flows": "~flows", "orphans": "~flows~lasting", "limit": "~limit", "forks": "~wide"}


@dataclass(frozen=True)
class Rates:
    """How often what goes wrong, in one simulation."""

    crash: float
    pause: float
    lost: float
    unknown: float
    hint_lost: float
    hint_doubled: float
    isolate_lost: float
    child_died: float
    latencies_s: tuple[float, ...] = FAST_S

    @classmethod
    def drawn(cls, random: Random) -> "Rates":
        """Quiet seeds too: a bug that only shows when nothing goes wrong must not hide behind crashes."""
        if random.random() < 0.1:
            return cls(*[0.0] * 8)
        pick = random.choice
        return cls(
            crash=pick((0.0, 0.0005, 0.003, 0.01)),
            pause=pick((0.0, 0.0003, 0.002)),
            lost=pick((0.0, 0.01, 0.1)),
            unknown=pick((0.0, 0.01, 0.1)),
            hint_lost=pick((0.0, 0.1, 0.6, 1.0)),
            hint_doubled=pick((0.0, 0.2)),
            isolate_lost=pick((0.0, 0.02, 0.2)),
            child_died=pick((0.0, 0.0, 0.02, 0.3)),
            latencies_s=pick((FAST_S, FAST_S, SLOW_S)),
        )


class Faults:
    """What goes wrong, while `on`."""

    def __init__(self, random: Random, rates: Rates) -> None:
        self._random = random
        self.rates = rates
        self.on = True

    def _happens(self, rate: float) -> bool:
        return self.on and rate > 0 and self._random.random() < rate

    def of_request(self, name: str) -> str:
        """`lost` before it was executed, `unknown`: executed, and the answer lost; or `fine`."""
        if self._happens(self.rates.lost):
            return "lost"
        return "unknown" if name != "value" and self._happens(self.rates.unknown) else "fine"

    async def travel(self) -> None:
        """To something that is not the database, and back."""
        await asyncio.sleep(self.latency())
        if self._happens(self.rates.lost):
            raise Unavailable("nothing answered")

    def latency(self) -> float:
        return self._random.choice(self.rates.latencies_s if self.on else FAST_S)

    def hint_delays(self) -> list[float]:
        if self._happens(self.rates.hint_lost):
            return []
        delays = [self._random.choice((0.0, 0.001, 0.01, 0.3))]
        return [*delays, self._random.random()] if self._happens(self.rates.hint_doubled) else delays

    def dies_in(self, often: float) -> int:
        """After how many steps a process is killed; -1: never."""
        return self._steps(self.rates.crash * often)

    def pauses_in(self, often: float) -> int:
        return self._steps(self.rates.pause * often)

    def _steps(self, rate: float) -> int:
        return 1 + int(self._random.expovariate(rate)) if rate > 0 else -1

    async def delivering(self, run: str) -> None:
        """The weather of isolates: a delivery takes a while, and is not always finished."""
        await asyncio.sleep(self._random.choice((0.0, 0.0, 0.002, 0.1)))
        if self._happens(self.rates.isolate_lost):
            raise IsolateLost(f"the isolate of {run} made room")
        if self._happens(self.rates.child_died):
            raise ChildDied("killed by the simulation")


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loop = SimLoop(Random(self.random.getrandbits(64)))
        self.faults = Faults(Random(self.random.getrandbits(64)), Rates.drawn(self.random))
        self.journals = Journals(TimeMs(START_MS))
        self.counts: Counter[str] = Counter()
        """What has happened, by what one would call it."""
        self.crashed_at: Counter[Point] = Counter()
        self.aims: frozenset[Point] = frozenset()
        """Awaits at which this simulation kills, once at each."""
        self.favours = self.random.choice(FAVOURS)
        """What there is much of in it."""
        if seed % 3 == 0:
            self.aims = frozenset(self.random.sample(sorted(points()), AIMS)) | rare()
        elif seed % 3 == 1:
            self.aims = rare()
        if self.favours == "deaths":
            self.faults.rates = replace(self.faults.rates, child_died=0.5)
        if self.favours == "orphans":
            self.faults.rates = replace(self.faults.rates, latencies_s=SLOW_S)
        edit = EDITS.get(self.favours, "")
        self.starting = Starting(seed, Random(self.random.getrandbits(64)), self.journals, edit)
        self.checks = Checks(self.journals, self.starting.scripts, self.counts)
        self.server = Process(self.loop, "server", mortal=False)
        self.endpoints: list[Endpoint] = []
        self.values = self.checks.books.values
        self.skews = Random(self.random.getrandbits(64))
        self._trace = hashlib.sha256()
        self.log: list[str] | None = None

    def execute(self, who: str, name: str, method: Any, args: Sequence[Any], options: Any) -> Any:
        """One transaction: at once, whoever waits for it."""
        try:
            return self._execute(who, name, method, args, options)
        except Broken as error:
            self.loop.fatal = error
            raise

    def _execute(self, who: str, name: str, method: Any, args: Sequence[Any], options: Any) -> Any:
        self.tick()
        if name == "append_event":
            self.checks.before_event(args[0])
        step = method(*args, **options)
        try:
            step.send(None)
        except StopIteration as done:
            result = done.value
        else:
            raise AssertionError("a store of the simulation must not wait")
        if name in APPENDS or result:
            self._trace.update(
                f"{self.loop.now_s:.4f} {who} {name} {args if name in APPENDS else ''} {result}".encode()
            )
            if self.log is not None:
                self.log.append(
                    f"{self.loop.now_s:9.3f} {who} {name}: {told(args[0] if args else None, result)}"
                )
        self.checks.after(name, args, result)
        return result

    def process(self, name: str, *, mortal: bool = True) -> Process:
        """On a host whose clock is right, or an hour off."""
        return Process(self.loop, name, mortal=mortal, skew_s=self.skews.choice(SKEWS_S))

    @contextmanager
    def clocks(self) -> Iterator[None]:
        """Whoever of the simulated reads its host's clock gets what that shows."""

        def host() -> float | None:
            process = PROCESS.get()
            return None if process is None else START_MS / 1_000 + process.clock()

        true_s, true_ns = time.time, time.time_ns
        with (
            patch.object(time, "time", lambda: true_s() if (now := host()) is None else now),
            patch.object(time, "time_ns", lambda: true_ns() if (now := host()) is None else int(now * 1e9)),
        ):
            yield

    def tick(self) -> None:
        """The database's clock goes with the world."""
        self.journals.time = TimeMs(START_MS + int(self.loop.now_s * 1_000))

    def effect(self, run: RunId, call: int, body: bytes, *, idempotent: bool) -> None:
        """A tool does what it does."""
        try:
            self.checks.effect(run, call, body, idempotent=idempotent)
        except Broken as error:
            self.loop.fatal = error

    def put(self, namespace: NamespaceId, text: bytes, *, big: bool) -> Value:
        """A value that comes from outside, which put it into the object store if it is big: it is then padded."""
        text = text.ljust(BIG_BYTES) if big else text
        value = value_of_text(text)
        if value.text is None:
            self.values[namespace, value.sha256] = text
        return value

    def note(self, who: str, what: str) -> None:
        line = f"{self.loop.now_s:9.3f} {who} {what}"
        self._trace.update(line.encode())
        if self.log is not None:
            self.log.append(line)

    @property
    def trace(self) -> str:
        """The same for the same seed, wherever it is played."""
        return self._trace.hexdigest()
