"""The caller's side of the sandbox: what the control plane asks of the data plane, which it never touches.

Questions travel as rows (`Requests` is the store's part of it); a worker answers. None in time: Unavailable.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from sandbox.journal.ids import Epoch, Json, NamespaceId

STRIP_TIMEOUT_MS = 30_000


class Requests(Protocol):
    async def ask(self, namespace: NamespaceId, kind: str, payload: bytes, *, timeout_ms: int) -> bytes:
        """The worker's answer. Errors: Unavailable when no worker answered in time or it failed to."""
        ...


@dataclass(frozen=True, slots=True)
class Stripped:
    """`compiled` is what replays need, opaque to the caller; None when the script is refused."""

    compiled: dict[str, Any] | None
    diagnostics: list[dict[str, Json]]


class SandboxClient:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def strip(self, namespace: NamespaceId, source: str, epoch: Epoch) -> Stripped:
        """Blank the types of a script, positions kept, or say why it is refused.

        Errors: Unavailable.
        """
        answer = orjson.loads(
            await self._requests.ask(
                namespace,
                "strip",
                orjson.dumps({"source": source, "epoch": epoch}),
                timeout_ms=STRIP_TIMEOUT_MS,
            )
        )
        return Stripped(answer["compiled"], answer["diagnostics"])
