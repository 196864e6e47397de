# Written by sdk_python/make_sync.py from rewind/_async/scripts.py; change that file.
# ruff: noqa: I001
# fmt: off
"""`client.scripts`: try scripts before they run."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from rewind._core import Call
from rewind._portal import Core
from rewind._types import CallOptions, given

TEST_WAIT_S = 60.0


class Scripts:
    def __init__(self, core: Core) -> None:
        self._core = core

    def test(
        self,
        script: str,
        *,
        toolset: str | None = None,
        input: Any = None,  # noqa: A002 - the API's name
        cassette: Mapping[str, Any] | None = None,
        mocks: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        signals: Sequence[Mapping[str, Any]] | None = None,
        approvals: Mapping[str, str] | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Run a script in virtual time; nothing is called, nothing is stored.

        Calls are answered by `mocks` (`{"group.tool": [{"args": ..., "result": ...}]}`), then by a `cassette`
        (`runs.journal(run, as_="cassette")`). The answer: `{"status", "output", "error", "calls", "logs",
        "journal", "unused", "missing", ...}`.
        """
        body = {
            "script": script,
            "input": input,
            **given(toolset=toolset, cassette=cassette, mocks=mocks, signals=signals, approvals=approvals),
        }
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
