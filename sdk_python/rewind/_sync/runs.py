# Written by sdk_python/make_sync.py from rewind/_async/runs.py; change that file.
# ruff: noqa: I001
# fmt: off
"""`client.runs`: start runs, watch them, talk to them."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack, overload

import orjson

from rewind._sync.forks import Forks, poll_s, run_path
from rewind._sync.keeping import Keeping
from rewind._sync.pager import Pager
from rewind._core import Call, segment
from rewind._portal import Core
from rewind._errors import RunAborted, RunCancelled, RunFailed, RunQuarantined
from rewind._types import (
    CallOptions,
    Duration,
    Entry,
    Page,
    Run,
    SignalReceipt,
    Status,
    Until,
    duration_ms,
    given,
)

WAIT_WINDOW_MS = 30_000
"""One long-poll of `wait`; the server allows at most 60 s."""
OUTPUT_CHUNK_BYTES = 262_144
JOURNAL_PAGE = 1_000
REPLAY_POLL_S = 1.0
_ENDINGS = {
    "failed": RunFailed,
    "cancelled": RunCancelled,
    "aborted": RunAborted,
    "quarantined": RunQuarantined,
}


class Runs(Forks, Keeping):
    def __init__(self, core: Core) -> None:
        self._core = core

    def start(
        self,
        *,
        script: str | None = None,
        workflow: str | None = None,
        toolset: str | None = None,
        input: Any = None,  # noqa: A002 - the API's name
        wait: Duration | None = None,
        until: Until | None = None,
        ttl: Duration | None = None,
        labels: Mapping[str, str] | None = None,
        namespace: str | None = None,
        start_at: datetime | str | None = None,
        traceparent: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Run:
        """Start a run of a script (source or digest) or of a workflow, and wait for it as long as `wait` says.

        Without an idempotency key one is made for this call, so that a retry never starts a second run.
        """
        wait_value = None if wait is None else duration_ms(wait)
        body = given(
            script=script,
            workflow=workflow,
            toolset=toolset,
            input=input,
            wait=wait_value,
            until=until,
            ttl=None if ttl is None else duration_ms(ttl),
            labels=None if labels is None else dict(labels),
            namespace=namespace or self._core.config.namespace,
            start_at=start_at.isoformat() if isinstance(start_at, datetime) else start_at,
            traceparent=traceparent,
        )
        options.setdefault("idempotency_key", str(uuid.uuid4()))
        call = Call(method="POST", path="/v1/runs", body=body, repeatable=True, wait_s=poll_s(wait_value))
        answer = self._core.call(call, options)
        return Run.from_wire(answer.data, answer.request_id)

    def get(
        self,
        run: str,
        *,
        wait: Duration | None = None,
        until: Until | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Run:
        """The run as it is now, or when it has ended (or is blocked), at the latest after `wait` (≤ 60 s)."""
        wait_value = None if wait is None else duration_ms(wait)
        query = {"wait": wait_value, "until": until, **self._scope(namespace)}
        call = Call(method="GET", path=run_path(run), query=query, wait_s=poll_s(wait_value))
        answer = self._core.call(call, options)
        return Run.from_wire(answer.data, answer.request_id)

    def wait(
        self,
        run: str,
        *,
        timeout_s: float | None = None,
        until: Until = "ended",
        raise_: bool = False,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Run:
        """Wait until the run has ended (or is blocked, or quarantined), for `timeout_s` seconds or as long as it takes.

        When the time is over the run is returned as it is. With `raise_`, a run that ended other than completed
        is raised as RunFailed, RunCancelled, RunAborted or RunQuarantined.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            window = WAIT_WINDOW_MS
            if deadline is not None:
                window = max(0, min(window, round((deadline - time.monotonic()) * 1000)))
            began = time.monotonic()
            found = self.get(run, wait=window, until=until, namespace=namespace, **options)
            answered_early = time.monotonic() - began < window / 1000
            out_of_time = deadline is not None and time.monotonic() >= deadline
            if found.status != "active" or out_of_time or (until == "blocked" and answered_early):
                break
            if answered_early:  # a server that is leaving answers before its time
                self._core.pause(0.1)
        if raise_ and found.status in _ENDINGS:
            raise _ENDINGS[found.status](found)
        return found

    def list(
        self,
        *,
        status: Status | None = None,
        labels: Mapping[str, str] | None = None,
        script: str | None = None,
        workflow: str | None = None,
        toolset: str | None = None,
        parent: str | None = None,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        q: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Pager[Run]:
        """Runs, newest first. `limit` is the size of a page, not of the list."""
        query = {
            "status": status,
            "script": script,
            "workflow": workflow,
            "toolset": toolset,
            "parent": parent,
            "from": from_.isoformat() if isinstance(from_, datetime) else from_,
            "to": to.isoformat() if isinstance(to, datetime) else to,
            "q": q,
            "limit": limit,
            **{f"label.{key}": value for key, value in (labels or {}).items()},
            **self._scope(namespace),
        }

        def fetch(cursor: str | None) -> Page[Run]:
            call = Call(method="GET", path="/v1/runs", query={**query, "after": cursor})
            answer = self._core.call(call, options)
            items = [Run.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)

    def signal(
        self,
        run: str,
        name: str,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
        by: str | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> SignalReceipt:
        """Send a signal. Its id (made here when absent) makes a repeat harmless: the run takes it once."""
        body = {"name": name, "payload": payload, "id": id or str(uuid.uuid4()), **given(by=by)}
        call = Call(
            method="POST",
            path=f"{run_path(run)}/signals",
            query=self._scope(namespace),
            body=body,
            repeatable=True,
        )
        answer = self._core.call(call, options)
        return SignalReceipt.from_wire(answer.data, answer.request_id)

    def cancel(
        self,
        run: str,
        *,
        reason: str | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Run:
        """Ask the run to end: its script gets one activation to clean up."""
        call = Call(
            method="POST",
            path=f"{run_path(run)}/cancel",
            query=self._scope(namespace),
            body=given(reason=reason),
            repeatable=True,
        )
        answer = self._core.call(call, options)
        return Run.from_wire(answer.data, answer.request_id)

    def rerun(
        self,
        run: str,
        *,
        wait: Duration | None = None,
        ttl: Duration | None = None,
        labels: Mapping[str, str] | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Run:
        """Start again from the beginning: the same script, pinned tools, input and labels, nothing reused."""
        before = self.get(run, namespace=namespace)
        return self.start(
            script=before.script,
            toolset=before.toolset,
            input=before.input,
            wait=wait,
            ttl=ttl,
            labels=before.labels if labels is None else labels,
            namespace=namespace,
            **options,
        )

    @overload
    def journal(
        self,
        run: str,
        *,
        as_: Literal["journal"] = "journal",
        after: int | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Sequence[Entry]: ...

    @overload
    def journal(
        self,
        run: str,
        *,
        as_: Literal["cassette"],
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]: ...

    def journal(
        self,
        run: str,
        *,
        as_: Literal["journal", "cassette"] = "journal",
        after: int | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Sequence[Entry] | dict[str, Any]:
        """The journal's entries after seq `after`, all that are recorded by now.

        `as_="cassette"`: the run's calls and signals, to answer a test: `client.scripts.test(..., cassette=...)`.
        """
        path = f"{run_path(run)}/journal"
        if as_ == "cassette":
            query: dict[str, Any] = {"as": as_, **self._scope(namespace)}
            cassette: dict[str, Any] = (
                self._core.call(Call(method="GET", path=path, query=query), options)
            ).data
            return cassette
        entries: list[Entry] = []
        cursor = after
        while True:
            query = {"after": cursor, "limit": JOURNAL_PAGE, **self._scope(namespace)}
            page = (self._core.call(Call(method="GET", path=path, query=query), options)).data
            entries.extend(page["data"])
            if page.get("next") is None:
                return entries
            cursor = page["next"]

    def replay(
        self,
        run: str,
        *,
        script: str | None = None,
        overrides: Mapping[int | str, Mapping[str, Any]] | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Execute the run again, without effects, and compare: `{"matches", "diverged_at"?, "calls", "output", ...}`.

        `script`: another one; is it compatible with this history? `overrides`: what if call 3 had answered
        otherwise, `{3: {"result": ...}}`. A long replay is waited for.
        """
        body = given(script=script)
        if overrides is not None:
            body["overrides"] = {str(call): outcome for call, outcome in overrides.items()}
        query = self._scope(namespace)
        call = Call(
            method="POST",
            path=f"{run_path(run)}/replay",
            query=query,
            body=body,
            repeatable=True,
            wait_s=30.0,
        )
        answer: dict[str, Any] = (self._core.call(call, options)).data
        while "matches" not in answer:
            self._core.pause(REPLAY_POLL_S)
            path = f"{run_path(run)}/replays/{answer['id']}"
            answer = (self._core.call(Call(method="GET", path=path, query=query), options)).data
        return answer

    def events(
        self,
        run: str,
        *,
        after: int | None = None,
        namespace: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Entry]:
        """The journal's entries after seq `after`, each once and in order, as they are recorded; ends with the run.

        A connection that breaks off is made again, and the stream goes on where it was.
        """
        call = Call(method="GET", path=f"{run_path(run)}/events", query=self._scope(namespace))
        return self._core.entries(call, options, after)

    def values(
        self, run: str, sha256: str, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> Any:
        """The value that the run's journal names by this digest; entries hold only the smaller ones themselves."""
        call = Call(
            method="GET",
            path=f"{run_path(run)}/values/{segment(sha256, 'the digest')}",
            query=self._scope(namespace),
        )
        return (self._core.call(call, options)).data

    def output(self, run: str, *, namespace: str | None = None, **options: Unpack[CallOptions]) -> Any:
        """The whole output, also when it is too large for the run's own `output`."""
        return orjson.loads(self.output_text(run, namespace=namespace, **options))

    def output_text(
        self, run: str, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> str:
        """JSON text of the whole output."""
        parts: list[str] = []
        offset = 0
        while True:
            query = {"offset": offset, "limit": OUTPUT_CHUNK_BYTES, **self._scope(namespace)}
            call = Call(method="GET", path=f"{run_path(run)}/output", query=query)
            part = (self._core.call(call, options)).data
            parts.append(part["text"])
            if part.get("next") is None:
                return "".join(parts)
            offset = part["next"]
