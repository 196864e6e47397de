"""Leases given in a worker's append to a claim that waits at an api: how the two tell each other.

`park`: a claim waits here, with so many slots. `unpark`: it does not any more. `leased`: a call was leased
to it, and here is the task. Hints only: the lease itself is the row's claim_id.
"""

from typing import Any

from sandbox.journal.ids import NamespaceId, RunId, TimeMs
from sandbox.store.hints import Message
from sandbox.store.interface import LEASE_MS, CommandDraft, RunFacts, Task, TaskFilter

HINTED_BODY_MAX = 24 * 1024
"""A longer one is read from the journal by whoever needs it."""


def park_message(claim_id: str, wanted: TaskFilter, slots: int, api: str) -> Message:
    return {
        "k": "park",
        "claim": claim_id,
        "api": api,
        "organization": wanted.organization,
        "namespace": wanted.namespace,
        "toolset": wanted.toolset,
        "tools": wanted.tools,
        "slots": slots,
    }


def unpark_message(claim_id: str, wanted: TaskFilter) -> Message:
    return {"k": "unpark", "claim": claim_id, "organization": wanted.organization}


def leased_message(facts: RunFacts, claim_id: str, draft: CommandDraft, begun_at: TimeMs) -> Message:
    return {
        "k": "leased",
        "claim": claim_id,
        "organization": facts.organization,
        "toolset": facts.toolset,
        "namespace": facts.namespace,
        "namespace_name": facts.namespace_name,
        "run": facts.run,
        "call": draft.n,
        "tool": draft.name,
        "begun_at": begun_at,
        "body": draft.body.decode() if len(draft.body) <= HINTED_BODY_MAX else None,
        "labels": facts.labels,
    }


def leased_task(message: dict[str, Any]) -> Task:
    """The task of a `leased` hint: the first attempt of a call that was just made."""
    return Task(
        namespace=NamespaceId(message["namespace"]),
        run=RunId(message["run"]),
        call=message["call"],
        tool=message["tool"],
        attempt=1,
        begun_at=TimeMs(message["begun_at"]),
        lease_until=TimeMs(message["begun_at"] + LEASE_MS),
        stopping=False,
        body=message["body"].encode(),
        namespace_name=message["namespace_name"],
        labels=message["labels"],
    )
