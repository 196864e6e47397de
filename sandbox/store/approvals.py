"""Decisions about gated calls: what is appended for one, and what a script gets for a call that was not approved."""

from dataclasses import dataclass

from sandbox.journal.canonical import value_of
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import ApprovalDecided, ToolCallCompleted, ToolFailure
from sandbox.journal.ids import NamespaceId, RunId
from sandbox.journal.messages import bounded


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision for one call of `tool`. Its guard: the call is pending and still gated."""

    namespace: NamespaceId
    run: RunId
    tool: str
    decided: ApprovalDecided

    @property
    def body(self) -> bytes:
        """Of approval_decided."""
        return encode_body(self.decided)

    @property
    def completion(self) -> bytes | None:
        """Of the tool_call_completed that stands in the same append; None: approved."""
        if self.decided.decision == "approved":
            return None
        return encode_body(ToolCallCompleted(self.decided.call, None, denial(self.tool, self.decided), 0))


def denial(tool: str, decided: ApprovalDecided) -> ToolFailure:
    """The ApprovalDeniedError of a call that was denied or whose approval expired."""
    expired = decided.decision == "expired"
    message = f"the call of {tool} was not approved in time" if expired else f"the call of {tool} was denied"
    message += "" if decided.by is None else f" by {decided.by}"
    message += "" if decided.reason is None else f": {decided.reason}"
    data = value_of({"reason": decided.reason, "by": decided.by, "expired": expired})
    return bounded(ToolFailure("ApprovalDeniedError", None, message, data))
