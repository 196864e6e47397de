"""`/v1/webhooks` and `/v1/events`."""

from typing import Annotated, Any, Literal

import orjson
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from app.deps import Caller, Edge
from app.errors import invalid
from app.idempotency import REPLAYED, idempotency_key, request_sha256
from app.paging import LIMIT_DEFAULT, After, Limit, decode_cursor, encode_cursor
from app.responses import iso, json_response, spliced
from app.routing import needs, strict_router
from app.webhooks.schemas import (
    EVENT_TYPES,
    ROTATION_MS_DEFAULT,
    ROTATION_MS_MAX,
    DeliveryPage,
    DeliveryView,
    EventPage,
    PingView,
    RedeliverBody,
    RedeliveredView,
    RotateBody,
    WebhookBody,
    WebhookChange,
    WebhookPage,
    WebhookView,
)
from sandbox.journal.errors import QuotaExceeded
from tenancy.principals import Scope

router = strict_router(prefix="/v1", tags=["webhooks"])
Status = Annotated[Literal["pending", "delivered", "failed"] | None, Query(description="Only such ones.")]


@router.post(
    "/webhooks", status_code=201, responses={201: {"model": WebhookView}, 200: {"model": WebhookView}}
)
@needs(Scope.MANAGE, idempotent=True, refusals=(QuotaExceeded,))
async def create_webhook(request: Request, body: WebhookBody, caller: Caller, services: Edge) -> Response:
    """Register an endpoint. Its secret is shown here and never again."""
    made = await services.hooks.webhooks.create(
        caller,
        body.model_dump(),
        key=idempotency_key(request),
        request_sha256=await request_sha256(await request.json()),
    )
    if made.secret is None:
        return json_response(_webhook(made.row), headers=REPLAYED)
    return json_response({**_webhook(made.row), "secret": made.secret}, 201)


@router.get("/webhooks", responses={200: {"model": WebhookPage}})
@needs(Scope.MANAGE)
async def list_webhooks(
    caller: Caller, services: Edge, limit: Limit = LIMIT_DEFAULT, after: After = None
) -> Response:
    """Newest first."""
    found = await services.hooks.webhooks.page(caller, decode_cursor(after), limit + 1)
    return _page([_webhook(row) for row in found], limit)


@router.get("/webhooks/{webhook}", responses={200: {"model": WebhookView}})
@needs(Scope.MANAGE)
async def get_webhook(webhook: str, caller: Caller, services: Edge) -> Response:
    """An endpoint without its secret, and since when it fails, if it does."""
    return json_response(_webhook(await services.hooks.webhooks.get(caller, webhook)))


@router.patch("/webhooks/{webhook}", responses={200: {"model": WebhookView}})
@needs(Scope.MANAGE)
async def change_webhook(webhook: str, body: WebhookChange, caller: Caller, services: Edge) -> Response:
    """Change what is given; `enabled: true` switches an endpoint on again."""
    values = body.model_dump(exclude_none=True)
    enabled = values.pop("enabled", None)
    return json_response(
        _webhook(await services.hooks.webhooks.change(caller, webhook, values, enabled=enabled))
    )


@router.delete("/webhooks/{webhook}", status_code=204)
@needs(Scope.MANAGE)
async def delete_webhook(webhook: str, caller: Caller, services: Edge) -> Response:
    """Nothing is sent there any more; its deliveries go with it."""
    await services.hooks.webhooks.delete(caller, webhook)
    return Response(status_code=204)


@router.post("/webhooks/{webhook}/rotate", responses={200: {"model": WebhookView}})
@needs(Scope.MANAGE)
async def rotate_webhook(
    webhook: str, caller: Caller, services: Edge, body: RotateBody | None = None
) -> Response:
    """Make a new secret. Messages are signed with both for `overlap` (24 h when absent)."""
    overlap_ms = ROTATION_MS_DEFAULT if body is None else body.overlap
    if overlap_ms > ROTATION_MS_MAX:
        raise invalid("overlap", "invalid_value", "At most 30 days.")
    made = await services.hooks.webhooks.rotate(caller, webhook, overlap_ms)
    return json_response({**_webhook(made.row), "secret": made.secret})


@router.post("/webhooks/{webhook}/ping", status_code=202, responses={202: {"model": PingView}})
@needs(Scope.MANAGE, audited="webhook.ping")
async def ping_webhook(webhook: str, caller: Caller, services: Edge) -> Response:
    """Send an event of type `ping` to this endpoint; its delivery is listed as any other."""
    return json_response({"event_id": await services.hooks.webhooks.ping(caller, webhook)}, 202)


