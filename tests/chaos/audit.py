"""What must hold when the storm is over: of each run's journal, row, end and seal, and of the world's own log.

Every break of a rule is one line of `problems`; the test fails with all of them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import rewind

from sandbox.activation.verify import END_TYPES
from sandbox.journal.ids import NamespaceId, RunId, Sha256
from sandbox.store.interface import StoredEntry
from sandbox.store.memory import decoded
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.seal import Root, link
from tests.chaos.crowd import Played
from tests.chaos.plans import CHILD, FAILURE
from tests.chaos.tool_server import UNREPEATABLE
from tests.conformance.test_histories import compare_end

PAGE = 500
WITHDRAWN = "CancelledError"
LOST = "OutcomeUnknownError"
PLAIN = {"sleep": ["slept"], "forget": ["forgotten"], "note": ["noted", True]}
REFUSALS = {("host.refuse", "refused")}
BROKEN = {("world.once", "unreachable"), ("world.again", "unreachable")}
"""The server closed an idle connection at the moment of the call: an answer to the script, with an effect or without."""
UNRETRIED = {("host.flaky", "busy")}
"""Only where a cancel came before the next attempt."""


@dataclass
class Effects:
    """The world's log: by idempotency key, what was done."""

    by_key: dict[str, list[dict[str, Any]]]
    by_step: dict[int, list[dict[str, Any]]]

    @classmethod
    def of(cls, lines: list[dict[str, Any]]) -> "Effects":
        keys: dict[str, list[dict[str, Any]]] = defaultdict(list)
        steps: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for line in lines:
            keys[line["key"]].append(line)
            steps[line["step"]].append(line)
        return cls(keys, steps)


