# Written by sdk_python/make_sync.py from rewind/_async/keeping.py; change that file.
# ruff: noqa: I001
# fmt: off
"""`client.runs`: many cancelled at once, deleted, redacted."""

from collections.abc import Mapping
from typing import Any, Unpack

from rewind._sync.forks import run_path
from rewind._core import Call
from rewind._portal import Core
from rewind._types import CallOptions, given


class Keeping:
    _core: Core

    def cancel_all(
        self,
        filter: Mapping[str, Any],  # noqa: A002 - the API's name
        *,
        reason: str | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, int]:
        """Cancel every run that goes on and matches, as `list` filters: `{"matched", "cancelled", "remaining"}`.

        `{}` matches all. What remains is cancelled in the background, within seconds.
        """
        body = {"filter": dict(filter), **given(reason=reason)}
        query = {"namespace": namespace or self._core.config.namespace}
        call = Call(method="POST", path="/v1/runs/cancel", query=query, body=body, repeatable=True)
        answer: dict[str, int] = (self._core.call(call, options)).data
        return answer

    def delete(self, run: str, *, namespace: str | None = None, **options: Unpack[CallOptions]) -> None:
        """Delete an ended run with its journal and values. Its idempotency key starts no second one."""
        query = {"namespace": namespace or self._core.config.namespace}
        self._core.call(Call(method="DELETE", path=run_path(run), query=query), options)

    def redact(
        self,
        run: str,
        *,
        seq: int,
        field: str,
        reason: str,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Take one value out of an ended run's journal: its digest and size stay, and so does the run's root."""
        query = {"namespace": namespace or self._core.config.namespace}
        body = {"seq": seq, "field": field, "reason": reason}
        call = Call(method="POST", path=f"{run_path(run)}/redact", query=query, body=body, repeatable=True)
        answer: dict[str, Any] = (self._core.call(call, options)).data
        return answer
