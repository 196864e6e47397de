"""Rows of measured figures beside their budgets, as a table and as JSON.

Nothing here fails a build: a budget that is missed is shown as `over`, a phase that broke as `FAILED`.
"""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Budget:
    """What DESIGN §14 or the last column of the peers' table asks for."""

    limit: float
    source: str
    at_least: bool = False

    def ratio(self, measured: float) -> float:
        """Return how many times the budget was used; 1 or less is good."""
        used, allowed = (self.limit, measured) if self.at_least else (measured, self.limit)
        return used / allowed if allowed > 0 else math.inf if used > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    measured: float
    unit: str
    budget: Budget | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.budget is None:
            return ""
        return "ok" if self.budget.ratio(self.measured) <= 1.0 else "over"

    def cells(self) -> list[str]:
        if self.budget is None:
            return [self.name, f"{number(self.measured)} {self.unit}", "", "", "", self.note]
        sign = "≥" if self.budget.at_least else "≤"
        return [
            self.name,
            f"{number(self.measured)} {self.unit}",
            f"{sign} {number(self.budget.limit)} {self.unit}",
            f"{self.budget.ratio(self.measured):.2f}",
            self.verdict,
            " · ".join(part for part in (self.budget.source, self.note) if part),
        ]


@dataclass
class Report:
    """What the phases add to."""

    rows: list[Row] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    began_at: float = field(default_factory=time.time)

    def add(
        self, name: str, measured: float, unit: str, budget: Budget | None = None, note: str = ""
    ) -> None:
        self.rows.append(Row(name, measured, unit, budget, note))

    def table(self) -> str:
        head = ["workload", "measured", "budget", "ratio", "", "budget from"]
        body = [row.cells() for row in self.rows]
        body += [[name, "FAILED", "", "", "", reason] for name, reason in self.failures.items()]
        body += [[name, "skipped", "", "", "", reason] for name, reason in self.skipped.items()]
        widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
        lines = [head, ["-" * width for width in widths], *body]
        return "\n".join(
            "  ".join(
                _aligned(cell, width, column)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def to_json(self) -> str:
        rows = [
            asdict(row)
            | ({"ratio": row.budget.ratio(row.measured), "verdict": row.verdict} if row.budget else {})
            for row in self.rows
        ]
        return json.dumps(
            {
                "machine": machine(),
                "seconds": round(time.time() - self.began_at, 1),
                "rows": rows,
                "phases": self.details,
                "failures": self.failures,
                "skipped": self.skipped,
            },
            indent=1,
        )


def machine() -> dict[str, Any]:
    """Return what a figure depends on besides the code."""
    return {
        "cores": os.cpu_count(),
        "load1": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.system(),
        "py_loop_cpu_s": calibration(),
    }


def calibration() -> float:
    """Return the CPU seconds of one fixed loop: what figures of two machines may be divided by."""
    began, x = time.process_time(), 0
    for i in range(3_000_000):
        x = (x * 31 + i) & 0xFFFFFFFF
    return round(time.process_time() - began, 3)


def quantile(seconds: Sequence[float], part: float) -> float:
    """Return a quantile in ms, by the nearest rank."""
    if not seconds:
        raise ValueError("nothing was measured")
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(part * len(ordered)) - 1))] * 1000


def number(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column in {1, 2, 3} else cell.ljust(width)
