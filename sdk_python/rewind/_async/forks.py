"""`client.runs.fork`, and what the calls of one run have in common."""

import uuid
from collections.abc import Mapping
from typing import Literal, Unpack, overload

from rewind._core import AsyncCore, Call, segment
from rewind._types import CallOptions, Duration, ForkPlan, Run, duration_ms, given

FORK_PLAN_S = 30.0
"""How long the server may take to say what a fork reuses."""


class AsyncForks:
    """The part of `client.runs` that forks."""

    _core: AsyncCore

    def _scope(self, namespace: str | None) -> dict[str, str | None]:
        return {"namespace": namespace or self._core.config.namespace}

    @overload
    async def fork(
        self,
        run: str,
        *,
        script: str | None = None,
        at: int | None = None,
        wait: Duration | None = None,
        ttl: Duration | None = None,
        labels: Mapping[str, str] | None = None,
        dry_run: Literal[False] = False,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Run: ...
    @overload
    async def fork(
        self,
        run: str,
        *,
        script: str | None = None,
        at: int | None = None,
        wait: Duration | None = None,
        ttl: Duration | None = None,
        labels: Mapping[str, str] | None = None,
        dry_run: Literal[True],
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> ForkPlan: ...
    async def fork(
        self,
        run: str,
        *,
        script: str | None = None,
        at: int | None = None,
        wait: Duration | None = None,
        ttl: Duration | None = None,
        labels: Mapping[str, str] | None = None,
        dry_run: bool = False,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Run | ForkPlan:
        """Go on from an ended run: what its script, or a corrected one, does the same is reused, not sent again.

        `at`: seq of an entry of the run; nothing is matched from there on, and the call whose outcome stands there
        is made anew. The fork's `fork` says what it reuses; with `dry_run` only that is answered.
        """
        wait_value = None if wait is None else duration_ms(wait)
        body = given(
            script=script,
            at=at,
            wait=wait_value,
            ttl=None if ttl is None else duration_ms(ttl),
            labels=None if labels is None else dict(labels),
            dry_run=dry_run or None,
        )
        options.setdefault("idempotency_key", str(uuid.uuid4()))
        call = Call(
            method="POST",
            path=f"{run_path(run)}/fork",
            query=self._scope(namespace),
            body=body,
            repeatable=True,
            wait_s=FORK_PLAN_S + poll_s(wait_value),
        )
        answer = await self._core.call(call, options)
        if dry_run:
            return ForkPlan.from_wire(answer.data["fork"], answer.request_id)
        return Run.from_wire(answer.data, answer.request_id)


def run_path(run: str) -> str:
    return f"/v1/runs/{segment(run, 'the run id')}"


def poll_s(wait: int | str | None) -> float:
    """How long the server may take to answer; for durations given as text, the longest it allows."""
    if wait is None:
        return 0.0
    return 60.0 if isinstance(wait, str) else min(60.0, wait / 1000)
