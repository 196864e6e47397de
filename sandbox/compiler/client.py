"""The caller's side of the sandbox: what the control plane asks of the data plane, which it never touches.

Questions travel as rows (`Requests` is the store's part of it); a worker answers. None in time: Unavailable.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from sandbox.journal.ids import Digest, Epoch, Json, NamespaceId, OrganizationId, RunId, Seq, TimeMs

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


@dataclass(frozen=True, slots=True)
class Checked:
    """What a worker says of a script and a toolset. `compiled` is None exactly when a diagnostic is an error."""

    compiled: dict[str, Any] | None
    diagnostics: list[dict[str, Json]]
    input_type: str | None
    output_type: str | None
    input_schema: Json
    """True when any input is accepted."""
    output_schema: Json = True
    """When it was asked for."""


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """`gone` says why the parent's history cannot be reused; otherwise `report` is what would be."""

    report: dict[str, Json] | None
    gone: str | None


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

    async def check(
        self,
        namespace: NamespaceId,
        source: str,
        epoch: Epoch,
        *,
        organization: OrganizationId,
        toolset: tuple[str, Digest] | None,
        output: bool = False,
    ) -> Checked:
        """Strip a script and check its types against a pinned toolset, or none. `output`: with its schema.

        Errors: Unavailable.
        """
        question: dict[str, Any] = {"source": source, "epoch": epoch, "organization": organization}
        question |= {"toolset": toolset, **({"output": True} if output else {})}
        answer = await self._requests.ask(
            namespace, "check", orjson.dumps(question), timeout_ms=CHECK_TIMEOUT_MS
        )
        return Checked(**orjson.loads(answer))

    async def test(self, namespace: NamespaceId, question: dict[str, Any]) -> bytes:
        """Try a script in virtual time: its report, or what of the question is refused. Errors: Unavailable."""
        return await self._requests.ask(namespace, "test", orjson.dumps(question), timeout_ms=TEST_TIMEOUT_MS)

    async def replay(self, namespace: NamespaceId, question: dict[str, Any], cpu_us: int) -> bytes:
        """Execute a recorded run again that used this CPU. Errors: Unavailable."""
        return await self._requests.ask(
            namespace, "replay", orjson.dumps(question), timeout_ms=reexecution_timeout_ms(cpu_us)
        )

    async def fork_plan(
        self,
        namespace: NamespaceId,
        *,
        parent: RunId,
        run: RunId,
        time: TimeMs,
        at: Seq | None,
        started: bytes,
        compiled: dict[str, Json],
        timeout_ms: int,
    ) -> ForkPlan:
        """What a fork would reuse. `started` is the body of its run_started, `time` that entry's.

        Errors: Unavailable.
        """
        question = {
            "parent": parent,
            "run": run,
            "time": time,
            "at": at,
            "started": started.decode(),
            "compiled": compiled,
        }
        answer = orjson.loads(
            await self._requests.ask(namespace, "fork_plan", orjson.dumps(question), timeout_ms=timeout_ms)
        )
        return ForkPlan(answer["report"], answer["gone"])
