"""`client.secrets`: written and deleted, never read."""

from typing import Unpack

from rewind._async.pager import AsyncPager
from rewind._core import AsyncCore, Call, segment
from rewind._types import CallOptions, Page, Secret, given


class AsyncSecrets:
    """What toolsets refer to as `{"secret": name}`. Without `namespace`: the organization's, for all namespaces."""

    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def put(
        self, name: str, value: str, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> Secret:
        """Write a secret, over the one of this name if there is one. Nobody is shown the value again."""
        body = {"value": value, **given(namespace=namespace)}
        answer = await self._core.call(Call(method="PUT", path=_path(name), body=body), options)
        return Secret.from_wire(answer.data, answer.request_id)

    async def get(self, name: str, *, namespace: str | None = None, **options: Unpack[CallOptions]) -> Secret:
        """When it was written."""
        call = Call(method="GET", path=_path(name), query={"namespace": namespace})
        answer = await self._core.call(call, options)
        return Secret.from_wire(answer.data, answer.request_id)

    def list(
        self,
        *,
        namespace: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncPager[Secret]:
        async def fetch(cursor: str | None) -> Page[Secret]:
            query = {"namespace": namespace, "limit": limit, "after": cursor}
            answer = await self._core.call(Call(method="GET", path="/v1/secrets", query=query), options)
            items = [Secret.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return AsyncPager(fetch, after)

    async def delete(
        self, name: str, *, namespace: str | None = None, **options: Unpack[CallOptions]
    ) -> None:
        call = Call(method="DELETE", path=_path(name), query={"namespace": namespace})
        await self._core.call(call, options)


def _path(name: str) -> str:
    return f"/v1/secrets/{segment(name, 'the name of the secret')}"
