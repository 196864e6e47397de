"""One session of measuring: the rig, the driver, the report, and the time that is left."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.bench.driver import Driver
from tests.bench.meters import Usage, difference
from tests.bench.report import Report, progress, quantile
from tests.bench.rig import Rig

T = TypeVar("T")
GRACE_S = 5.0
"""What a phase may take beyond its cap, to finish the operation that it has begun."""


@dataclass(frozen=True, slots=True)
class Phase:
    """`cap_s` bounds a phase in a full session, `quick_cap_s` in a quick one."""

    name: str
    work: Callable[["Session"], Awaitable[None]]
    cap_s: float
    quick_cap_s: float


class Session:
    def __init__(self, rig: Rig, driver: Driver, report: Report, *, quick: bool, limit_s: float) -> None:
        self.rig = rig
        self.driver = driver
        self.report = report
        self.quick = quick
        self._give_up = time.monotonic() + limit_s
        self._phase = ""
        self._phase_ends = 0.0

    def scaled(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @property
    def left_s(self) -> float:
        """Seconds until the running phase has used its cap."""
        return self._phase_ends - time.monotonic()

    async def run(self, phases: Sequence[Phase]) -> None:
        """Run one phase after the other; one that breaks does not keep the others from being measured."""
        for number, phase in enumerate(phases, 1):
            left = self._give_up - time.monotonic()
            cap = min(phase.quick_cap_s if self.quick else phase.cap_s, left)
            if left < 2:
                self.report.skipped[phase.name] = "no time was left"
                continue
            self._phase, self._phase_ends = phase.name, time.monotonic() + cap
            began = time.monotonic()
            progress(f"[{number}/{len(phases)}] {phase.name} (at most {cap:.0f} s)")
            try:
                async with asyncio.timeout(cap + GRACE_S):
                    await phase.work(self)
            except TimeoutError as error:
                self.report.failures[phase.name] = str(error) or f"not finished after {cap + GRACE_S:.0f} s"
            except Exception as error:
                self.rig.dev.check()
                self.report.failures[phase.name] = f"{type(error).__name__}: {error}".splitlines()[0]
            if reason := self.report.failures.get(phase.name):
                progress(f"      FAILED: {reason}")
            progress(f"      {time.monotonic() - began:.1f} s")

    def detail(self, name: str, **values: Any) -> None:
        self.report.details.setdefault(name, {}).update(values)

    async def measured(self, work: Awaitable[T]) -> tuple[T, Usage]:
        """Do the work and return what it cost besides."""
        before = await self.rig.sample()
        result = await work
        return result, difference(before, await self.rig.sample())

    async def repeated(self, count: int, once: Callable[[], Awaitable[object]]) -> list[float]:
        """Do something up to `count` times while the phase's cap allows; returns the durations in seconds."""
        durations: list[float] = []
        while len(durations) < count and (self.left_s > 0 or not durations):
            began = time.perf_counter()
            await once()
            durations.append(time.perf_counter() - began)
        return durations


def latencies(seconds: Sequence[float]) -> dict[str, Any]:
    return {
        "n": len(seconds),
        "p50_ms": round(quantile(seconds, 0.5), 2),
        "p99_ms": round(quantile(seconds, 0.99), 2),
    }
