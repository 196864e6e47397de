# Written by sdk_python/make_sync.py from rewind/_async/webhooks.py; change that file.
# ruff: noqa: I001
# fmt: off
"""`client.webhooks`: where Rewind tells what happens, and what it has told."""

from collections.abc import Mapping, Sequence
from typing import Unpack

from rewind import webhooks
from rewind._sync.pager import Pager
from rewind._core import Call, segment
from rewind._portal import Core
from rewind._types import CallOptions, Delivery, Duration, Page, Webhook, duration_ms, given


class Webhooks:
    """Needs an API key. `verify` needs nothing and is for the receiver: see `rewind.webhooks`."""

    verify = staticmethod(webhooks.verify)

    def __init__(self, core: Core) -> None:
        self._core = core

    def create(
        self,
        url: str,
        *,
        events: Sequence[str] | None = None,
        namespaces: Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Webhook:
        """Register an endpoint. `secret` stands in this answer and in no later one."""
        body = {"url": url, **given(events=events, namespaces=namespaces, labels=labels)}
        return self._one(Call(method="POST", path="/v1/webhooks", body=body), options)

    def get(self, webhook: str, **options: Unpack[CallOptions]) -> Webhook:
        return self._one(Call(method="GET", path=_path(webhook)), options)

    def list(
        self, *, limit: int | None = None, after: str | None = None, **options: Unpack[CallOptions]
    ) -> Pager[Webhook]:
        def fetch(cursor: str | None) -> Page[Webhook]:
            call = Call(method="GET", path="/v1/webhooks", query={"limit": limit, "after": cursor})
            answer = self._core.call(call, options)
            items = [Webhook.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)

    def update(
        self,
        webhook: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        namespaces: Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        enabled: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> Webhook:
        """Change what is given; `enabled=True` switches on again what was switched off."""
        body = given(url=url, events=events, namespaces=namespaces, labels=labels, enabled=enabled)
        return self._one(Call(method="PATCH", path=_path(webhook), body=body), options)

    def delete(self, webhook: str, **options: Unpack[CallOptions]) -> None:
        self._core.call(Call(method="DELETE", path=_path(webhook)), options)

    def rotate(
        self, webhook: str, *, overlap: Duration | None = None, **options: Unpack[CallOptions]
    ) -> Webhook:
        """A new secret; messages are signed with both for `overlap` (24 h unless given)."""
        body = given(overlap=None if overlap is None else duration_ms(overlap))
        return self._one(Call(method="POST", path=f"{_path(webhook)}/rotate", body=body), options)

    def ping(self, webhook: str, **options: Unpack[CallOptions]) -> str:
        """Send a `ping` there; the id of its event."""
        answer = self._core.call(Call(method="POST", path=f"{_path(webhook)}/ping"), options)
        return str(answer.data["event_id"])

    def deliveries(
        self,
        webhook: str,
        *,
        status: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Pager[Delivery]:
        """Newest first, each with its last attempt."""

        def fetch(cursor: str | None) -> Page[Delivery]:
            query = {"status": status, "limit": limit, "after": cursor}
            call = Call(method="GET", path=f"{_path(webhook)}/deliveries", query=query)
            answer = self._core.call(call, options)
            items = [Delivery.from_wire(item) for item in answer.data["data"]]
            return Page(
                data=items, next=answer.data.get("next"), request_id=answer.request_id, raw=answer.data
            )

        return Pager(fetch, after)

    def redeliver(self, webhook: str, delivery: str, **options: Unpack[CallOptions]) -> Delivery:
        """Send one again, now."""
        path = f"{_path(webhook)}/deliveries/{segment(delivery, 'the id of the delivery')}/redeliver"
        answer = self._core.call(Call(method="POST", path=path), options)
        return Delivery.from_wire(answer.data, answer.request_id)

    def _one(self, call: Call, options: CallOptions) -> Webhook:
        answer = self._core.call(call, options)
        return Webhook.from_wire(answer.data, answer.request_id)


def _path(webhook: str) -> str:
    return f"/v1/webhooks/{segment(webhook, 'the id of the webhook')}"
