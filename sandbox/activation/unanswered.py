"""What calls get that nothing in the scenario answers, or that were told to stop."""

from dataclasses import dataclass

from sandbox.activation.scenario import Failure
from sandbox.journal.canonical import canonical_text

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


def denied(tool: str, *, expired: bool = False) -> Failure:
    why = "expired" if expired else "denied"
    data = canonical_text({"reason": None, "by": None, "expired": expired})
    return Failure("ApprovalDeniedError", None, f"the call of {tool} was {why}", data)


def no_answer(missing: Missing) -> Failure:
    shown = missing.args[:200].decode(errors="replace")
    return Failure(
        "ToolError", "no_answer", f"nothing answers {missing.tool}({shown}): give a mock or a cassette"
    )
