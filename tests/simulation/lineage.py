"""What must hold between runs: forks and what they reuse of their parents, calls of workflows and their children."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sandbox.journal import entries as e
from sandbox.journal.entries import Entry
from sandbox.journal.ids import RunId, Seq
from sandbox.store.interface import RunStatus
from sandbox.store.memory_runs import MemoryRun
from tests.simulation.script import WORKFLOWS
from tests.simulation.verdicts import Books, require

Key = tuple[object, ...]
Entries = Callable[[RunId], Sequence[Entry]]


# -- Forks


def check_fork(fork: MemoryRun, own: Sequence[Entry], parent: Sequence[Entry], books: Books) -> None:
    """`parent`: the journal of the run that was forked."""
    name = fork.start.run
    started, before = own[0].body, parent[0].body
    assert isinstance(started, e.RunStarted)
    assert isinstance(before, e.RunStarted)
    first = before.origin.run if before.origin else fork.start.parent and fork.start.parent["run"]
    require(started.origin is not None and started.origin.run == first, f"{name} has lost its origin")
    same = (started.input, started.seed, started.epoch, own[0].time)
    require(same == (before.input, before.seed, before.epoch, parent[0].time), f"{name} begins otherwise")
    asked = (fork.start.fork or {}).get("at")
    at = asked if isinstance(asked, int) else None
    _reused_are_the_parents(name, own, parent)
    _reused_stand_before(name, own, parent, at)
    of = RunId(str((fork.start.parent or {})["run"]))
    _matched_are_not_sent(name, own, (of, parent), at, books)
    report = fork.fork_report
    if report is None:
        end = own[-1].body
        given_up = isinstance(end, e.RunAborted) and end.limit == "abandoned"
        require(given_up, f"{name} does not say what it reuses")
        return
    counted = [
        sum(_reused(entry) is not None and type(entry.body) is kind for entry in own) for kind in KINDS
    ]
    shown = report["reused"]
    assert isinstance(shown, dict)
    require(
        counted == [shown["calls"], shown["signals"], shown["timers"]], f"{name} reports {shown}: {counted}"
    )


KINDS = (e.ToolCallCompleted, e.SignalReceived, e.TimerFired)


def _reused(entry: Entry) -> Seq | None:
    return entry.body.reused if isinstance(entry.body, KINDS) else None


def _reused_are_the_parents(name: RunId, own: Sequence[Entry], parent: Sequence[Entry]) -> None:
    """What is reused says what the parent's entry says, once, and before anything of the fork's own."""
    seen: set[Seq] = set()
    live = None
    for entry in own[1:]:
        seq = _reused(entry)
        if seq is None:
            if isinstance(entry.body, KINDS) and not _of_the_prefix(entry):
                live = live or entry
            continue
        require(live is None, f"{name}: {entry.seq} is reused after {live and live.seq} of its own")
        require(seq not in seen, f"{name} reuses {seq} twice")
        seen.add(seq)
        theirs = parent[seq]
        require(entry.time >= theirs.time, f"{name}: {entry.seq} goes back")
        ours, body = entry.body, theirs.body
        assert isinstance(ours, KINDS)
        require(type(ours) is type(body), f"{name}: {entry.seq} is no {type(body).__name__}")
        number = {} if isinstance(ours, e.SignalReceived) else {_numbered(ours): _number(ours)}
        assert isinstance(body, KINDS)
        require(replace(body, reused=seq, **number) == ours, f"{name}: {entry.seq} is not its parent's {seq}")


def _reused_stand_before(name: RunId, own: Sequence[Entry], parent: Sequence[Entry], at: int | None) -> None:
    """What is asked for, or a cancel, ends it: signals and firings before that, outcomes of calls made before that."""
    within = _matching_ends(parent, at)
    calls = {x.body.call: x for x in parent if isinstance(x.body, e.ScheduleToolCall)}
    for entry in own:
        seq = _reused(entry)
        if seq is None:
            continue
        theirs = parent[seq]
        if isinstance(theirs.body, e.ToolCallCompleted):
            require(seq != at and within(calls[theirs.body.call]), f"{name} reuses {seq}, and ends at {at}")
        else:
            cause = None if at is None else parent[at].cause
            before = at if cause is None else cause + 1
            require(before is None or seq < before, f"{name} reuses {seq}, and ends at {at}")
            cancelled = any(isinstance(x.body, e.CancelRequested) for x in parent[:seq])
            require(not cancelled, f"{name} reuses {seq}, which came after a cancel")


def _of_the_prefix(entry: Entry) -> bool:
    """Recorded while the fork was made, though nothing of the parent: a lost outcome, a withdrawn call."""
    body = entry.body
    return isinstance(body, e.ToolCallCompleted) and body.error is not None


def _numbered(body: object) -> str:
    return "call" if isinstance(body, e.ToolCallCompleted) else "timer"


def _number(body: object) -> int:
    return int(getattr(body, _numbered(body)))


def _is_given_up(own: Sequence[Entry]) -> bool:
    body = own[-1].body
    return isinstance(body, e.RunAborted) and body.limit == "abandoned"


def _matched_are_not_sent(
    name: RunId, own: Sequence[Entry], line: tuple[RunId, Sequence[Entry]], at: int | None, books: Books
) -> None:
    """Found without the code that forks: the calls that are the parent's have its outcomes, and are not made."""
    of, parent = line
    steps, theirs = _compared(own), _compared(parent)
    end = _matching_ends(parent, at)
    count = 0
    for mine, other in zip(steps, theirs, strict=False):
        if mine[1] != other[1] or not end(other[0]):
            break
        count += 1
    pairs = list(zip(steps[:count], theirs[:count], strict=True))
    pairs += _at_the_difference(steps[count:], theirs[count:], end)
    outcomes = {x.body.call: x for x in parent if isinstance(x.body, e.ToolCallCompleted)}
    mine_by_call = {x.body.call: x.body for x in own if isinstance(x.body, e.ToolCallCompleted)}
    cancelled = next((x.seq for x in parent if isinstance(x.body, e.CancelRequested)), None)
    for (entry, _), (other, _) in pairs:
        if not isinstance(entry.body, e.ScheduleToolCall):
            continue
        assert isinstance(other.body, e.ScheduleToolCall)
        outcome = outcomes.get(other.body.call)
        found = mine_by_call[entry.body.call]
        where = f"{name}: call {entry.body.call}, {other.body.call} of its parent"
        if _is_given_up(own) and found.attempts == 0 and found.reused is None:
            continue  # the fork was given up before it was made: what it had not reused by then is withdrawn
        if _is_lost(outcome, at, cancelled):
            _lost(where, entry.body, other.body, found, name, of, books)
        if outcome is None or not _is_reused(outcome, at, cancelled):
            continue
        require(found.reused == outcome.seq, f"{where}, has not the outcome {outcome.seq}: {found}")
        require(not books.effects[name, entry.body.call], f"{where}, was sent again")


