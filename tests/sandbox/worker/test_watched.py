"""Which runs a worker tells of in detail."""

from sandbox.journal.ids import RunId
from sandbox.store.wakeups import WATCHED_S
from sandbox.worker.watched import WatchedRuns


def test_a_run_is_watched_for_a_while_after_it_was_named() -> None:
    now = 0.0
    watched = WatchedRuns(lambda: now)
    watched.on_watch({"k": "watch", "runs": ["a", "b"]})
    now = WATCHED_S
    watched.on_watch({"k": "watch", "runs": ["b"]})
    assert RunId("a") in watched and RunId("b") in watched
    now += 0.5
    assert RunId("a") not in watched and RunId("b") in watched
    assert RunId("c") not in watched
