"""Rewind and its peers, measured by the peers' own bench.py in one run, and the ratios that count.

    python -m tests.bench.peers restate_ts,dbos_ts,absurd_ts_poll10 [runs]

The peers' folder is ../shared/bench/peers beside this repository, or REWIND_BENCH_PEERS. Its run.sh installs them
(from PyPI and npm, outside the repository) and then calls the bench.py beside it: here a copy of the folder in
which that file is a stub calling `measure` below, which adds Rewind to the list and hands over to the original.
All peers that need a database, and Rewind, share that bench's Postgres in its default configuration.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS_DEFAULT = "restate_ts,dbos_ts,absurd_ts_poll10"
READY_TIMEOUT_S = 60.0
STUB = """import sys
sys.path.insert(0, {repository!r})
from tests.bench.peers import measure
measure()
"""
# Of each phase: what is compared, its unit, and whether more is better.
COMPARED = (
    ("w2", "p50_ms", "W2 p50", "ms", False),
    ("w1", "p50_ms", "W1 p50, c=1", "ms", False),
    ("w1", "cpu_s_per_1k_steps", "W1 CPU per step, c=1", "ms", False),
    ("w1t", "steps_s", "W1 steps/s, c=32", "/s", True),
    ("w1t", "cpu_s_per_1k_steps", "W1 CPU per step, c=32", "ms", False),
    ("w3", "wall_s", "W3 1,000 steps", "s", False),
    ("w3rec", "spawn_to_first_new_step_ms", "W3 restart to next new step", "ms", False),
    ("w4sig", "p50_ms", "W4 signal to completion p50", "ms", False),
    ("w5", "p50_ms", "W5 p50", "ms", False),
)
WANTED = {
    "W2 p50": ("≤", 1.5, ("dbos_ts",)),
    "W1 p50, c=1": ("≤", 1.0, ("restate_ts",)),
    "W1 CPU per step, c=1": ("≤", 0.6, ("restate_ts",)),
    "W1 steps/s, c=32": ("≥", 2.0, ()),
    "W1 CPU per step, c=32": ("≤", 0.5, ()),
    "W3 1,000 steps": ("≤", 1.0, ("restate_ts",)),
    "W3 restart to next new step": ("≤", 1.0, ("restate_ts",)),
    "W4 signal to completion p50": ("≤", 1.2, ("dbos_ts",)),
    "W5 p50": ("≤", 1.0, ("restate_ts",)),
}
"""How Rewind's figure must relate to which peer's; () means the best of those measured."""


def peers_folder() -> Path | None:
    given = os.environ.get("REWIND_BENCH_PEERS")
    folder = Path(given) if given else REPOSITORY.parent / "shared" / "bench" / "peers"
    return folder.resolve() if (folder / "bench.py").exists() else None


def main() -> int:
    """Install the peers if needed, measure all, print the ratios."""
    folder = peers_folder()
    if folder is None:
        print(
            "skipped: the peers' bench is not here; set REWIND_BENCH_PEERS to its folder (with bench.py and run.sh)"
        )
        return 0
    if os.geteuid() != 0:
        print("skipped: the peers' bench needs root, to run its Postgres as the user postgres")
        return 0
    peers = sys.argv[1] if len(sys.argv) > 1 else PEERS_DEFAULT
    runs = sys.argv[2] if len(sys.argv) > 2 else "1"
    work = Path(os.environ.get("WORK") or Path(tempfile.gettempdir()) / "rewind-peers")
    copy = work / "peers"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    (copy / "bench.py").chmod(0o644)
    (copy / "bench.py").write_text(STUB.format(repository=str(REPOSITORY)))
    known = set(work.glob("results-*.jsonl"))
    environ = {
        **os.environ,
        "WORK": str(work),
        "REWIND_BENCH_PEERS": str(folder),
        "REWIND_BENCH_PYTHON": sys.executable,
    }
    names = [name for name in peers.split(",") if name and name != "rewind"]
    done = subprocess.run(
        ["bash", str(copy / "run.sh"), ",".join(["rewind", *names]), runs], env=environ, check=False
    )
    results = sorted(set(work.glob("results-*.jsonl")) - known)
    if results:
        print(f"\nfigures: {results[-1]}\n{ratios(_lines(results[-1]))}")
    return done.returncode


def measure() -> None:
    """Run the original bench.py with Rewind on its list; its arguments and environment are those of run.sh."""
    folder = Path(os.environ["REWIND_BENCH_PEERS"])
    spec = importlib.util.spec_from_file_location("peers_bench", folder / "bench.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{folder / 'bench.py'} can't be loaded")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    environ: dict[str, str] = {}
    command = [os.environ["REWIND_BENCH_PYTHON"], str(REPOSITORY / "tests" / "bench" / "rewind_peer.py")]
    bench.DEF["rewind"] = (command, "rewind", lambda: _start_engine(bench, environ), environ)
    bench.main()


def _start_engine(bench: ModuleType, environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Start `rewind dev` on the bench's Postgres; puts where it is into the environment of its driver."""
    data = Path(bench.WORK) / "rewind-data"
    shutil.rmtree(data, ignore_errors=True)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("REWIND_BENCH_")}
    settings["REWIND_DATABASE_URL"] = f"postgresql://bench@127.0.0.1:{bench.PGPORT}/rewind"
    settings |= {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "sdk_python")])}
    with (Path(bench.WORK) / "rewind.log").open("wb") as log:
        process = subprocess.Popen(
            [os.environ["REWIND_BENCH_PYTHON"], "-m", "rewind", "dev", "--port", "0", "--data", str(data)],
            env=settings,
            cwd=bench.WORK,
            stdout=log,
            stderr=log,
        )
    give_up = time.monotonic() + READY_TIMEOUT_S
    while not (data / "dev.json").exists():
        if process.poll() is not None or time.monotonic() > give_up:
            process.kill()
            raise SystemExit(f"rewind dev did not start: {(Path(bench.WORK) / 'rewind.log').read_text()}")
        time.sleep(0.05)
    found = json.loads((data / "dev.json").read_text())
    environ |= {
        "REWIND_BENCH_URL": found["url"],
        "REWIND_BENCH_KEY": found["api_key"],
        "REWIND_BENCH_SERVICES": str(data / "services.json"),
        "REWIND_BENCH_PEERS": os.environ["REWIND_BENCH_PEERS"],
    }
    return process


