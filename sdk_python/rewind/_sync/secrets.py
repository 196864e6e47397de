# Written by sdk_python/make_sync.py from rewind/_async/secrets.py; change that file.
# ruff: noqa: I001
# fmt: off
"""`client.secrets`: written and deleted, never read."""

from typing import Unpack

from rewind._sync.pager import Pager
from rewind._core import Call, segment
from rewind._portal import Core
from rewind._types import CallOptions, Page, Secret, given


class Secrets:
    """What toolsets refer to as `{"secret": name}`. Without `namespace`: the organization's, for all namespaces."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def put(
        self, name: str, value: str, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> Secret:
        """Write a secret, over the one of this name if there is one. Nobody is shown the value again."""
        body = {"value": value, **given(namespace=namespace)}
        answer = self._core.call(Call(method="PUT", path=_path(name), body=body), options)
        return Secret.from_wire(answer.data, answer.request_id)

    def get(self, name: str, *, namespace: str | None = None, **options: Unpack[CallOptions]) -> Secret:
        """When it was written."""
        call = Call(method="GET", path=_path(name), query={"namespace": namespace})
        answer = self._core.call(call, options)
        return Secret.from_wire(answer.data, answer.request_id)

    def list(
        self,
        *,
        namespace: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Pager[Secret]:
        def fetch(cursor: str | None) -> Page[Secret]:
            query = {"namespace": namespace, "limit": limit, "after": cursor}
            answer = self._core.call(Call(method="GET", path="/v1/secrets", query=query), options)
            items = [Secret.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)

    def delete(
        self, name: str, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> None:
        call = Call(method="DELETE", path=_path(name), query={"namespace": namespace})
        self._core.call(call, options)


def _path(name: str) -> str:
    return f"/v1/secrets/{segment(name, 'the name of the secret')}"