def _is_reused(outcome: Entry, at: int | None, cancelled: Seq | None) -> bool:
    """The exceptions of the contract: (a) what stands at `at`, (b) what never began, (c) what a cancel left unknown."""
    body = outcome.body
    assert isinstance(body, e.ToolCallCompleted)
    error = None if body.error is None else body.error.name
    withdrawn = body.attempts == 0 and error == "CancelledError"
    unknown = error == "OutcomeUnknownError" and cancelled is not None and outcome.seq > cancelled
    return not (outcome.seq == at or withdrawn or unknown)


def _is_lost(outcome: Entry | None, at: int | None, cancelled: Seq | None) -> bool:
    """Begun in the parent, and nobody knows what became of it."""
    if outcome is None:
        return True
    body = outcome.body
    unknown = (
        isinstance(body, e.ToolCallCompleted) and body.error and body.error.name == "OutcomeUnknownError"
    )
    return bool(unknown) and outcome.seq != at and cancelled is not None and outcome.seq > cancelled


def _lost(
    where: str,
    call: e.ScheduleToolCall,
    other: e.ScheduleToolCall,
    found: e.ToolCallCompleted,
    name: RunId,
    parent: RunId,
    books: Books,
) -> None:
    """Made again with the key that it had if it may be repeated; else its outcome is not known."""
    if other.policy.idempotent:
        key = other.idempotency_key or f"{parent}/{other.call}"
        require(call.idempotency_key == key, f"{where}, has the key {call.idempotency_key}, not {key}")
    else:
        unknown = found.error is not None and found.error.name == "OutcomeUnknownError"
        require(unknown and found.reused is None, f"{where}, was lost: {found}")
        require(not books.effects[name, call.call], f"{where}, may not be repeated and was sent")


def _matching_ends(parent: Sequence[Entry], at: int | None) -> Callable[[Entry], bool]:
    """Whether a command of the parent stands before the place where matching ends."""
    cancel = next((x.seq for x in parent if isinstance(x.body, e.CancelRequested)), len(parent))

    def within(entry: Entry) -> bool:
        assert entry.cause is not None
        if entry.cause >= cancel:
            return False
        if at is None:
            return True
        cause = parent[at].cause
        return entry.cause < at if cause is None else entry.cause <= cause and entry.seq < at

    return within


def _at_the_difference(
    steps: list[tuple[Entry, Key]], theirs: list[tuple[Entry, Key]], end: Callable[[Entry], bool]
) -> list[tuple[tuple[Entry, Key], tuple[Entry, Key]]]:
    """The other calls of the event at which the courses part, matched with those of the parent's event."""
    if not steps or not theirs or not any(end(step[0]) for step in theirs):
        return []
    here = [step for step in steps if step[0].cause == steps[0][0].cause]
    left = [step for step in theirs if step[0].cause == theirs[0][0].cause and end(step[0])]
    pairs = []
    for step in here:
        if not isinstance(step[0].body, e.ScheduleToolCall):
            continue
        other = next((x for x in left if x[1] == step[1]), None)
        if other is not None:
            left.remove(other)
            pairs.append((step, other))
    return pairs