def ratios(lines: Iterable[Mapping[str, Any]]) -> str:
    """Print each figure of each peer, and how Rewind's relates to what is asked for."""
    figures: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        for phase, key, name, _, _ in COMPARED:
            if line.get("phase") == phase and isinstance(line.get(key), int | float):
                figures.setdefault(name, {}).setdefault(line["peer"], []).append(line[key])
    peers = sorted(
        {peer for found in figures.values() for peer in found}, key=lambda peer: (peer != "rewind", peer)
    )
    table = [["", "unit", *peers, "ratio", "wanted", ""]]
    for _, _, name, unit, more in COMPARED:
        found = {peer: median(values) for peer, values in figures.get(name, {}).items()}
        cells = [f"{found[peer]:,.2f}" if peer in found else "" for peer in peers]
        table.append([name, unit, *cells, *_verdict(name, found, more=more)])
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table
    )


def _verdict(name: str, found: Mapping[str, float], *, more: bool) -> list[str]:
    sign, factor, against = WANTED[name]
    others = {
        peer: value for peer, value in found.items() if peer != "rewind" and (not against or peer in against)
    }
    if "rewind" not in found or not others:
        return ["", f"{sign} {factor} × {' or '.join(against) or 'the best'}", "not measured"]
    peer = (max if more else min)(others, key=lambda key: others[key])
    ratio = found["rewind"] / others[peer]
    kept = ratio >= factor if more else ratio <= factor
    return [f"{ratio:.2f}", f"{sign} {factor} × {peer}", "ok" if kept else "over"]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(main())
