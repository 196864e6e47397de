# Written by sdk_python/make_sync.py from rewind/_async/workflows.py; change that file.
# ruff: noqa: I001
# fmt: off
"""`client.workflows`: scripts under a name."""

from typing import Unpack

from rewind._sync.pager import Pager
from rewind._core import Call, segment
from rewind._portal import Core
from rewind._types import CallOptions, Page, Workflow, given


class Workflows:
    """Started with `client.runs.start(workflow=name)`, or called by scripts whose toolset lists them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def put(
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
        answer = self._core.call(call, options)
        return Workflow.from_wire(answer.data, answer.request_id)

    def get(self, name: str, **options: Unpack[CallOptions]) -> Workflow:
        """The latest version, or the one of `name@sha256:…`, with its source."""
        answer = self._core.call(Call(method="GET", path=_path(name)), options)
        return Workflow.from_wire(answer.data, answer.request_id)

    def list(
        self, *, limit: int | None = None, after: str | None = None, **options: Unpack[CallOptions]
    ) -> Pager[Workflow]:
        return self._pages("/v1/workflows", limit, after, options)

    def versions(
        self, name: str, *, limit: int | None = None, after: str | None = None, **options: Unpack[CallOptions]
    ) -> Pager[Workflow]:
        """All versions, those that came last first."""
        return self._pages(f"{_path(name)}/versions", limit, after, options)

    def delete(self, name: str, **options: Unpack[CallOptions]) -> None:
        """It cannot be started any more; runs that live go on, and so do toolsets that are pinned to it."""
        self._core.call(Call(method="DELETE", path=_path(name)), options)

    def _pages(
        self, path: str, limit: int | None, after: str | None, options: CallOptions
    ) -> Pager[Workflow]:
        def fetch(cursor: str | None) -> Page[Workflow]:
            call = Call(method="GET", path=path, query={"limit": limit, "after": cursor})
            answer = self._core.call(call, options)
            items = [Workflow.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)


def _path(name: str) -> str:
    return f"/v1/workflows/{segment(name, 'the name of the workflow')}"
