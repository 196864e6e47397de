"""The caller's side of the sandbox: what the control plane asks of the data plane, which it never touches.

Questions travel as rows (`Requests` is the store's part of it); a worker answers. None in time: Unavailable.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from sandbox.journal.ids import Epoch, Json, NamespaceId

CHECK_TIMEOUT_MS = 30_000
"""To strip or check a script."""
TEST_TIMEOUT_MS = 60_000


def reexecution_timeout_ms(cpu_us: int) -> int:
    """How long to wait for the replay of a run, or the plan of a fork, that used this CPU."""
    return 30_000 + 2 * cpu_us // 1_000


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
                timeout_ms=CHECK_TIMEOUT_MS,
            )
        )
        return Stripped(answer["compiled"], answer["diagnostics"])
