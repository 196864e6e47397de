"""The digest of a journal: what changes it, and what must not."""

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.journal import entries as e
from sandbox.journal.canonical import canonical_text, value_of
from sandbox.journal.codec import TYPE_OF, encode_body
from sandbox.journal.ids import RunId, Seq, Sha256, TimeMs
from sandbox.store.interface import StoredEntry
from sandbox.store.seal import Root, entry_digest, link, reduced
from tests.fixtures.entries import run_started

RUN = RunId("01960000-0000-7000-8000-000000000001")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def stored(body: e.Body, seq: int = 3, **columns: Any) -> StoredEntry:
    base = StoredEntry(
        Seq(seq), TYPE_OF[type(body)], TimeMs(1_700_000_000_000), None, None, encode_body(body)
    )
    return replace(base, **columns)


def output(value: e.Value) -> StoredEntry:
    return stored(e.CompleteRun(value), cause=Seq(1))


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_where_a_value_stands_changes_nothing(value: Any) -> None:
    inline = value_of(value)
    elsewhere = replace(inline, text=None)
    redacted = replace(inline, text=None, redacted=True)
    digests = {entry_digest(output(form)) for form in (inline, elsewhere, redacted)}
    assert len(digests) == 1
    assert entry_digest(output(value_of([value]))) not in digests


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_what_a_script_logged_may_be_redacted(value: Any) -> None:
    entry = stored(e.Log("info", [value]), cause=Seq(1))
    text = canonical_text([value])
    gone = {"bytes": len(text), "redacted": True, "sha256": sha256(text).hexdigest()}
    cut = replace(entry, body=canonical_text({"level": "info", "values": gone}))
    assert entry_digest(cut) == entry_digest(entry)
    assert entry_digest(stored(e.Log("info", [value, 1]), cause=Seq(1))) != entry_digest(entry)


def test_the_form_that_is_digested() -> None:
    error = e.ToolFailure("ToolError", "tool_failed", "no such repository", value_of({"a": 1}))
    entry = stored(e.ToolCallCompleted(2, None, error, 1))
    message = canonical_text("no such repository")
    expected = {
        "seq": 3,
        "type": "tool_call_completed",
        "time": 1_700_000_000_000,
        "call": 2,
        "attempts": 1,
        "error": {
            "name": "ToolError",
            "code": "tool_failed",
            "message": {"bytes": len(message), "sha256": sha256(message).hexdigest()},
            "data": {"bytes": 7, "sha256": sha256(b'{"a":1}').hexdigest()},
            "retryable": False,
        },
    }
    assert entry_digest(entry) == sha256(canonical_text(expected)).hexdigest()


def test_free_texts_stand_by_their_digest_and_places_as_they_are() -> None:
    script_error = e.ScriptError("TypeError", "secret", "c", 1, 2, "> secret", "at secret", {"why": "secret"})
    entry = json.loads(encode_body(e.FailRun(script_error)))
    shown = json.dumps(reduced({**entry, "cause": 7}))
    assert "secret" not in shown
    assert json.loads(shown)["cause"] == 7
    assert (json.loads(shown)["error"]["line"], json.loads(shown)["error"]["name"]) == (1, "TypeError")
    for body in (
        e.CancelRun("secret"),
        e.CancelRequested(reason="user", by="me", detail="secret"),
        e.ApprovalDecided(1, "denied", "me", e.Actor("key", "k"), "secret"),
    ):
        assert "secret" not in json.dumps(reduced(json.loads(encode_body(body))))


@given(st.lists(JSON, max_size=5))
@settings(max_examples=50, deadline=None)
def test_every_entry_counts(logged: list[Any]) -> None:
    entries = [stored(run_started(), 0)]
    entries += [stored(e.Log("info", [value]), seq, cause=Seq(0)) for seq, value in enumerate(logged, 1)]
    root = Root(RUN)
    root.add(entries)
    expected = "\n".join(["rewind/1", RUN, *(entry_digest(entry) for entry in entries)])
    assert root.hex() == sha256(expected.encode()).hexdigest()
    for index, entry in enumerate(entries):
        changed = Root(RUN)
        changed.add([*entries[:index], replace(entry, time=TimeMs(entry.time + 1)), *entries[index + 1 :]])
        assert changed.hex() != root.hex()
    shorter = Root(RUN)
    shorter.add(entries[:-1])
    assert shorter.hex() != root.hex()


def test_the_chain_is_made_of_what_is_public() -> None:
    root = Sha256("a" * 64)
    assert link(None, RUN, root) == sha256(f"rewind/1\n\n{RUN}\n{root}".encode()).hexdigest()
    assert link(root, RUN, root) != link(None, RUN, root)
