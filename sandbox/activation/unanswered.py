"""What calls get that nothing in the scenario answers, or that were told to stop."""

from dataclasses import dataclass, replace

from sandbox.activation.scenario import Failure
from sandbox.journal.entries import ApprovalDecided, Event, ToolCallCompleted, ToolFailure
from sandbox.store.approvals import denial

UNKNOWN = Failure(
    "OutcomeUnknownError", None, "the call was told to stop, and whether it took effect is not known"
)


@dataclass(frozen=True, slots=True)
class Missing:
    """A call that nothing in the scenario answers."""

    call: int
    tool: str
    args: bytes
    line: int | None


def denied(tool: str) -> Failure:
    failure = denial(tool, ApprovalDecided(0, "denied", by=None, actor=None))
    return Failure(failure.name, None, failure.message, None if failure.data is None else failure.data.text)


def no_answer(missing: Missing) -> Failure:
    shown = missing.args[:200].decode(errors="replace")
    return Failure(
        "ToolError", "no_answer", f"nothing answers {missing.tool}({shown}): give a mock or a cassette"
    )


def stopped(outcome: Event, unknown: ToolFailure) -> ToolCallCompleted:
    """What a begun call gets that was told to stop: begun when it was, whatever it would have had."""
    assert isinstance(outcome, ToolCallCompleted)
    return replace(outcome, result=None, error=unknown, attempts=1)