def _compared(entries: Sequence[Entry]) -> list[tuple[Entry, Key]]:
    """Calls, timers and waits in the order in which they were made, by what is compared of them."""
    delays: dict[int, float] = {}
    found: list[tuple[Entry, Key]] = []
    for entry in entries:
        match entry.body:
            case e.ScheduleToolCall() as body:
                found.append((entry, ("call", body.tool, body.args.sha256)))
            case e.StartTimer() as body:
                delays[body.timer] = body.delay
                found.append((entry, ("timer", body.why, body.delay)))
            case e.SignalAwaited() as body:
                timeout = None if body.timer is None else delays[body.timer]
                found.append((entry, ("wait", body.name, timeout, body.from_)))
            case _:
                pass
    return found


# -- Children


def check_children(
    run: MemoryRun,
    own: Sequence[Entry],
    runs: Mapping[RunId, MemoryRun],
    entries: Entries,
    books: Books,
) -> None:
    """Each call of a workflow has one child at most, and what became of that; none outlives a run that is over."""
    name = run.start.run
    children: dict[int, list[RunId]] = {}
    for child, found in runs.items():
        parent = found.start.parent or {}
        if parent.get("run") == name and parent.get("kind") == "workflow":
            children.setdefault(int(str(parent["call"])), []).append(child)
    settled = {x.body.call: x for x in own if isinstance(x.body, e.ToolCallCompleted)}
    for entry in own:
        body = entry.body
        if not isinstance(body, e.ScheduleToolCall) or body.tool not in WORKFLOWS:
            continue
        made = children.pop(body.call, [])
        require(len(made) <= 1, f"call {body.call} of {name} started {made}")
        _given_up(name, body, settled[body.call], runs, entries, books)
        outcome = settled[body.call].body
        assert isinstance(outcome, e.ToolCallCompleted)
        if outcome.reused is not None:
            require(not made, f"call {body.call} of {name} is reused, and started {made}")
        elif made:
            _told(run, body, outcome, runs[made[0]], entries(made[0]), books)
        elif body.idempotency_key is None:
            require(outcome.result is None, f"call {body.call} of {name} has a result and started nothing")
    require(not children, f"{name} has children of calls that it never made: {children}")


def _given_up(
    name: RunId,
    call: e.ScheduleToolCall,
    settled: Entry,
    runs: Mapping[RunId, MemoryRun],
    entries: Entries,
    books: Books,
) -> None:
    """Whoever stops waiting for a child has it cancelled, also a child that an earlier run of the line has started."""
    outcome = settled.body
    assert isinstance(outcome, e.ToolCallCompleted)
    unknown = outcome.error is not None and outcome.error.name == "OutcomeUnknownError"
    late = outcome.error is not None and outcome.error.code == "timeout"
    if (
        not (unknown or late)
        or outcome.attempts == 0
        or outcome.reused is not None
        or call.tool.endswith("start")
    ):
        return
    first, _, number = (call.idempotency_key or f"{name}/{call.call}").partition("/")
    for child, found in runs.items():
        parent = found.start.parent or {}
        if (parent.get("kind"), parent.get("run"), parent.get("call")) == ("workflow", first, int(number)):
            assert found.ended_at is not None
            last = books.seen_to_by(settled.time)
            cancelled = any(isinstance(x.body, e.CancelRequested) and x.time < last for x in entries(child))
            require(
                cancelled or found.ended_at < last, f"call {call.call} of {name} is given up, {child} goes on"
            )


def _told(
    run: MemoryRun,
    call: e.ScheduleToolCall,
    outcome: e.ToolCallCompleted,
    child: MemoryRun,
    of_child: Sequence[Entry],
    books: Books,
) -> None:
    """The call has what became of its child, unless it was given up before."""
    about = f"call {call.call} of {run.start.run} and {child.start.run} ({child.status.name})"
    started = of_child[0].body
    assert isinstance(started, e.RunStarted)
    require(started.parent == e.Parent(run.start.run, "workflow", call.call), f"{about}: another parent")
    require(child.start.time + child.start.ttl_ms <= run.start.time + run.start.ttl_ms, f"{about}: later")
    if call.tool.endswith("start"):
        return
    if run.status is not RunStatus.COMPLETED:
        assert run.ended_at is not None
        assert child.ended_at is not None
        last = books.seen_to_by(run.ended_at)
        cancelled = any(isinstance(x.body, e.CancelRequested) and x.time < last for x in of_child)
        require(cancelled or child.ended_at < last, f"{about}: it goes on after the end of who awaited it")
    error = None if outcome.error is None else outcome.error.name
    withdrawn = outcome.error is not None and error == "CancelledError" and outcome.error.data is None
    late = outcome.error is not None and outcome.error.code == "timeout"
    if error == "OutcomeUnknownError" or withdrawn or late:
        return
    end = of_child[-1].body
    if isinstance(end, e.CompleteRun):
        told = outcome.result is not None and outcome.result.sha256 == end.output.sha256
        require(told, f"{about}: it was told {outcome}")
    else:
        names = {RunStatus.CANCELLED: "CancelledError", RunStatus.ABORTED: "LimitError"}
        require(error == names.get(child.status, "ToolError"), f"{about}: it was told {error}")
