"""`client.scripts`: checked before anything runs; those without errors are known by their digest."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from rewind._async.pager import AsyncPager
from rewind._core import AsyncCore, Call, segment
from rewind._types import CallOptions, Page, Script, ScriptCheck, given

TEST_WAIT_S = 60.0
_ABSENT: Any = object()
"""An input that is left out; None is an input."""


class AsyncScripts:
    """Try scripts before they run, and read those that are known."""

    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def check(
        self,
        script: str,
        *,
        toolset: str | None = None,
        input: Any = _ABSENT,  # noqa: A002 - the API's name
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> ScriptCheck:
        """Check syntax and types against a toolset, and an input against main. Errors are in the answer, not raised."""
        body = {"script": script, **given(toolset=toolset)}
        if input is not _ABSENT:
            body["input"] = input
        call = Call(
            method="POST",
            path="/v1/scripts/check",
            query={"namespace": namespace or self._core.config.namespace},
            body=body,
            repeatable=True,
        )
        answer = await self._core.call(call, options)
        return ScriptCheck.from_wire(answer.data, answer.request_id)

    async def test(
        self,
        script: str,
        *,
        toolset: str | None = None,
        input: Any = _ABSENT,  # noqa: A002 - the API's name
        cassette: Mapping[str, Any] | None = None,
        mocks: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        signals: Sequence[Mapping[str, Any]] | None = None,
        approvals: Mapping[str, str] | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Run a script in virtual time; nothing is called, nothing is stored.

        Without `input`, main gets the cassette's.
        Calls are answered by `mocks` (`{"group.tool": [{"args": ..., "result": ...}]}`), then by a `cassette`
        (`runs.journal(run, as_="cassette")`). The answer: `{"status", "output", "error", "calls", "logs",
        "journal", "unused", "missing", ...}`.
        """
        body = {
            "script": script,
            **given(toolset=toolset, cassette=cassette, mocks=mocks, signals=signals, approvals=approvals),
        }
        if input is not _ABSENT:
            body["input"] = input
        call = Call(
            method="POST",
            path="/v1/scripts/test",
            query={"namespace": namespace or self._core.config.namespace},
            body=body,
            repeatable=True,
            wait_s=TEST_WAIT_S,
        )
        report: dict[str, Any] = (await self._core.call(call, options)).data
        return report

    async def get(
        self, digest: str, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> Script:
        """A script with its source and the types of its main."""
        path = f"/v1/scripts/{segment(digest, 'the digest of the script')}"
        answer = await self._core.call(Call(method="GET", path=path, query=self._within(namespace)), options)
        return Script.from_wire(answer.data, answer.request_id)

    def list(
        self,
        *,
        namespace: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncPager[Script]:
        """Those that came last first, without their source."""

        async def fetch(cursor: str | None) -> Page[Script]:
            query = {**self._within(namespace), "limit": limit, "after": cursor}
            answer = await self._core.call(Call(method="GET", path="/v1/scripts", query=query), options)
            items = [Script.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return AsyncPager(fetch, after)

    def _within(self, namespace: str | None) -> dict[str, str | None]:
        return {"namespace": namespace or self._core.config.namespace}
