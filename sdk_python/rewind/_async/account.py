"""`client.keys`, `client.usage`, `client.audit`: the organization's own, for API keys only."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Unpack

from rewind._account_types import AuditEntry, DayUsage, Key
from rewind._async.pager import AsyncPager
from rewind._core import AsyncCore, Call, segment
from rewind._types import CallOptions, Duration, Page, duration_ms, given


class AsyncKeys:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def create(
        self,
        name: str | None = None,
        *,
        scopes: Sequence[str] | None = None,
        expires_at: datetime | str | None = None,
        allow_ips: Sequence[str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Key:
        """Make a key; it may do everything, from everywhere, for ever, unless said otherwise.

        The secret is in this answer only, so the call is not repeated after a broken connection.
        """
        body = given(name=name, scopes=scopes, expires_at=_time(expires_at), allow_ips=allow_ips)
        return await self._one(Call(method="POST", path="/v1/keys", body=body), options)

    async def get(self, key_id: str, **options: Unpack[CallOptions]) -> Key:
        return await self._one(Call(method="GET", path=_key_path(key_id)), options)

    def list(
        self, *, limit: int | None = None, after: str | None = None, **options: Unpack[CallOptions]
    ) -> AsyncPager[Key]:
        async def fetch(cursor: str | None) -> Page[Key]:
            call = Call(method="GET", path="/v1/keys", query={"limit": limit, "after": cursor})
            answer = await self._core.call(call, options)
            items = [Key.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return AsyncPager(fetch, after)

    async def rotate(
        self, key_id: str, *, overlap: Duration | None = None, **options: Unpack[CallOptions]
    ) -> Key:
        """A new secret under the same id; the one before it works for `overlap` longer."""
        body = {} if overlap is None else {"overlap": duration_ms(overlap)}
        return await self._one(Call(method="POST", path=f"{_key_path(key_id)}/rotate", body=body), options)

    async def delete(self, key_id: str, **options: Unpack[CallOptions]) -> None:
        """Revoke it: the next request made with it is refused."""
        await self._core.call(Call(method="DELETE", path=_key_path(key_id)), options)

    async def _one(self, call: Call, options: CallOptions) -> Key:
        answer = await self._core.call(call, options)
        return Key.from_wire(answer.data, answer.request_id)


class AsyncUsage:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    async def get(
        self,
        *,
        namespace: str | None = None,
        from_: date | str | None = None,
        to: date | str | None = None,
        **options: Unpack[CallOptions],
    ) -> Sequence[DayUsage]:
        """What was used on each day of UTC from `from_` (30 days ago) until before `to` (tomorrow).

        Without `namespace` every namespace of the organization is in it, also where the client has one of its own.
        """
        query = {"namespace": namespace, "from": _time(from_), "to": _time(to)}
        answer = await self._core.call(Call(method="GET", path="/v1/usage", query=query), options)
        return [DayUsage.from_wire(item, answer.request_id) for item in answer.data["data"]]


class AsyncAudit:
    def __init__(self, core: AsyncCore) -> None:
        self._core = core

    def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncPager[AuditEntry]:
        """The audit log, newest first. `action="key.*"` and `target="run:*"` stand for all of that kind."""
        wanted: Mapping[str, Any] = {
            "actor": actor,
            "action": action,
            "target": target,
            "from": _time(from_),
            "to": _time(to),
            "limit": limit,
        }

        async def fetch(cursor: str | None) -> Page[AuditEntry]:
            call = Call(method="GET", path="/v1/audit", query={**wanted, "after": cursor})
            answer = await self._core.call(call, options)
            items = [AuditEntry.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return AsyncPager(fetch, after)


def _key_path(key_id: str) -> str:
    return f"/v1/keys/{segment(key_id, 'the key id')}"


def _time(value: date | str | None) -> str | None:
    return value.isoformat() if isinstance(value, date) else value
