"""Rows to the store's types: the one place that knows the columns' order and spelling."""

import hashlib
from typing import Any

import orjson

from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Digest, Epoch, NamespaceId, RunId, Seq, TimeMs
from sandbox.store.interface import PendingKind, PendingRow, RunRecord, RunStatus, StoredEntry
from sandbox.store.sealing import Sealer, entry_place

ENTRY_COLUMNS = "seq, type, time, cause, fire_at, body"
DERIVED_SHOWN = 20
_DERIVED = f"""array(select d.run_id from run_facts d where d.namespace_id = f.namespace_id
  and d.parent ->> 'run' = f.run_id::text and d.parent ->> 'kind' = '%s' order by d.run_id limit {DERIVED_SHOWN})"""
RUN_COLUMNS = f"""r.namespace_id, s.name as namespace_name, r.run_id, r.status, r.epoch, r.next_seq,
  r.delivered, r.last_event, r.cpu_us, r.activations, f.script, f.toolset, f.toolset_digest, f.workflow, f.labels,
  f.created_by_kind, f.created_by_id, f.parent, f.started_at, f.ended_at, f.end_seq, f.deadline, f.progress, f.fork,
  f.fork_report, r.cancel_seq is not null or (r.forking and exists (select from held_events h where h.namespace_id = r.namespace_id
    and h.run_id = r.run_id and h.type = 13)) as cancelling,
  {_DERIVED % "fork"} as forks, {_DERIVED % "workflow"} as children"""
RUN_TABLES = """runs r
  join run_facts f on f.namespace_id = r.namespace_id and f.run_id = r.run_id
  join namespaces s on s.id = r.namespace_id"""
PENDING_SHOWN = 20


def entry_of(row: Any, run: Sealer) -> StoredEntry:
    """Errors: SealBroken."""
    return StoredEntry(
        Seq(row["seq"]),
        EntryType(row["type"]),
        TimeMs(row["time"]),
        None if row["cause"] is None else Seq(row["cause"]),
        None if row["fire_at"] is None else TimeMs(row["fire_at"]),
        run.open(row["body"], entry_place(row["type"])),
    )


def signal_number(signal_id: str) -> int:
    """What stands in column `n` of a signal's entry: not 0, and the same for the same id."""
    return int.from_bytes(hashlib.sha256(signal_id.encode()).digest()[:4]) % (2**31 - 1) + 1


def pending_of(row: Any) -> PendingRow:
    return PendingRow(
        kind=PendingKind(row["kind"]),
        n=row["n"],
        seq=Seq(row["seq"]),
        since=TimeMs(row["since"]),
        line=row["line"],
        name=row["name"],
        due=row["due"],
        gated=row["gated"],
        deferred=row["deferred"],
        attempt=row["attempt"],
        child=None if row["child"] is None else RunId(str(row["child"])),
    )


def record_of(
    row: Any,
    pending: tuple[PendingRow, ...],
    count: int,
    *,
    progress: bytes | None,
    fork_report: bytes | None,
) -> RunRecord:
    return RunRecord(
        namespace=NamespaceId(str(row["namespace_id"])),
        namespace_name=row["namespace_name"],
        run=RunId(str(row["run_id"])),
        status=RunStatus(row["status"]),
        cancelling=row["cancelling"],
        epoch=Epoch(row["epoch"]),
        next_seq=Seq(row["next_seq"]),
        delivered=Seq(row["delivered"]),
        last_event=Seq(row["last_event"]),
        cpu_us=row["cpu_us"],
        activations=row["activations"],
        script=Digest(row["script"]),
        toolset=row["toolset"],
        toolset_digest=None if row["toolset_digest"] is None else Digest(row["toolset_digest"]),
        workflow=row["workflow"],
        labels=json_of(row["labels"]) or {},
        created_by=(row["created_by_kind"], row["created_by_id"]),
        parent=json_of(row["parent"]),
        started_at=TimeMs(row["started_at"]),
        ended_at=None if row["ended_at"] is None else TimeMs(row["ended_at"]),
        end_seq=None if row["end_seq"] is None else Seq(row["end_seq"]),
        deadline=TimeMs(row["deadline"]),
        calls=row["calls"],
        progress=progress,
        pending=pending,
        pending_count=count,
        fork=json_of(row["fork"]),
        fork_report=fork_report,
        forks=tuple(RunId(str(run)) for run in row["forks"]),
        children=tuple(RunId(str(run)) for run in row["children"]),
    )


def json_of(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
