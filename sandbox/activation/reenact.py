"""Scripts executed without effects: tests in virtual time, replays of recorded runs, and what-ifs.

One engine for the worker's desk and for the command line: no database, only isolates. What the caller did wrong
is an answer (`refused`, `diagnostics`), not an exception.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sandbox.activation.contracts import Contracts
from sandbox.activation.outcome import ByDigest, call_view, decoded, ending, missing_view, report_of, whole
from sandbox.activation.ports import Blobs, Isolates
from sandbox.activation.reenacted import Play
from sandbox.activation.scenario import (
    Answer,
    Failure,
    Scenario,
    ScenarioError,
    SentSignal,
    read_outcome,
    read_scenario,
    value_text,
)
from sandbox.activation.setup import pinned_tools
from sandbox.activation.texts import Texts
from sandbox.activation.verify import divergence_view, is_redacted, verify
from sandbox.activation.virtual import TESTER, World
from sandbox.isolate.compiled import Compiled, Diagnostic
from sandbox.journal import entries as e
from sandbox.journal.canonical import INLINE_MAX_BYTES, canonical_text
from sandbox.journal.cassette import Cassette, RecordedCall, cassette_of
from sandbox.journal.entries import Limits, RunStarted, Value
from sandbox.journal.ids import Digest, Epoch, NamespaceId, RunId, TimeMs
from sandbox.store.interface import StoredEntry

TEST_RUN = RunId("00000000-0000-7000-8000-000000000000")
"""`run.id` in a test without cassette."""
SEED = hashlib.sha256(b"rewind/test").hexdigest()[:32]
TTL_MS = 30 * 86_400_000
VALUES_BYTES_MAX = 64 * 1024 * 1024
"""Of all values of a run that are in one answer, or in memory for a what-if."""


class Sandbox(Isolates, Protocol):
    """What a reenactment needs: isolates, and the stripper for scripts that nobody has stripped yet."""

    async def strip(self, source: str, epoch: int, *, tenant: str = "") -> Compiled | list[Diagnostic]: ...


async def try_script(sandbox: Sandbox, question: Mapping[str, Any], namespace: NamespaceId) -> dict[str, Any]:
    """`{source, epoch, tools, toolset?, namespace, input?, cassette?, mocks?, signals?, approvals?}` → the report.

    Else `{refused: {path, message}}` or `{diagnostics}`. Errors: ChildDied, SandboxFault.
    """
    texts, contracts = Texts(), Contracts(question["tools"])
    try:
        scenario = read_scenario(question)
        contracts.check_mocks(question.get("mocks"))
        given = texts.value(value_text(question.get("input"), "input"))
    except ScenarioError as error:
        return {"refused": {"path": error.path, "message": error.message}}
    source, epoch = question["source"], question["epoch"]
    compiled = await sandbox.strip(source, epoch, tenant=namespace)
    if not isinstance(compiled, Compiled):
        return {"diagnostics": [item.to_json() for item in compiled]}
    started = RunStarted(
        input=given,
        script=Digest(f"sha256:{hashlib.sha256(source.encode(errors='surrogatepass')).hexdigest()}"),
        toolset=question.get("toolset"),
        seed=scenario.seed or SEED,
        epoch=Epoch(epoch),
        deadline=TimeMs(scenario.start + TTL_MS),
        labels={},
        limits=Limits(),
        started_by=TESTER,
    )
    play = Play(
        run=RunId(scenario.run) if scenario.run is not None else TEST_RUN,
        namespace=namespace,
        namespace_name=question["namespace"],
        epoch=Epoch(epoch),
        compiled=compiled,
        tools=pinned_tools(question["tools"]),
        limits=started.limits,
        source=source,
    )
    world = World(play, started, scenario, texts, contracts=contracts)
    return report_of(await world.run(sandbox), texts)


# -- Replays


async def replay_run(
    sandbox: Sandbox,
    play: Play,
    entries: Sequence[StoredEntry],
    blobs: Blobs,
    *,
    overrides: Mapping[str, Any] | None = None,
    own_script: bool = True,
) -> dict[str, Any]:
    """Execute a recorded run again, with its own script or another one; with overrides, a what-if.

    Answers the body of `POST /runs/{id}/replay`, or `{unavailable}`, `{refused: {path, message}}`.
    Errors: ChildDied, SandboxFault, Unavailable.
    """
    if is_redacted(entries):
        return {"unavailable": "A value of this run was redacted: it can be verified, not executed again."}
    cassette = cassette_of(decoded(entries))
    size = sum(value.bytes for value in _values_of(cassette))
    if overrides is None:
        shown = ByDigest() if size > VALUES_BYTES_MAX else await _texts_of(cassette, play.namespace, blobs)
        return await _verified(sandbox, play, entries, blobs, cassette, shown, own_script=own_script)
    if size > VALUES_BYTES_MAX:
        message = f"the run has {size:,} bytes of values; a what-if takes runs up to {VALUES_BYTES_MAX:,}"
        return {"refused": {"path": "overrides", "message": message}}
    texts = await _texts_of(cassette, play.namespace, blobs)
    try:
        scenario = _scenario_of(cassette, texts, _read_overrides(overrides, cassette))
    except ScenarioError as error:
        return {"refused": {"path": error.path, "message": error.message}}
    return await _what_if(sandbox, play, cassette, scenario, texts, entries)


async def _verified(
    sandbox: Sandbox,
    play: Play,
    entries: Sequence[StoredEntry],
    blobs: Blobs,
    cassette: Cassette,
    texts: Texts | ByDigest,
    *,
    own_script: bool,
) -> dict[str, Any]:
    verified = await verify(play, entries, sandbox, blobs, logs=own_script)
    matches = verified.divergence is None
    made = cassette.calls
    if verified.divergence is not None:
        again = {
            entry.body.call
            for entry in decoded([entry for entry in entries if entry.seq <= verified.reached])
            if isinstance(entry.body, e.ScheduleToolCall)
        }
        made = [call for call in cassette.calls if call.call in again]
    answer: dict[str, Any] = {
        "matches": matches,
        "calls": [call_view(call, texts) for call in made],
        "changed": [],
        "output": ending(cassette, texts)[0] if matches else None,
    }
    if verified.divergence is not None:
        answer["diverged_at"] = divergence_view(verified.divergence, entries)
    return answer


async def _what_if(
    sandbox: Sandbox,
    play: Play,
    cassette: Cassette,
    scenario: Scenario,
    texts: Texts,
    entries: Sequence[StoredEntry],
) -> dict[str, Any]:
    world = World(play, cassette.started, scenario, texts, unanswered="stops")
    played = await world.run(sandbox, cancel=_cancel_of(entries))
    after = cassette_of(decoded(played.entries))
    changed = _changed(cassette.calls, after.calls, texts)
    output, error = ending(after, texts)
    same_end = after.status == cassette.status and _output(after) == _output(cassette)
    answer: dict[str, Any] = {
        "matches": same_end and not changed and played.stopped_at is None,
        "calls": [call_view(call, texts) for call in after.calls],
        "changed": changed,
        "output": output,
        "status": after.status,
        "error": error,
    }
    if played.stopped_at is not None:
        stopped = played.stopped_at
        answer["stopped_at"] = {"call": stopped.call, **missing_view(stopped), "line": stopped.line}
    return answer


def _changed(
    before: Sequence[RecordedCall], after: Sequence[RecordedCall], texts: Texts
) -> list[dict[str, Any]]:
    """Calls that the recorded run made otherwise, or not at all; then those that it made and that are gone."""
    changed = []
    for index in range(max(len(before), len(after))):
        was = before[index] if index < len(before) else None
        now = after[index] if index < len(after) else None
        if was is not None and now is not None and (was.tool, was.args.sha256) == (now.tool, now.args.sha256):
            continue
        call = now or was
        assert call is not None
        changed.append(
            {"call": call.call, "was": _shown(was, texts), "now": _shown(now, texts), "line": call.line}
        )
    return changed


def _shown(call: RecordedCall | None, texts: Texts) -> dict[str, Any] | None:
    return None if call is None else {"tool": call.tool, "args": whole(call.args, texts)}


def _output(cassette: Cassette) -> str | None:
    return cassette.end.output.sha256 if isinstance(cassette.end, e.CompleteRun) else None


def _cancel_of(entries: Sequence[StoredEntry]) -> tuple[TimeMs, e.CancelRequested] | None:
    """The cancel that somebody asked for: in a what-if it comes at the same time."""
    for entry in decoded([entry for entry in entries if entry.type == e.EntryType.CANCEL_REQUESTED]):
        if isinstance(entry.body, e.CancelRequested) and entry.body.reason in {"user", "parent"}:
            return entry.time, entry.body
    return None


# -- A recorded run as a scenario


def _read_overrides(overrides: Mapping[str, Any], cassette: Cassette) -> dict[int, Answer]:
    known = {str(call.call): call for call in cassette.calls}
    found = {}
    for number, row in overrides.items():
        path = f"overrides.{number[:40]}"
        call = known.get(number)
        if call is None:
            raise ScenarioError(path, f"the run made no call {number[:40]}: it made {len(known)}")
        result, error = read_outcome(row, path)
        after = call.after or 0
        found[call.call] = Answer(call.tool, None, result, error, after, "cassette", order=call.order)
    return found


def _scenario_of(cassette: Cassette, texts: Texts, overrides: Mapping[int, Answer]) -> Scenario:
    answers = []
    for call in cassette.calls:
        args = texts.text(call.args)
        if call.call in overrides:
            answers.append(replace(overrides[call.call], args=args))
        elif call.result is not None or call.error is not None:
            answers.append(_recorded_answer(call, args, texts))
    signals = [
        SentSignal(signal.name, texts.text(signal.payload), signal.at, signal.id, signal.order)
        for signal in cassette.signals
    ]
    return Scenario(
        recorded=tuple(answers),
        signals=tuple(signals),
        start=cassette.started_at,
        seed=cassette.started.seed,
    )


def _recorded_answer(call: RecordedCall, args: bytes, texts: Texts) -> Answer:
    error = None
    if call.error is not None:
        data = None if call.error.data is None else texts.text(call.error.data)
        error = Failure(call.error.name, call.error.code, call.error.message, data, call.error.retryable)
    return Answer(
        tool=call.tool,
        args=args,
        result=None if call.result is None else texts.text(call.result),
        error=error,
        after=call.after or 0,
        source="cassette",
        order=call.order,
        call=call.call,
    )


async def _texts_of(cassette: Cassette, namespace: NamespaceId, blobs: Blobs) -> Texts:
    """Every big value of the run, fetched."""
    texts = Texts()
    for value in _values_of(cassette):
        if value.text is None:
            await texts.put(namespace, value.sha256, await blobs.get(namespace, value.sha256))
    return texts


def _values_of(cassette: Cassette) -> list[Value]:
    found: list[Value | None] = [cassette.started.input]
    for call in cassette.calls:
        found += [call.args, call.result, None if call.error is None else call.error.data]
    found += [signal.payload for signal in cassette.signals]
    if isinstance(cassette.end, e.CompleteRun):
        found.append(cassette.end.output)
    return [value for value in found if value is not None]


def stored_of_wire(wire: Mapping[str, Any], texts: Texts | None = None) -> StoredEntry:
    """A stored entry from its public JSON, as `GET /runs/{id}/journal` gives it.

    A big value that stands in it goes into `texts`: an entry as it was recorded only names it.
    Errors: KeyError, CanonicalError.
    """
    own = dict(wire)
    kind = e.EntryType[str(own.pop("type")).upper()]
    seq, time = own.pop("seq"), own.pop("time")
    cause = own.pop("cause") if kind in e.COMMAND_TYPES else None
    fire_at = own.pop("fire_at") if kind == e.EntryType.START_TIMER else None
    for field in ("input", "args", "result", "payload", "output"):
        if field in own:
            own[field] = _named_only(own[field], texts)
    if isinstance(own.get("error"), dict) and "data" in own["error"]:
        own["error"] = {**own["error"], "data": _named_only(own["error"]["data"], texts)}
    return StoredEntry(seq, kind, time, cause, fire_at, canonical_text(own))


def _named_only(value: Any, texts: Texts | None) -> Any:
    if texts is None or not isinstance(value, dict) or "value" not in value:
        return value
    if value.get("bytes", 0) <= INLINE_MAX_BYTES:
        return value
    texts.value(canonical_text(value["value"]))
    return {name: item for name, item in value.items() if name != "value"}
