"""The inbox walks a journal without gaps, whatever order hints and reads arrive in."""

import random

from hypothesis import given
from hypothesis import strategies as st

from sandbox.activation.inbox import Inbox
from sandbox.activation.values import CHUNK_BYTES
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import EntryType, ToolCallCompleted, Value
from sandbox.journal.ids import Seq, Sha256, TimeMs
from sandbox.store.interface import StoredEntry


def event(seq: int) -> StoredEntry:
    return StoredEntry(Seq(seq), EntryType.TIMER_FIRED, TimeMs(seq), None, None, b"{}")


def command(seq: int) -> StoredEntry:
    return StoredEntry(Seq(seq), EntryType.LOG, TimeMs(seq), Seq(0), None, b"{}")


def seqs(entries: list[StoredEntry]) -> list[int]:
    return [entry.seq for entry in entries]


def test_events_come_in_order_and_stop_at_a_gap() -> None:
    inbox = Inbox(Seq(1))
    for seq in (3, 1, 2, 5):
        inbox.offer(event(seq))
    assert seqs(inbox.take(10)) == [1, 2, 3]
    assert inbox.gap
    inbox.offer(event(4))
    assert not inbox.gap
    assert seqs(inbox.take(10)) == [4, 5]
    assert not inbox.waiting


def test_own_commands_are_stepped_over() -> None:
    inbox = Inbox(Seq(1))
    inbox.own(Seq(2), 3)
    inbox.offer(event(1))
    inbox.offer(event(5))
    assert seqs(inbox.take(10)) == [1, 5]
    assert inbox.position == 6


def test_foreign_events_before_the_own_commands_are_a_gap_until_they_are_read() -> None:
    inbox = Inbox(Seq(1))
    inbox.own(Seq(3), 1)
    assert inbox.gap
    inbox.offer_all([event(1), event(2), command(3)])
    assert seqs(inbox.take(10)) == [1, 2]
    assert inbox.position == 4


def test_a_length_that_a_read_disproves_is_taken_back_unless_more_was_heard_meanwhile() -> None:
    inbox = Inbox(Seq(2))
    inbox.known_length(Seq(3))
    assert inbox.gap and inbox.waiting
    inbox.nothing_there(Seq(3))
    assert not inbox.gap and not inbox.waiting
    inbox.known_length(Seq(3))
    inbox.known_length(Seq(4))  # while the read is under way
    inbox.nothing_there(Seq(3))
    assert inbox.gap
    inbox.offer(event(2))
    inbox.nothing_there(Seq(4))
    assert inbox.waiting


def test_repeats_and_old_events_are_dropped() -> None:
    inbox = Inbox(Seq(4))
    inbox.offer(event(2))
    inbox.offer(event(4))
    inbox.offer(event(4))
    assert seqs(inbox.take(10)) == [4]
    inbox.offer(event(4))
    assert inbox.take(10) == []
    assert not inbox.waiting


def test_take_respects_its_limit() -> None:
    inbox = Inbox(Seq(0))
    for seq in range(10):
        inbox.offer(event(seq))
    assert seqs(inbox.take(4)) == [0, 1, 2, 3]
    assert seqs(inbox.take(100)) == [4, 5, 6, 7, 8, 9]


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_any_order_of_hints_gives_the_events_once_and_in_order(kinds: list[bool], rng: random.Random) -> None:
    inbox = Inbox(Seq(0))
    journal = [event(seq) if is_event else command(seq) for seq, is_event in enumerate(kinds)]
    arrivals = journal * 2
    rng.shuffle(arrivals)
    taken: list[StoredEntry] = []
    for entry in arrivals:
        if entry.cause is None:
            inbox.offer(entry)
        else:
            inbox.own(entry.seq, 1)
        taken += inbox.take(rng.randint(1, 3))
    taken += inbox.take(len(journal))
    assert taken == [entry for entry in journal if entry.cause is None]
    assert inbox.position == len(journal)


def test_events_whose_values_are_big_go_a_few_at_a_time() -> None:
    """Their entries are small: what counts is what the script gets."""

    def completed(seq: int, size: int) -> StoredEntry:
        body = encode_body(ToolCallCompleted(seq, Value(Sha256("0" * 64), size, None), None, attempts=1))
        return StoredEntry(Seq(seq), EntryType.TOOL_CALL_COMPLETED, TimeMs(0), None, None, body)

    inbox = Inbox(Seq(0))
    sizes = [2 * CHUNK_BYTES, CHUNK_BYTES // 2, CHUNK_BYTES // 3, CHUNK_BYTES // 3, 1]
    for seq, size in enumerate(sizes):
        inbox.offer(completed(seq, size))
    assert [len(inbox.take(10)) for _ in range(4)] == [1, 2, 2, 0]