class Audit:
    """`await check(played)` for each run, then `finish()`."""

    def __init__(self, store: PostgresEdge, client: rewind.AsyncRewind, effects: Effects) -> None:
        self._store = store
        self._client = client
        self._effects = effects
        self._known_keys: set[str] = set()
        self._seals: dict[str, list[tuple[RunId, Sha256, Sha256 | None]]] = defaultdict(list)
        self.problems: list[str] = []
        self.endings: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.entries = 0

    async def check(self, played: Played) -> None:
        """Look at one run and its children from all sides."""
        shown = await self._client.runs.get(played.run, namespace=played.namespace)
        if shown.ended:
            self.endings[shown.status] += 1
            journal = await self._run(played.run, played.namespace)
            self._note(shown, [*_signals(played, journal), *self._end(played, shown)])
        else:
            self._note(shown, [f"it has not ended: {shown.status}, {shown.waiting_for}"])
        for child in shown.children:
            self.outcomes["child runs"] += 1
            await self._run(child, played.namespace)

    async def _run(self, run: str, namespace: str) -> list[dict[str, Any]]:
        """What holds for every run, whatever it did; its journal."""
        shown = await self._client.runs.get(run, namespace=namespace)
        journal = list(await self._client.runs.journal(run, namespace=namespace))
        self.entries += len(journal)
        self._note(shown, self._calls(RunId(run), journal))
        self._note(shown, [problem async for problem in self._stored(RunId(run), namespace)])
        replayed = await self._client.runs.replay(run, namespace=namespace)
        if not replayed["matches"]:
            self._note(shown, [f"a replay diverges: {replayed.get('diverged_at')}"])
        return journal

    def _note(self, run: rewind.Run, problems: Iterable[str]) -> None:
        whose = f"run {run.id} (serial {run.labels.get('serial', 'of its parent')})"
        self.problems += [f"{whose}: {problem}" for problem in problems]

    # -- Calls against the world's log

    def _calls(self, run: RunId, journal: list[dict[str, Any]]) -> Iterator[str]:
        made = {entry["call"]: entry for entry in journal if entry["type"] == "schedule_tool_call"}
        done = {entry["call"]: entry for entry in journal if entry["type"] == "tool_call_completed"}
        stopped = any(entry["type"] in {"cancel_requested", "tool_call_cancelled"} for entry in journal)
        failed = any(entry["type"] == "fail_run" for entry in journal)
        if made.keys() != done.keys():
            yield f"calls without outcome: {sorted(made.keys() - done.keys())}"
        for number in made.keys() & done.keys():
            key = f"{run}/{number}"
            self._known_keys.add(key)
            tool, step = made[number]["tool"], made[number]["args"]["value"]["step"]
            lines = self._effects.by_key.get(key, [])
            if tool in CHILD:
                lines = self._effects.by_step.get(step, [])
                if len({line["key"] for line in lines}) > 1:
                    yield f"call {number}: more than one child run did its work: {lines}"
                lines = lines[:1]  # the child's own call is looked at there
            ended = stopped or (
                tool in CHILD and failed
            )  # a run that fails cancels the children it still awaits
            for problem in self._call(tool, step, done[number], lines, stopped=ended):
                yield f"call {number} of {tool}, step {step}: {problem} ({done[number]}, {lines})"

    def _call(
        self, tool: str, step: int, outcome: dict[str, Any], lines: list[dict[str, Any]], *, stopped: bool
    ) -> Iterator[str]:
        attempts, error = outcome["attempts"], outcome.get("error")
        self.outcomes[f"{tool} {error['name'] if error else 'result'}"] += 1
        if tool not in CHILD:
            self.outcomes["effects"] += len(lines)
            self.outcomes["effects repeated"] += max(0, len(lines) - 1)
        if tool not in CHILD and any((line["tool"], line["step"]) != (tool, step) for line in lines):
            yield "the world did something else for this key"
        if len(lines) > attempts:
            yield f"{len(lines)} effects of {attempts} attempts"
        if tool in UNREPEATABLE and (attempts > 1 or len(lines) > 1):
            yield "repeated, although it may not be"
        if error is None:
            number = outcome["result"].get("value", {}).get("number")
            if not lines or (number is not None and number not in {line["number"] for line in lines}):
                yield "a result that the world does not know of"
        elif tool in CHILD and stopped:
            return  # it ended with its parent
        elif error["name"] == WITHDRAWN:
            if attempts or lines:
                yield "withdrawn, although it had begun"
        elif error["name"] == LOST:
            if tool not in UNREPEATABLE and not stopped:
                yield "lost, although it may be repeated"
        elif (tool, error["code"]) in BROKEN:
            self.outcomes["connections to the world that broke"] += 1
        elif not lines or (tool, error["code"]) not in REFUSALS | (UNRETRIED if stopped else set()):
            yield "an error that no tool gave"

    # -- The end

    def _end(self, played: Played, shown: rewind.Run) -> Iterator[str]:
        plan = played.plan
        expected = {"failed"} if plan.fails else {"completed"}
        if played.cancelled:
            expected.add("cancelled")
        if shown.status not in expected:
            yield f"it is {shown.status} instead of {expected}: {shown.error}"
        elif shown.status == "failed" and shown.error["message"] != FAILURE:
            yield f"it failed with {shown.error}"
        elif shown.status == "completed":
            output = shown.output
            if len(output["pad"]) != plan.pad or len(output["seen"]) != len(plan.steps):
                yield f"its output has another shape: {str(output)[:400]}"
                return
            for step, seen in zip(plan.steps, output["seen"], strict=True):
                if not self._matches(step, seen):
                    yield f"step {step} came out as {seen}"

    def _matches(self, step: dict[str, Any], seen: list[Any]) -> bool:
        kind = step["do"]
        if kind == "call":
            return self._outcome(step, seen)
        if kind == "abort" and seen[0] == "aborted":
            aborted = seen[1][0] == "error" and seen[1][1:] == [step["step"], "CancelledError", None]
            return aborted or self._outcome(step, seen[1])
        if kind == "all" and seen[0] == "all":
            return all(map(self._matches, step["steps"], seen[1]))
        if kind == "race" and seen[0] == "race":
            return any(self._matches(inner, seen[1]) for inner in step["steps"])
        if kind == "signal":
            return seen == ["signal", {"of": step["name"]}] or (step["timeout"] and seen == ["signal", None])
        if kind == "ticks":
            return seen == ["ticks", step["count"]]
        return kind in PLAIN and seen == PLAIN[kind]

    def _outcome(self, step: dict[str, Any], seen: list[Any]) -> bool:
        tool = step["tool"]
        if seen[0] == "ok":
            return seen[1] == step["step"] and tool != "host.refuse"
        if seen[:2] != ["error", step["step"]]:
            return False
        return (seen[2] == LOST and tool in UNREPEATABLE) or (tool, seen[3]) in REFUSALS | BROKEN

    # -- What is stored

    async def _stored(self, run: RunId, name: str) -> Any:
        row = await self._store.pool.fetchrow("select namespace_id from runs where run_id = $1", run)
        namespace = NamespaceId(str(row["namespace_id"]))
        record = await self._store.get_run(namespace, run)
        entries: list[StoredEntry] = []
        while page := await self._store.read_entries(
            namespace, run, limit=PAGE, **({"after": entries[-1].seq} if entries else {})
        ):
            entries += page
        if record is None or entries[-1].type not in END_TYPES:
            yield "its row is gone, or its journal does not end with an end"
            return
        try:
            compare_end(record, [decoded(entry) for entry in entries])
        except AssertionError as error:
            yield f"its row is not the fold of its journal: {error}"
        root = Root(run)
        root.add(entries)
        seal = await self._store.pool.fetchrow(
            "select root, entries, previous from seals where run_id = $1", run
        )
        if seal is None:
            yield "it is not sealed"
        elif (seal["root"].hex(), seal["entries"]) != (root.hex(), len(entries)):
            yield "its seal is that of another journal"
        else:
            previous = None if seal["previous"] is None else Sha256(seal["previous"].hex())
            self._seals[name].append((run, Sha256(root.hex()), previous))

    async def finish(self) -> None:
        """What concerns all of them: no effect of nobody, no run of nobody, nothing pending, each chain one chain."""
        strangers = self._effects.by_key.keys() - self._known_keys
        if strangers:
            self.problems.append(f"effects of calls that no journal has: {sorted(strangers)}")
        pending = await self._store.pool.fetchval("select count(*) from pending")
        if pending:
            self.problems.append(f"{pending} rows are pending after the end of all runs")
        for name, seals in self._seals.items():
            links = {link(previous, run, root) for run, root, previous in seals}
            after = [previous for _, _, previous in seals if previous is not None]
            if len(links) != len(seals) or len(set(after)) != len(seals) - 1 or not set(after) <= links:
                self.problems.append(f"the seals of {name} are no chain")


def _signals(played: Played, journal: list[dict[str, Any]]) -> Iterator[str]:
    received = Counter(entry["id"] for entry in journal if entry["type"] == "signal_received")
    if repeated := {found for found, count in received.items() if count > 1}:
        yield f"signals recorded twice: {repeated}"
    if lost := played.signals - received.keys():
        yield f"signals acknowledged and lost: {lost}"
    if strange := received.keys() - {f"id-{signal.name}" for signal in played.plan.signals}:
        yield f"signals of nobody: {strange}"
