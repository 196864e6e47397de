"""`client.workflows`: scripts under a name."""

from typing import Unpack

from rewind._async.pager import AsyncPager
from rewind._core import AsyncCore, Call, segment
from rewind._types import CallOptions, Page, Workflow, given


class AsyncWorkflows:
    """Started with `client.runs.start(workflow=name)`, or called by scripts whose toolset lists them."""

    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def put(
        self,
        name: str,
        script: str,
        *,
        toolset: str | None = None,
        description: str | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Workflow:
        """Register a script under a name, with its toolset as it is now. Runs that live stay with what they have.

        `script` is source, or the digest of a script that `namespace` knows.
        """
        body = {"script": script, **given(toolset=toolset, description=description)}
        call = Call(method="PUT", path=_path(name), body=body, query={"namespace": namespace})
        answer = await self._core.call(call, options)
        return Workflow.from_wire(answer.data, answer.request_id)

    async def get(self, name: str, **options: Unpack[CallOptions]) -> Workflow:
        """The latest version, or the one of `name@sha256:…`, with its source."""
        answer = await self._core.call(Call(method="GET", path=_path(name)), options)
        return Workflow.from_wire(answer.data, answer.request_id)

    def list(
        self, *, limit: int | None = None, after: str | None = None, **options: Unpack[CallOptions]
    ) -> AsyncPager[Workflow]:
        return self._pages("/v1/workflows", limit, after, options)

    def versions(
        self, name: str, *, limit: int | None = None, after: str | None = None, **options: Unpack[CallOptions]
    ) -> AsyncPager[Workflow]:
        """All versions, those that came last first."""
        return self._pages(f"{_path(name)}/versions", limit, after, options)

    async def delete(self, name: str, **options: Unpack[CallOptions]) -> None:
        """It cannot be started any more; runs that live go on, and so do toolsets that are pinned to it."""
        await self._core.call(Call(method="DELETE", path=_path(name)), options)

    def _pages(
        self, path: str, limit: int | None, after: str | None, options: CallOptions
    ) -> AsyncPager[Workflow]:
        async def fetch(cursor: str | None) -> Page[Workflow]:
            call = Call(method="GET", path=path, query={"limit": limit, "after": cursor})
            answer = await self._core.call(call, options)
            items = [Workflow.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return AsyncPager(fetch, after)


def _path(name: str) -> str:
    return f"/v1/workflows/{segment(name, 'the name of the workflow')}"
