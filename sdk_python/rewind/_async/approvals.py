"""`client.approvals`: calls that wait for a person, and the decisions about them."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from rewind._async.pager import AsyncPager
from rewind._core import AsyncCore, Call, segment
from rewind._types import Approval, CallOptions, Decided, Page, given


class AsyncApprovals:
    """Each call is decided once: `Conflict` with code `approval_settled` says that somebody was faster."""

    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(
        self,
        *,
        run: str | None = None,
        status: str | None = None,
        tool: str | None = None,
        labels: Mapping[str, str] | None = None,
        namespace: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncPager[Approval]:
        """Newest first; of the client's namespace if it has one, else of all that the key may see."""
        query: dict[str, Any] = {f"label.{key}": value for key, value in (labels or {}).items()}
        query |= {"run": run, "status": status, "tool": tool, "limit": limit}
        query["namespace"] = namespace or self._core.config.namespace

        async def fetch(cursor: str | None) -> Page[Approval]:
            call = Call(method="GET", path="/v1/approvals", query={**query, "after": cursor})
            answer = await self._core.call(call, options)
            items = [Approval.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return AsyncPager(fetch, after)

    async def get(
        self, run: str, call: int, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> Approval:
        """One approval, with what the run did before (`story`)."""
        query = {"namespace": namespace or self._core.config.namespace}
        answer = await self._core.call(Call(method="GET", path=_path(run, call), query=query), options)
        return Approval.from_wire(answer.data, answer.request_id)

    async def decide(
        self,
        run: str,
        call: int,
        decision: str,
        *,
        reason: str | None = None,
        by: str | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Approval:
        """`approved`: the call is made. `denied`: the script gets ApprovalDeniedError, with `reason` and `by`."""
        request = Call(
            method="POST",
            path=_path(run, call),
            query={"namespace": namespace or self._core.config.namespace},
            body={"decision": decision, **given(reason=reason, by=by)},
        )
        answer = await self._core.call(request, options)
        return Approval.from_wire(answer.data, answer.request_id)

    async def decide_many(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Sequence[Decided]:
        """Up to 100 `{run, call, decision, reason?, by?, namespace?}`, each answered by itself, in order."""
        request = Call(
            method="POST",
            path="/v1/approvals/decide",
            query={"namespace": namespace or self._core.config.namespace},
            body={"items": [dict(item) for item in items]},
        )
        answer = await self._core.call(request, options)
        return [Decided.from_wire(item, answer.request_id) for item in answer.data["results"]]


def _path(run: str, call: int) -> str:
    return f"/v1/runs/{segment(run, 'run')}/approvals/{call}"
