"""The people outside: they start runs, send signals, cancel, and go on asking until they are answered."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

import rewind

from tests.chaos.host_tools import NAMESPACES, TOOLSET
from tests.chaos.plans import SCRIPT, Plan, SentSignal
from tests.e2e.stack import pause


@dataclass
class Played:
    """One run: its plan, and what the server acknowledged of what was done to it."""

    plan: Plan
    namespace: str
    run: str = ""
    signals: set[str] = field(default_factory=set)
    """Ids of signals that were accepted."""
    cancelled: bool = False
    """Somebody asked for it, whatever the answer was."""


class Crowd:
    def __init__(self, client: rewind.AsyncRewind) -> None:
        self._client = client
        self.runs: list[Played] = []
        self.answers: dict[str, int] = defaultdict(int)

    async def play(self, plan: Plan, after_s: float) -> None:
        """Start the run of a plan, then do to it what the plan says. Ends when everything was answered."""
        await pause(after_s)
        played = Played(plan, NAMESPACES[plan.serial % len(NAMESPACES)])
        self.runs.append(played)
        run = await self._insist(
            lambda: self._client.runs.start(
                script=SCRIPT,
                toolset=TOOLSET,
                input=plan.input,
                namespace=played.namespace,
                labels={"serial": str(plan.serial)},
                idempotency_key=f"plan-{plan.serial}",
            )
        )
        assert run is not None
        played.run = run.id
        deeds = [self._signal(played, signal) for signal in plan.signals]
        if plan.cancel_after_s is not None:
            deeds.append(self._cancel(played, plan.cancel_after_s))
        await asyncio.gather(*deeds)

    async def _signal(self, played: Played, signal: SentSignal) -> None:
        await pause(signal.after_s)
        sent = f"id-{signal.name}"
        for _ in range(signal.times):
            receipt = await self._insist(
                lambda: self._client.runs.signal(
                    played.run, signal.name, signal.payload, id=sent, namespace=played.namespace
                )
            )
            if receipt is not None:
                played.signals.add(sent)

    async def _cancel(self, played: Played, after_s: float) -> None:
        await pause(after_s)
        played.cancelled = True  # also when no answer comes: a later one may say that the run has ended
        await self._insist(
            lambda: self._client.runs.cancel(played.run, reason="enough", namespace=played.namespace)
        )

    async def _insist(self, ask):  # type: ignore[no-untyped-def]
        """Ask until the server has answered; None: the run has ended already."""
        while True:
            try:
                return await ask()
            except rewind.ConnectionFailed:
                self.answers["not reachable"] += 1
            except rewind.ApiError as error:
                if error.code == "run_ended":
                    return None
                self.answers[error.code] += 1
                if error.status < 500:
                    raise
            await pause(0.2)
