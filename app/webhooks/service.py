"""Webhook endpoints of an organization, what they were sent, and the events themselves."""

import contextlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from app.approvals.service import Approvals
from app.dispatcher.egress import Egress
from app.errors import invalid
from app.paging import time_parameter
from app.responses import iso
from app.runs.service import Runs
from app.webhooks.outbox import Sealing, place_of
from app.webhooks.repository import WebhookRepository
from app.webhooks.schemas import RedeliverBody
from app.webhooks.sender import answer_place, secret_place
from app.webhooks.signature import new_secret
from sandbox.journal.errors import QuotaExceeded
from sandbox.journal.ids import NamespaceId, OrganizationId
from sandbox.store.postgres.keys import DataErased
from sandbox.store.postgres.outbox import Event
from tenancy.errors import IdempotencyConflict, NotFound
from tenancy.ids import parse_id
from tenancy.principals import Principal
from tenancy.secrets import SecretBox
from tenancy.service import Tenancy

ENDPOINTS_MAX = 50
"""Of one organization."""


@dataclass(frozen=True, slots=True)
class Made:
    """An endpoint and, only where it was made now, its secret."""

    row: Any
    secret: str | None


class Webhooks:
    def __init__(
        self,
        repository: WebhookRepository,
        *,
        egress: Egress,
        box: SecretBox,
        sealing: Sealing,
    ) -> None:
        self._repository = repository
        self._egress = egress
        self._box = box
        self._sealing = sealing

    async def create(
        self, principal: Principal, values: dict[str, Any], *, key: str | None, request_sha256: bytes
    ) -> Made:
        """Errors: ApiError for a URL that can't be used, QuotaExceeded, IdempotencyConflict."""
        self._check_url(values["url"])
        secret = new_secret()
        row, before = await self._repository.create(
            principal.organization,
            values,
            lambda endpoint: self._sealed(principal.organization, endpoint, secret),
            endpoints_max=ENDPOINTS_MAX,
            key=key,
            request_sha256=request_sha256,
        )
        if row is not None:
            return Made(row, secret)
        if before is None:
            message = f"An organization has at most {ENDPOINTS_MAX} webhook endpoints: delete one first."
            raise QuotaExceeded(
                message,
                extra={"quota": "webhooks", "limit": ENDPOINTS_MAX, "used": ENDPOINTS_MAX, "resets_at": None},
            )
        if before["request_sha256"] != request_sha256:
            raise IdempotencyConflict("This Idempotency-Key was used for another webhook endpoint.")
        return Made(await self.get(principal, before["object_id"]), None)

    async def get(self, principal: Principal, endpoint: str) -> Any:
        id_ = parse_id(endpoint)
        row = None if id_ is None else await self._repository.get(principal.organization, id_)
        if row is None:
            raise NotFound("There is no such webhook endpoint.")
        return row

    async def page(self, principal: Principal, before: str | None, limit: int) -> list[Any]:
        return await self._repository.page(principal.organization, before, limit)

    async def change(
        self, principal: Principal, endpoint: str, values: dict[str, Any], *, enabled: bool | None
    ) -> Any:
        if values.get("url") is not None:
            self._check_url(values["url"])
        id_ = str((await self.get(principal, endpoint))["id"])
        row = await self._repository.change(principal.organization, id_, values, enabled=enabled)
        if row is None:
            raise NotFound("There is no such webhook endpoint.")
        return row

    async def rotate(self, principal: Principal, endpoint: str, overlap_ms: int) -> Made:
        """A new secret; the one before signs too for so long."""
        id_, secret = str((await self.get(principal, endpoint))["id"]), new_secret()
        sealed = self._sealed(principal.organization, id_, secret)
        row = await self._repository.rotate(principal.organization, id_, sealed, overlap_ms)
        if row is None:
            raise NotFound("There is no such webhook endpoint.")
        return Made(row, secret)

    async def delete(self, principal: Principal, endpoint: str) -> None:
        id_ = parse_id(endpoint)
        if id_ is None or not await self._repository.delete(principal.organization, id_):
            raise NotFound("There is no such webhook endpoint.")

    async def ping(self, principal: Principal, endpoint: str) -> str:
        """Send a `ping` to this endpoint, soon; the event's id."""
        row = await self.get(principal, endpoint)
        return await self._repository.emit_ping(principal.organization, str(row["id"]))

    # -- Deliveries

    async def delivery(self, principal: Principal, endpoint: str, delivery: str) -> Any:
        row = await self.get(principal, endpoint)
        id_ = parse_id(delivery)
        found = None
        if id_ is not None:
            found = await self._repository.delivery(principal.organization, str(row["id"]), id_)
        if found is None:
            raise NotFound("There is no such delivery.")
        return await self._shown(found)

    async def delivery_page(
        self, principal: Principal, endpoint: str, status: str | None, before: str | None, limit: int
    ) -> list[Any]:
        row = await self.get(principal, endpoint)
        found = await self._repository.delivery_page(
            principal.organization, str(row["id"]), status, before, limit
        )
        return [await self._shown(delivery) for delivery in found]

    async def _shown(self, delivery: Any) -> dict[str, Any]:
        """With the answer opened; one of an erased namespace is gone with it."""
        sealed, answer = delivery["response_body"], None
        if sealed is not None:
            namespace, place = NamespaceId(str(delivery["namespace_id"])), answer_place(str(delivery["id"]))
            with contextlib.suppress(DataErased):
                answer = (await self._sealing.open(namespace, sealed, place)).decode()
        return {**delivery, "response_body": answer}

    async def redeliver(self, principal: Principal, endpoint: str, delivery: str) -> Any:
        """Make one delivery again, now; one that is under way is left alone."""
        found = await self.delivery(principal, endpoint, delivery)
        id_ = str((await self.get(principal, endpoint))["id"])
        await self._repository.redeliver(principal.organization, id_, [str(found["id"])])
        return await self.delivery(principal, endpoint, delivery)

    async def redeliver_matching(self, principal: Principal, endpoint: str, wanted: RedeliverBody) -> int:
        """Make those again that the filter fits; how many."""
        id_ = str((await self.get(principal, endpoint))["id"])
        found = await self._repository.matching(
            principal.organization,
            id_,
            status=wanted.status,
            type_=wanted.type,
            from_=time_parameter("from", wanted.from_),
            to=time_parameter("to", wanted.to),
        )
        return await self._repository.redeliver(principal.organization, id_, found)

    # -- Events

    async def events(
        self,
        principal: Principal,
        *,
        type_: str | None,
        namespace: NamespaceId | None,
        before: str | None,
        limit: int,
    ) -> list[tuple[str, bytes]]:
        """(id, message) of events, newest first."""
        rows = await self._repository.events(
            principal.organization, type_=type_, namespace=namespace, before=before, limit=limit
        )
        return [
            (
                str(row["id"]),
                await self._sealing.open(
                    NamespaceId(str(row["namespace_id"])), row["body"], place_of(str(row["id"]))
                ),
            )
            for row in rows
        ]

    def _sealed(self, organization: OrganizationId, endpoint: str, secret: str) -> bytes:
        return self._box.seal(secret.encode(), secret_place(organization, endpoint))

    def _check_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host = parts.hostname if parts.port != 0 else None  # a port that is none raises
        except ValueError:
            host, parts = None, urlsplit("")
        if not host or parts.scheme not in {"http", "https"} or parts.fragment:
            raise invalid("url", "invalid_value", "An absolute https URL without a fragment.")
        if parts.username is not None or parts.password is not None:
            raise invalid("url", "invalid_value", "A URL without user and password: deliveries are signed.")
        if self._egress.lists(host):
            return
        if parts.scheme != "https":
            raise invalid("url", "invalid_value", "The URL must begin with https://.")
        if not self._egress.may_be_public(host):
            raise invalid(
                "url", "invalid_value", f"{host[:100]} is not on the public internet: nothing is sent there."
            )


