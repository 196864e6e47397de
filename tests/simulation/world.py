"""The world of one simulation: its clock, its journals, what goes wrong in it, and the trace of what happened."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from sandbox.isolate.api import ChildDied, IsolateLost
from sandbox.journal.ids import NamespaceId, RunId, Sha256, TimeMs
from sandbox.store.memory import Journals
from tests.simulation.checks import Broken, Checks
from tests.simulation.loop import Process, SimLoop

if TYPE_CHECKING:
    from tests.simulation.wire import Endpoint

APPENDS = frozenset({"append_event", "append_commands"})
START_MS = 1_700_000_000_000


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
            child_died=pick((0.0, 0.0, 0.02)),
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

    def latency(self) -> float:
        return self._random.choice((0.0, 0.001, 0.002, 0.02))

    def hint_delays(self) -> list[float]:
        if self._happens(self.rates.hint_lost):
            return []
        delays = [self._random.choice((0.0, 0.001, 0.01, 0.3))]
        return [*delays, self._random.random()] if self._happens(self.rates.hint_doubled) else delays

    def crashes(self, often: float) -> bool:
        return self._happens(self.rates.crash * often)

    def pauses(self, often: float) -> bool:
        return self._happens(self.rates.pause * often)

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
        self.checks = Checks(self.journals)
        self.server = Process(self.loop, "server", mortal=False)
        self.endpoints: list[Endpoint] = []
        self.values: dict[tuple[NamespaceId, Sha256], bytes] = {}
        self.crashes = self.pauses = 0
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
        self.journals.time = TimeMs(START_MS + int(self.loop.now_s * 1_000))
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
            self.note(who, name, args if name in APPENDS else "", result)
        self.checks.after(name, args, result)
        return result

    def effect(self, run: RunId, call: int, *, idempotent: bool) -> None:
        """A tool does what it does."""
        try:
            self.checks.effect(run, call, idempotent=idempotent)
        except Broken as error:
            self.loop.fatal = error

    def note(self, who: str, name: str, *facts: object) -> None:
        line = f"{self.loop.now_s:.4f} {who} {name} {facts!r}"
        self._trace.update(line.encode())
        if self.log is not None:
            self.log.append(line)

    @property
    def trace(self) -> str:
        """The same for the same seed, wherever it is played."""
        return self._trace.hexdigest()