@router.get("/webhooks/{webhook}/deliveries", responses={200: {"model": DeliveryPage}})
@needs(Scope.MANAGE, audited="webhook.read_deliveries")
async def list_deliveries(
    webhook: str,
    caller: Caller,
    services: Edge,
    status: Status = None,
    limit: Limit = LIMIT_DEFAULT,
    after: After = None,
) -> Response:
    """Newest first, each with its last attempt."""
    found = await services.hooks.webhooks.delivery_page(
        caller, webhook, status, decode_cursor(after), limit + 1
    )
    return _page([_delivery(row) for row in found], limit)


@router.get("/webhooks/{webhook}/deliveries/{delivery}", responses={200: {"model": DeliveryView}})
@needs(Scope.MANAGE, audited="webhook.read_deliveries")
async def get_delivery(webhook: str, delivery: str, caller: Caller, services: Edge) -> Response:
    """One delivery, with what the endpoint answered to its last attempt."""
    return json_response(_delivery(await services.hooks.webhooks.delivery(caller, webhook, delivery)))


@router.post("/webhooks/{webhook}/deliveries/{delivery}/redeliver", responses={200: {"model": DeliveryView}})
@needs(Scope.MANAGE, audited="webhook.redeliver")
async def redeliver(webhook: str, delivery: str, caller: Caller, services: Edge) -> Response:
    """Send it again, now, whatever became of it."""
    return json_response(_delivery(await services.hooks.webhooks.redeliver(caller, webhook, delivery)))


@router.post("/webhooks/{webhook}/redeliver", responses={200: {"model": RedeliveredView}})
@needs(Scope.MANAGE, audited="webhook.redeliver")
async def redeliver_matching(
    webhook: str, caller: Caller, services: Edge, body: RedeliverBody | None = None
) -> Response:
    """Send those again that the filter fits (the failed ones when none is given), up to 10,000 at once."""
    wanted = RedeliverBody() if body is None else body
    return json_response(
        {"redelivered": await services.hooks.webhooks.redeliver_matching(caller, webhook, wanted)}
    )


@router.get("/events", responses={200: {"model": EventPage}})
@needs(Scope.MANAGE, audited="event.list")
async def list_events(
    caller: Caller,
    services: Edge,
    kind: Annotated[str | None, Query(alias="type", description="Only of this type.", max_length=64)] = None,
    namespace: Annotated[str | None, Query(description="Only of this namespace.", max_length=200)] = None,
    limit: Limit = LIMIT_DEFAULT,
    after: After = None,
) -> Response:
    """What webhooks were told, of 30 days, newest first."""
    if kind is not None and kind not in EVENT_TYPES:
        raise invalid("type", "invalid_value", f"One of {', '.join(EVENT_TYPES)}.")
    within = None if namespace is None else (await services.tenancy.namespace(caller, namespace)).id
    found = await services.hooks.webhooks.events(
        caller, type_=kind, namespace=within, before=decode_cursor(after), limit=limit + 1
    )
    page = found[:limit]
    return Response(
        orjson.dumps(
            {
                "data": [spliced(message) for _, message in page],
                "next": encode_cursor(page[-1][0]) if len(found) > limit else None,
            }
        ),
        media_type="application/json",
    )


def _page(found: list[dict[str, Any]], limit: int) -> Response:
    page = found[:limit]
    return json_response(
        {"data": page, "next": encode_cursor(page[-1]["id"]) if len(found) > limit else None}
    )


def _webhook(row: Any) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "url": row["url"],
        "events": list(row["events"]),
        "namespaces": list(row["namespaces"]),
        "labels": orjson.loads(row["labels"]),
        "enabled": row["disabled_at"] is None,
        "disabled_reason": row["disabled_reason"],
        "failing_since": iso(row["failing_since"]),
        "created_at": iso(row["created_at"]),
    }


def _delivery(row: Any) -> dict[str, Any]:
    answered = row["response_code"] is not None
    return {
        "id": str(row["id"]),
        "event_id": str(row["event_id"]),
        "type": row["type"],
        "attempt": row["attempt"],
        "status": row["status"],
        "response": {"code": row["response_code"], "body": row["response_body"]} if answered else None,
        "error": row["error"],
        "duration_ms": row["duration_ms"],
        "at": iso(row["at"]),
        "next_at": iso(row["next_at"]),
    }
