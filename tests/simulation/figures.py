"""What simulations have done, added up over the processes that played them, for the eye."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the controller of a parallel test run imports nothing that it does not need
    from tests.simulation.crashes import Point
    from tests.simulation.simulation import Played


def figures(seeds: Sequence[int], played: "Iterable[Played]", points: "Iterable[Point]") -> str:
    """As JSON, to be given from one process to another. `points`: the awaits at which a process may be killed."""
    runs: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    crashed: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for one in played:
        runs.update(one.runs)
        counts.update(one.counts)
        crashed.update({f"{file}:{line}": count for (file, line), count in one.crashed_at.items()})
        pairs.update({f"{state} {entry}": count for (state, entry), count in one.pairs.items()})
    crashed.update({f"{file}:{line}": 0 for file, line in points})
    return json.dumps(
        {"seeds": [seeds[0], len(seeds)], "runs": runs, "counts": counts, "crashed": crashed, "pairs": pairs}
    )


def shown(parts: Sequence[dict[str, Any]]) -> str:
    seeds = ", ".join(f"{first} to {first + count - 1}" for first, count in (part["seeds"] for part in parts))
    total: dict[str, Counter[str]] = {name: Counter() for name in ("runs", "counts", "crashed", "pairs")}
    for part in parts:
        for name, counter in total.items():
            counter.update(part[name])
    awaits = total["crashed"]
    missed = sorted(point for point, count in awaits.items() if not count)
    return "\n".join(
        [
            f"Simulated: {sum(part['seeds'][1] for part in parts)} seeds ({seeds}; make sim SEED=n shows one)",
            f"  runs: {total['runs'].total()} ({_list(total['runs'])})",
            f"  what happened: {_list(total['counts'])}",
            f"  awaits of our code at which a process was killed: {len(awaits) - len(missed)} of {len(awaits)}"
            + (f", not at {', '.join(missed)}" if missed else ""),
            f"  pairs of a state and an entry: {len(total['pairs'])} ({_list(total['pairs'])})",
        ]
    )


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
