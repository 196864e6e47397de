"""Who is told of an event that was appended: the run's owner, and whoever watches the run."""

from sandbox.journal.entries import DELIVERED_TYPES, EntryType
from sandbox.store.hints import HintBus
from sandbox.store.interface import EventAppend, EventVerdict
from sandbox.store.leases import HINTED_BODY_MAX


def announce_event(hints: HintBus, event: EventAppend, verdict: EventVerdict) -> None:
    hints.send("api", {"k": "run", "run": event.run, "ended": event.type is EntryType.RUN_ABORTED})
    if event.type not in DELIVERED_TYPES:
        return
    if verdict.owner is None:
        hints.send("worker", {"k": "ready"})
        return
    # The committed entry travels with the hint: the owner of a warm run need not read it.
    small = len(event.body) <= HINTED_BODY_MAX
    hints.send(
        "worker",
        {
            "k": "event",
            "run": event.run,
            "seq": verdict.seq,
            "time": verdict.time,
            "type": event.type,
            "body": event.body.decode() if small else None,
        },
    )
