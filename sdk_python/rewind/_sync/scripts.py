# Written by sdk_python/make_sync.py from rewind/_async/scripts.py; change that file.
# ruff: noqa: I001
# fmt: off
"""`client.scripts`: checked before anything runs; those without errors are known by their digest."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from rewind._sync.pager import Pager
from rewind._core import Call, segment
from rewind._portal import Core
from rewind._types import CallOptions, Page, Script, ScriptCheck, given

TEST_WAIT_S = 60.0
_ABSENT: Any = object()
"""An input that is left out; None is an input."""


class Scripts:
    """Try scripts before they run, and read those that are known."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def check(
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
        answer = self._core.call(call, options)
        return ScriptCheck.from_wire(answer.data, answer.request_id)

    def test(
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
        report: dict[str, Any] = (self._core.call(call, options)).data
        return report

    def get(
        self, digest: str, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> Script:
        """A script with its source and the types of its main."""
        path = f"/v1/scripts/{segment(digest, 'the digest of the script')}"
        answer = self._core.call(Call(method="GET", path=path, query=self._within(namespace)), options)
        return Script.from_wire(answer.data, answer.request_id)

    def list(
        self,
        *,
        namespace: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Pager[Script]:
        """Those that came last first, without their source."""

        def fetch(cursor: str | None) -> Page[Script]:
            query = {**self._within(namespace), "limit": limit, "after": cursor}
            answer = self._core.call(Call(method="GET", path="/v1/scripts", query=query), options)
            items = [Script.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)

    def _within(self, namespace: str | None) -> dict[str, str | None]:
        return {"namespace": namespace or self._core.config.namespace}
