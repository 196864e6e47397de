"""What answers a script in a test: mocks, a cassette, signals, decisions; read from JSON that nobody has checked."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn, TypeVar

from sandbox.journal.canonical import CanonicalError, canonical_text, sha256_hex
from sandbox.journal.durations import duration_ms
from sandbox.journal.ids import Json, Sha256, TimeMs

START_MS = TimeMs(1_767_225_600_000)
"""Virtual time begins at 2026-01-01T00:00:00Z, unless a cassette says when its run began."""
VALUE_BYTES_MAX = 16 * 1024 * 1024
ANSWERS_MAX = 100_000
"""Rows of mocks, calls or signals of a cassette."""
T = TypeVar("T")
Source = Literal["mocks", "cassette"]
Decision = Literal["approved", "denied"]


@dataclass
class ScenarioError(Exception):
    """The caller's: `path` is the place in the request, `message` says what is expected there."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Failure:
    name: str
    code: str | None
    message: str
    data: bytes | None = None
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gets: `result` (canonical text) or `error`. `args` None: any arguments."""

    tool: str
    args: bytes | None
    result: bytes | None
    error: Failure | None
    after: int
    source: Source
    repeat: bool = False
    order: int | None = None
    call: int | None = None


@dataclass(frozen=True, slots=True)
class SentSignal:
    name: str
    payload: bytes
    at: int
    id: str | None = None
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    mocks: tuple[Answer, ...] = ()
    recorded: tuple[Answer, ...] = ()
    """Of a cassette, in the order of its calls."""
    signals: tuple[SentSignal, ...] = ()
    approvals: Mapping[str, Decision] = field(default_factory=dict)
    start: TimeMs = START_MS
    seed: str | None = None
    run: str | None = None


def read_scenario(question: Mapping[str, Any]) -> Scenario:
    """Read `{cassette?, mocks?, signals?, approvals?}` as a request has them. Errors: ScenarioError."""
    recorded, signals, start, seed, run = _cassette(question.get("cassette"))
    own = _list(question.get("signals"), "signals", _signal)
    return Scenario(
        mocks=tuple(_mocks(question.get("mocks"))),
        recorded=tuple(recorded),
        signals=(*signals, *own),
        approvals=_approvals(question.get("approvals")),
        start=start,
        seed=seed,
        run=run,
    )


def read_outcome(row: Any, path: str) -> tuple[bytes | None, Failure | None]:
    """`{result}` or `{error: {message, code?, data?}}`. Errors: ScenarioError."""
    if not isinstance(row, dict):
        _refuse(path, "an object with `result` or `error` is expected")
    if ("result" in row) == ("error" in row):
        _refuse(path, "exactly one of `result` and `error` is expected")
    if "result" in row:
        return value_text(row["result"], f"{path}.result"), None
    return None, _failure(row["error"], f"{path}.error")


# -- Parts


def _mocks(mocks: Any) -> Iterable[Answer]:
    if mocks is None:
        return
    if not isinstance(mocks, dict):
        _refuse("mocks", 'an object is expected: {"group.tool": [{args?, result or error, after?, repeat?}]}')
    for tool, rows in mocks.items():
        path = f"mocks[{tool!r}]" if len(tool) < 100 else "mocks"
        for index, row in enumerate(_rows(rows, path)):
            yield _mock(tool, row, f"{path}[{index}]")


def _mock(tool: str, row: Any, path: str) -> Answer:
    result, error = read_outcome(row, path)
    _only(row, {"args", "result", "error", "after", "repeat"}, path)
    repeat = row.get("repeat", False)
    if not isinstance(repeat, bool):
        _refuse(f"{path}.repeat", "true or false is expected")
    args = row.get("args", "*")
    return Answer(
        tool=tool,
        args=None if args == "*" else value_text(args, f"{path}.args"),
        result=result,
        error=error,
        after=_duration(row.get("after", 0), f"{path}.after"),
        source="mocks",
        repeat=repeat,
    )


_NO_CASSETTE: tuple[list[Answer], list[SentSignal], TimeMs, None, None] = ([], [], START_MS, None, None)


def _cassette(
    cassette: Any,
) -> tuple[list[Answer], list[SentSignal], TimeMs, str | None, str | None]:
    if cassette is None:
        return _NO_CASSETTE
    if not isinstance(cassette, dict) or cassette.get("cassette") != 1:
        _refuse(
            "cassette",
            'a cassette is expected, as the journal of a run gives it with `as=cassette`: {"cassette": 1, …}',
        )
    seed, run = cassette.get("seed"), cassette.get("run")
    if seed is not None and not _is_seed(seed):
        _refuse("cassette.seed", "32 hexadecimal digits are expected")
    if run is not None and (not isinstance(run, str) or len(run) > 64):
        _refuse("cassette.run", "the id of a run is expected")
    calls = _list(cassette.get("calls"), "cassette.calls", _recorded)
    signals = _list(cassette.get("signals"), "cassette.signals", _signal)
    return calls, signals, _start(cassette.get("started_at")), seed, run


def _recorded(row: Any, path: str) -> Answer:
    result, error = read_outcome(row, path)
    tool = row.get("tool")
    if not isinstance(tool, str):
        _refuse(f"{path}.tool", "the name of a tool is expected")
    order = row.get("order")
    return Answer(
        tool=tool,
        args=value_text(row.get("args"), f"{path}.args"),
        result=result,
        error=error,
        after=_duration(row.get("after") or 0, f"{path}.after"),
        source="cassette",
        order=order if type(order) is int else None,
        call=row.get("call") if type(row.get("call")) is int else None,
    )


def _signal(row: Any, path: str) -> SentSignal:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        _refuse(path, "a signal is expected: {name, payload, at}")
    given, order = row.get("id"), row.get("order")
    if given is not None and not isinstance(given, str):
        _refuse(f"{path}.id", "text is expected")
    return SentSignal(
        name=row["name"],
        payload=value_text(row.get("payload"), f"{path}.payload"),
        at=_duration(row.get("at", 0), f"{path}.at"),
        id=given,
        order=order if type(order) is int else None,
    )


def _approvals(approvals: Any) -> dict[str, Decision]:
    if approvals is None:
        return {}
    if not isinstance(approvals, dict):
        _refuse("approvals", 'an object is expected: {"group.tool": "approved" or "denied"}')
    for tool, decision in approvals.items():
        if decision not in {"approved", "denied"}:
            _refuse(f"approvals[{tool[:100]!r}]", '"approved" or "denied" is expected')
    return approvals


def _failure(error: Any, path: str) -> Failure:
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        _refuse(path, "an error is expected: {message, code?, data?}")
    _only(error, {"name", "code", "message", "data", "retryable"}, path)
    code, name = error.get("code"), error.get("name", "ToolError")
    if code is not None and not isinstance(code, str):
        _refuse(f"{path}.code", "text is expected")
    if not isinstance(name, str):
        _refuse(f"{path}.name", "text is expected")
    if code is None and name == "ToolError":
        code = "tool_failed"
    data = error.get("data")
    return Failure(
        name=name,
        code=code,
        message=error["message"],
        data=None if data is None else value_text(data, f"{path}.data"),
        retryable=error.get("retryable") is True,
    )


# -- Pieces


def _list(rows: Any, path: str, read: Callable[[Any, str], T]) -> list[T]:
    return [] if rows is None else [read(row, f"{path}[{i}]") for i, row in enumerate(_rows(rows, path))]


def _rows(rows: Any, path: str) -> list[Any]:
    if not isinstance(rows, list):
        _refuse(path, "a list is expected")
    if len(rows) > ANSWERS_MAX:
        _refuse(path, f"at most {ANSWERS_MAX:,} are taken")
    return rows


def value_text(value: Json, path: str) -> bytes:
    """The canonical text of a value of a request. Errors: ScenarioError."""
    try:
        text = canonical_text(value)
    except CanonicalError as error:
        raise ScenarioError(f"{path}.{error.path}".rstrip("."), error.message) from None
    if len(text) > VALUE_BYTES_MAX:
        _refuse(
            path, f"the value has {len(text):,} bytes as canonical JSON; the limit is {VALUE_BYTES_MAX:,}"
        )
    return text


def _duration(value: Any, path: str) -> int:
    try:
        return duration_ms(value)
    except ValueError as error:
        raise ScenarioError(path, str(error)) from None


def _start(value: Any) -> TimeMs:
    if value is None:
        return START_MS
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            if at.tzinfo is None:
                raise ValueError(value)
            return TimeMs(round((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000))
        if type(value) is int and 0 <= value < 2**52:
            return TimeMs(value)
        raise ValueError(value)
    except (ValueError, OverflowError):
        raise ScenarioError("cassette.started_at", "a time is expected: ISO 8601 with its zone") from None


def _is_seed(seed: Any) -> bool:
    return isinstance(seed, str) and len(seed) == 32 and set(seed) <= set("0123456789abcdef")


def _only(row: Mapping[str, Any], known: set[str], path: str) -> None:
    for name in row:
        if name not in known:
            _refuse(f"{path}.{name[:80]}", f"unknown field; known are {', '.join(sorted(known))}")


def _refuse(path: str, message: str) -> NoReturn:
    raise ScenarioError(path, message)


# -- Matching


class Answers:
    """Takes answers: the first unused one in order, mocks before the cassette."""

    def __init__(self, scenario: Scenario) -> None:
        self._banks = [_Bank(scenario.mocks), _Bank(scenario.recorded)]

    def take(self, tool: str, args: Sha256) -> Answer | None:
        return next((found for bank in self._banks if (found := bank.find(tool, args, take=True))), None)

    def peek(self, tool: str, args: Sha256) -> Answer | None:
        return next((found for bank in self._banks if (found := bank.find(tool, args, take=False))), None)

    @property
    def unused(self) -> list[Answer]:
        return [answer for bank in self._banks for answer in bank.unused]


class _Bank:
    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = list(answers)
        self._used = [False] * len(self._answers)
        self._rows: dict[tuple[str, Sha256 | None], list[int]] = {}
        for index in reversed(range(len(self._answers))):
            answer = self._answers[index]
            args = None if answer.args is None else sha256_hex(answer.args)
            self._rows.setdefault((answer.tool, args), []).append(index)

    def find(self, tool: str, args: Sha256, *, take: bool) -> Answer | None:
        exact, any_ = self._rows.get((tool, args)), self._rows.get((tool, None))
        rows = min((rows for rows in (exact, any_) if rows), key=lambda rows: rows[-1], default=None)
        if rows is None:
            return None
        index = rows[-1]
        answer = self._answers[index]
        if take:
            self._used[index] = True
            if not answer.repeat:
                rows.pop()
        return answer

    @property
    def unused(self) -> list[Answer]:
        return [answer for answer, used in zip(self._answers, self._used, strict=True) if not used]
