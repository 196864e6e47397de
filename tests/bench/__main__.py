"""`make bench`: measure Rewind and print the figures beside their budgets.

    python -m tests.bench [--quick] [--json FILE] [--only TEXT] [--list]

QUICK=1 in the environment is `--quick`. Exit code 1 when a phase could not be measured, never for a slow figure.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from tests.bench import checks, guides, histories, mcp_calls, neighbours, replay, workloads
from tests.bench.driver import Driver
from tests.bench.report import Report, machine, progress
from tests.bench.rig import Rig, RigError
from tests.bench.session import Phase, Session

LIMIT_S, QUICK_LIMIT_S = 480.0, 105.0
"""What the phases may take together; start and stop come on top."""
PHASES: tuple[Phase, ...] = (
    *workloads.PHASES,
    *mcp_calls.PHASES,
    *replay.PHASES,
    *guides.PHASES,
    *histories.PHASES,
    *checks.PHASES,
    *neighbours.PHASES,
)


async def measure(report: Report, *, quick: bool, only: str | None) -> None:
    progress(f"machine: {machine()}")
    progress("starting rewind dev on an empty folder")
    async with Rig() as rig:
        report.add("rewind dev, first start on an empty folder", rig.dev.boot_s, "s")
        async with Driver(rig.dev.url, rig.dev.api_key) as driver:
            session = Session(rig, driver, report, quick=quick, limit_s=QUICK_LIMIT_S if quick else LIMIT_S)
            chosen = [p for p in PHASES if only is None or only in p.name or p is PHASES[0]]
            await session.run(chosen)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="smaller samples, at most two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--only", metavar="TEXT", help="only the phases whose name contains TEXT")
    parser.add_argument("--list", action="store_true", help="list the phases")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(phase.name for phase in PHASES))
        return 0
    quick = arguments.quick or os.environ.get("QUICK", "") not in {"", "0"}
    report = Report()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        asyncio.run(measure(report, quick=quick, only=arguments.only))
    except RigError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress("interrupted: what was measured so far")
    print(f"\n{report.table()}\n")
    over = [row for row in report.rows if row.verdict == "over"]
    print(
        f"{sum(row.verdict == 'ok' for row in report.rows)} budgets kept, {len(over)} over, {len(report.failures)} phases failed"
    )
    if arguments.json is not None:
        arguments.json.write_text(report.to_json())
    return 1 if report.failures else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