class RunEvents:
    """What messages are made of: the Run and the approval asked for, as the API shows them, or the quota that is used up."""

    def __init__(self, runs: Runs, approvals: Approvals, tenancy: Tenancy) -> None:
        self._runs = runs
        self._approvals = approvals
        self._tenancy = tenancy

    async def data(self, event: Event) -> tuple[dict[str, Any], str, dict[str, str]]:
        """Errors: NotFound, Unavailable."""
        if event.detail is not None:
            return await self._quota(event, event.detail)
        if event.run is None:
            raise NotFound(f"An event of type {event.type} tells of a run.")
        record = await self._runs.record(event.namespace, event.run)
        view = await self._runs.view(record)
        data = {"run": view}
        if event.call is not None:
            data["approval"] = await self._approvals.requested(event.namespace, event.run, event.call)
        return data, record.namespace_name, record.labels

    async def _quota(
        self, event: Event, refusal: dict[str, Any]
    ) -> tuple[dict[str, Any], str, dict[str, str]]:
        name = await self._tenancy.repository.name_of(event.namespace)
        if name is None:
            raise NotFound("The namespace is gone.")
        resets_at = refusal.get("resets_at")
        told = {
            "namespace": name,
            "quota": refusal["quota"],
            "limit": refusal["limit"],
            "used": refusal["used"],
            "resets_at": resets_at if isinstance(resets_at, str) else iso(resets_at),
        }
        return told, name, {}
