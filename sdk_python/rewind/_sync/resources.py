# Written by sdk_python/make_sync.py from rewind/_async/resources.py; change that file.
# ruff: noqa: I001
# fmt: off
"""`client.toolsets`, `.tokens`, `.namespaces` and `.tasks`."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from rewind._account_types import Quota
from rewind._sync.pager import Pager
from rewind._core import Call, segment
from rewind._portal import Core
from rewind._tools import AnyTool, declare
from rewind._types import (
    CallOptions,
    Duration,
    FoundTool,
    Namespace,
    Page,
    Settled,
    Token,
    Toolset,
    duration_ms,
    given,
)

UNLIMITED = "never"


class Toolsets:
    def __init__(self, core: Core) -> None:
        self._core = core

    def register(
        self,
        name: str,
        tools: Sequence[AnyTool | Mapping[str, Any]] = (),
        *,
        mcp: Sequence[Mapping[str, Any]] | None = None,
        http: Mapping[str, Any] | None = None,
        workflows: Sequence[str] | None = None,
        secrets: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Toolset:
        """Pin a toolset under `name`. Host tools are Python functions, `@tool`s, or declarations as the API takes them.

        The same again changes nothing; a change makes a new digest, and `name` then means the new one.
        """
        body = {
            "name": name,
            "tools": [declare(item) for item in tools],
            **given(mcp=mcp, http=http, workflows=workflows, secrets=secrets),
        }
        answer = self._core.call(
            Call(method="POST", path="/v1/toolsets", body=body, repeatable=True), options
        )
        return Toolset.from_wire(answer.data, answer.request_id)

    def get(self, name: str, **options: Unpack[CallOptions]) -> Toolset:
        call = Call(method="GET", path=f"/v1/toolsets/{segment(name, 'the toolset name')}")
        answer = self._core.call(call, options)
        return Toolset.from_wire(answer.data, answer.request_id)

    def refresh(
        self, name: str, *, accept: bool | Sequence[str] = False, **options: Unpack[CallOptions]
    ) -> Any:
        """Ask the toolset's servers for their tools again: `{"changes": [...], "digest": ...}`.

        Nothing moves unless accepted: True pins every change, a list the changes of the tools that it names.
        """
        call = Call(
            method="POST",
            path=f"/v1/toolsets/{segment(name, 'the toolset name')}/refresh",
            body={"accept": accept if isinstance(accept, bool) else [*accept]},
        )
        return (self._core.call(call, options)).data

    def list(
        self, *, limit: int | None = None, after: str | None = None, **options: Unpack[CallOptions]
    ) -> Pager[Toolset]:
        def fetch(cursor: str | None) -> Page[Toolset]:
            call = Call(method="GET", path="/v1/toolsets", query={"limit": limit, "after": cursor})
            answer = self._core.call(call, options)
            items = [Toolset.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)

    def declarations(
        self,
        name: str,
        *,
        format: str = "dts",  # noqa: A002 - the API's name
        tools: Sequence[str] | None = None,
        budget: int | None = None,
        **options: Unpack[CallOptions],
    ) -> str:
        """The toolset as TypeScript: "dts" is what scripts are checked against, "prompt" is for a model's prompt.

        `tools`: only these tools or groups. `budget`: at most so many tokens of prompt; what does not fit is
        shortened, and the text says how to see the rest.
        """
        query = {"format": format, "tools": None if tools is None else ",".join(tools), "budget": budget}
        path = f"/v1/toolsets/{segment(name, 'the toolset name')}/declarations"
        return self._core.text(Call(method="GET", path=path, query=query), options)

    def search(
        self, name: str, q: str, *, limit: int | None = None, **options: Unpack[CallOptions]
    ) -> Page[FoundTool]:
        """Tools that fit a few words, the best first."""
        path = f"/v1/toolsets/{segment(name, 'the toolset name')}/search"
        answer = self._core.call(Call(method="GET", path=path, query={"q": q, "limit": limit}), options)
        found = [FoundTool.from_wire(item) for item in answer.data["data"]]
        return Page(data=found, next=None, request_id=answer.request_id, raw=answer.data)

    def delete(self, name: str, **options: Unpack[CallOptions]) -> None:
        path = f"/v1/toolsets/{segment(name, 'the toolset name')}"
        self._core.call(Call(method="DELETE", path=path), options)


class Tokens:
    def __init__(self, core: Core) -> None:
        self._core = core

    def create(
        self,
        namespace: str | None = None,
        *,
        scopes: Sequence[str] | None = None,
        ttl: Duration | None = None,
        name: str | None = None,
        narrow: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Token:
        """A namespace token for an agent; it lives 24 h unless `ttl` says otherwise ("never": until deleted).

        The secret is in this answer only, so the call is not repeated after a broken connection.
        """
        body: dict[str, Any] = {"namespace": namespace or self._core.config.namespace}
        if ttl is not None:
            body["ttl"] = None if ttl == UNLIMITED else duration_ms(ttl)
        body.update(given(scopes=scopes, name=name, narrow=narrow))
        answer = self._core.call(Call(method="POST", path="/v1/tokens", body=body), options)
        return Token.from_wire(answer.data, answer.request_id)

    def list(
        self,
        namespace: str | None = None,
        *,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Pager[Token]:
        query = {"namespace": namespace or self._core.config.namespace, "limit": limit}

        def fetch(cursor: str | None) -> Page[Token]:
            call = Call(method="GET", path="/v1/tokens", query={**query, "after": cursor})
            answer = self._core.call(call, options)
            items = [Token.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)

    def delete(self, token_id: str, **options: Unpack[CallOptions]) -> None:
        path = f"/v1/tokens/{segment(token_id, 'the token id')}"
        self._core.call(Call(method="DELETE", path=path), options)


class Namespaces:
    def __init__(self, core: Core) -> None:
        self._core = core

    def put(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        retention_days: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Namespace:
        """Make the namespace, or set its labels, or how long its runs are kept after their end.

        A namespace is also made by its first run.
        """
        body = given(labels=None if labels is None else dict(labels), retention_days=retention_days)
        call = Call(method="PUT", path=_namespace_path(name), body=body)
        answer = self._core.call(call, options)
        return Namespace.from_wire(answer.data, answer.request_id)

    def get(self, name: str, **options: Unpack[CallOptions]) -> Namespace:
        answer = self._core.call(Call(method="GET", path=_namespace_path(name)), options)
        return Namespace.from_wire(answer.data, answer.request_id)

    def list(
        self, *, limit: int | None = None, after: str | None = None, **options: Unpack[CallOptions]
    ) -> Pager[Namespace]:
        def fetch(cursor: str | None) -> Page[Namespace]:
            call = Call(method="GET", path="/v1/namespaces", query={"limit": limit, "after": cursor})
            answer = self._core.call(call, options)
            items = [Namespace.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)

    def delete(self, name: str, **options: Unpack[CallOptions]) -> None:
        """Delete it with all that is in it, at once and for good; runs that go on stop without a clean-up."""
        self._core.call(Call(method="DELETE", path=_namespace_path(name)), options)

    def suspend(self, name: str, **options: Unpack[CallOptions]) -> Namespace:
        """Freeze it: writes are refused, its runs stay where they are, until it is resumed."""
        return self._act(name, "suspend", options)

    def resume(self, name: str, **options: Unpack[CallOptions]) -> Namespace:
        return self._act(name, "resume", options)

    def quotas(self, name: str, **options: Unpack[CallOptions]) -> Mapping[str, Quota]:
        """What it may use, and what it uses, by the name of the quota."""
        return self._quotas(Call(method="GET", path=f"{_namespace_path(name)}/quotas"), options)

    def set_quotas(
        self, name: str, limits: Mapping[str, int | None], **options: Unpack[CallOptions]
    ) -> Mapping[str, Quota]:
        """Set limits, such as `{"active_runs": 5}`; None takes one back, and the plan's is in force."""
        call = Call(
            method="PATCH", path=f"{_namespace_path(name)}/quotas", body=dict(limits), repeatable=True
        )
        return self._quotas(call, options)

    def export(self, name: str, **options: Unpack[CallOptions]) -> str:
        """Everything of it as lines of JSON; the last one says `"type": "end"`, or the export is not whole."""
        return self._core.text(Call(method="POST", path=f"{_namespace_path(name)}/export"), options)

    def seals(self, name: str, **options: Unpack[CallOptions]) -> Sequence[Mapping[str, Any]]:
        """The chain of the seals of its runs, in order."""
        seals: list[Mapping[str, Any]] = []
        after = 0
        while True:
            call = Call(method="GET", path=f"{_namespace_path(name)}/seals", query={"after": after})
            page = (self._core.call(call, options)).data
            seals.extend(page["data"])
            if page["next"] is None:
                return seals
            after = page["next"]

    def _quotas(self, call: Call, options: CallOptions) -> Mapping[str, Quota]:
        answer = self._core.call(call, options)
        return {name: Quota.from_wire(quota, answer.request_id) for name, quota in answer.data.items()}

    def _act(self, name: str, verb: str, options: CallOptions) -> Namespace:
        call = Call(method="POST", path=f"{_namespace_path(name)}/{verb}", repeatable=True)
        answer = self._core.call(call, options)
        return Namespace.from_wire(answer.data, answer.request_id)


class Tasks:
    """Settle deferred calls from anywhere: a tool that called `ctx.defer()` keeps only its `ctx.token`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def complete(self, token: str, result: Any = None, **options: Unpack[CallOptions]) -> Settled:
        return self._settle("complete", {"token": token, "result": result}, options)

    def fail(
        self,
        token: str,
        message: str,
        *,
        code: str | None = None,
        data: Any = None,
        retryable: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> Settled:
        error = {"message": message, **given(code=code, data=data, retryable=retryable)}
        return self._settle("fail", {"token": token, "error": error}, options)

    def defer(
        self, token: str, *, expires: Duration | None = None, **options: Unpack[CallOptions]
    ) -> Settled:
        item = {"token": token} if expires is None else {"token": token, "expires": duration_ms(expires)}
        return self._settle("defer", item, options)

    def _settle(self, verb: str, item: dict[str, Any], options: CallOptions) -> Settled:
        call = Call(method="POST", path=f"/v1/tasks/{verb}", body={"items": [item]}, repeatable=True)
        answer = self._core.call(call, options)
        verdict: Settled = answer.data["results"][0]
        return verdict


def _namespace_path(name: str) -> str:
    return f"/v1/namespaces/{segment(name, 'the namespace')}"
