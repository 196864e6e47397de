"""What a phase costs: CPU and memory of each role from /proc, write-ahead log and commits from Postgres.

CPU is user + system time of live processes and of those they have reaped, so the total stays right when a
process ends during a phase; the share of a single role does not.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

CLOCK_HZ = os.sysconf("SC_CLK_TCK")
SDK = "sdk"
"""The driver's own process: the client, the host-tool worker, and this measuring."""
ROLES = ("postgres", "serve", "worker", "sandbox", SDK, "rest")

# Transaction ids are counted at once; what sessions report (transactions, fsyncs) is up to a second late.
SERVER_SQL = """select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as wal_bytes,
  pg_snapshot_xmax(pg_current_snapshot())::text::bigint as commits,
  (select xact_commit from pg_stat_database where datname = current_database()) as transactions,
  (select coalesce(sum(fsyncs), 0) from pg_stat_io where object = 'wal') as fsyncs"""
SIZES_SQL = """select c.relname as name, pg_total_relation_size(c.oid) as bytes
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')"""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    cpu_s: float


def read_processes() -> dict[int, Process]:
    """Return every live process with its CPU time, that of its reaped children included."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            text = Path(entry.path, "stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        pid = int(entry.name)
        found[pid] = Process(pid, int(fields[1]), sum(map(int, fields[11:15])) / CLOCK_HZ)
    return found


def descendants(root: int, processes: Mapping[int, Process]) -> list[int]:
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found = [root] if root in processes else []
    for pid in found:
        found += children.get(pid, [])
    return found


def roles_of(
    supervisor: int, services: Mapping[str, int], processes: Mapping[int, Process]
) -> dict[int, str]:
    """Say which role each process of the server plays; `services` names the supervisor's own children."""
    roles = dict.fromkeys(descendants(supervisor, processes), "rest")
    for name, pid in services.items():
        tree = descendants(pid, processes)
        if name == "worker":
            roles |= dict.fromkeys(tree, "sandbox")
            roles |= dict.fromkeys(tree[:1], "worker")
        elif name in {"postgres", "serve"}:
            roles |= dict.fromkeys(tree, name)
    roles[os.getpid()] = SDK
    return roles


def pss_kib(roles: Mapping[int, str]) -> dict[str, int]:
    """Return the proportional memory of each role."""
    total = dict.fromkeys(ROLES, 0)
    for pid, role in roles.items():
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total[role] += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    cpu_s: dict[str, float]
    server: dict[str, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """The difference of two samples."""

    wall_s: float
    cpu_s: dict[str, float]
    wal_kib: float
    commits: int
    transactions: int
    fsyncs: int

    @property
    def cpu_total_s(self) -> float:
        return sum(self.cpu_s.values())

    def per_step(self, steps: int) -> dict[str, Any]:
        """Cost of one step: CPU in ms by role, WAL in KiB."""
        share = 1 / max(1, steps)
        return {
            "cpu_ms_per_step": round(self.cpu_total_s * 1000 * share, 3),
            "cpu_ms_per_step_by_role": {
                role: round(cpu * 1000 * share, 3) for role, cpu in self.cpu_s.items() if cpu > 0
            },
            "wal_kib_per_step": round(self.wal_kib * share, 2),
            "commits_per_step": round(self.commits * share, 2),
            "transactions_per_step": round(self.transactions * share, 2),
            "fsyncs_per_step": round(self.fsyncs * share, 2),
            "steps_per_s": round(steps / self.wall_s, 1),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "wall_s": round(self.wall_s, 3),
            "cpu_s": {role: round(cpu, 2) for role, cpu in self.cpu_s.items()},
            "cpu_total_s": round(self.cpu_total_s, 2),
            "wal_kib": round(self.wal_kib),
            "commits": self.commits,
            "transactions": self.transactions,
            "fsyncs": self.fsyncs,
        }


def difference(before: Sample, after: Sample) -> Usage:
    server = {name: after.server[name] - before.server[name] for name in after.server}
    return Usage(
        wall_s=after.at - before.at,
        cpu_s={role: max(0.0, after.cpu_s[role] - before.cpu_s[role]) for role in ROLES},
        wal_kib=server["wal_bytes"] / 1024,
        commits=server["commits"],
        transactions=server["transactions"],
        fsyncs=server["fsyncs"],
    )


async def sample_server(database: asyncpg.Connection) -> dict[str, int]:
    row = await database.fetchrow(SERVER_SQL)
    return {name: int(value) for name, value in row.items()}


async def table_bytes(database: asyncpg.Connection) -> dict[str, int]:
    """Size of each table with its indexes."""
    return {row["name"]: row["bytes"] for row in await database.fetch(SIZES_SQL)}


def sample_cpu(roles: Mapping[int, str], processes: Mapping[int, Process]) -> dict[str, float]:
    cpu = dict.fromkeys(ROLES, 0.0)
    for pid, role in roles.items():
        if pid in processes:
            cpu[role] += processes[pid].cpu_s
    return cpu


def now() -> float:
    return time.perf_counter()
