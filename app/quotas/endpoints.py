"""`/v1/namespaces/{name}/quotas` and `/v1/usage`."""

import datetime as dt
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from app.deps import Caller, Edge
from app.errors import invalid
from app.paging import NamespaceName
from app.responses import json_response, time_ms
from app.routing import needs, strict_router
from app.schemas import Answer, Body
from app.scripts.service import SCRIPT_BYTES_MAX
from tenancy.principals import Scope
from tenancy.quotas.service import QUOTAS, TTL_MS_MAX

router = strict_router(prefix="/v1", tags=["quotas"])
ENGINE = {"ttl_max": TTL_MS_MAX, "script_bytes_max": SCRIPT_BYTES_MAX}
"""What no quota goes beyond."""
DAYS_DEFAULT = 30
Count = Annotated[int | None, Field(description="null: the plan's.")]


class QuotasBody(Body):
    active_runs: Count = None
    runs_per_month: Count = None
    cpu_ms_per_month: Count = None
    scripts_per_month: Count = None
    ttl_max: Count = Field(default=None, description="ms; null: the plan's.")
    script_bytes_max: Count = None
    storage_bytes: Count = None


class QuotaView(Answer):
    limit: int | None = Field(description="null: none.")
    used: int | None
    source: Literal["plan", "namespace"]


class QuotasView(Answer):
    active_runs: QuotaView
    runs_per_month: QuotaView
    cpu_ms_per_month: QuotaView
    scripts_per_month: QuotaView
    ttl_max: QuotaView
    script_bytes_max: QuotaView
    storage_bytes: QuotaView


class DayView(Answer):
    date: str
    namespace: str
    runs: int
    cpu_ms: int
    calls: int
    storage_bytes: int


class UsageView(Answer):
    data: list[DayView]


@router.get("/namespaces/{name}/quotas", responses={200: {"model": QuotasView}})
@needs(Scope.MANAGE)
async def get_quotas(name: str, caller: Caller, services: Edge) -> Response:
    """What the namespace may use, and what it uses. Months are those of UTC."""
    namespace = await services.tenancy.namespace(caller, name)
    return json_response(await services.quotas.view(caller.organization, namespace.id, ENGINE))


@router.patch("/namespaces/{name}/quotas", responses={200: {"model": QuotasView}})
@needs(Scope.MANAGE)
async def change_quotas(name: str, body: QuotasBody, caller: Caller, services: Edge) -> Response:
    """Set limits of this namespace; null takes one back, and the plan's is in force."""
    await services.tenancy.put_namespace(caller, name, None)
    namespace = await services.tenancy.namespace(caller, name)
    changes: dict[str, int | None] = {
        quota: getattr(body, quota) for quota in QUOTAS if quota in body.model_fields_set
    }
    for quota, most in ENGINE.items():
        if (changes.get(quota) or 0) > most:
            raise invalid(quota, "invalid_value", f"At most {most:,}: the engine takes no more.")
    await services.quotas.change(caller.organization, namespace.id, changes)
    return json_response(await services.quotas.view(caller.organization, namespace.id, ENGINE))


@router.get("/usage", responses={200: {"model": UsageView}})
@needs(Scope.MANAGE)
async def get_usage(
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
    from_: Annotated[
        str | None, Query(alias="from", description="First day; 30 days ago.", max_length=40)
    ] = None,
    to: Annotated[
        str | None, Query(description="The day after the last one; tomorrow.", max_length=40)
    ] = None,
    by: Annotated[Literal["day"], Query(description="Only `day`.")] = "day",  # noqa: ARG001 (the contract's)
) -> Response:
    """What was used on each day of UTC, by namespace. CPU is what the sandbox measured."""
    within = None if namespace is None else (await services.tenancy.namespace(caller, namespace)).id
    today = dt.datetime.fromtimestamp(await services.runs.store.now() / 1000, dt.UTC).date()
    last = _day("to", to) or today + dt.timedelta(days=1)
    first = _day("from", from_) or last - dt.timedelta(days=DAYS_DEFAULT)
    rows = await services.quotas.usage(caller.organization, within, from_=first, to=last)
    return json_response(
        {
            "data": [
                {
                    "date": row["day"].isoformat(),
                    "namespace": row["name"],
                    "runs": row["runs"],
                    "cpu_ms": row["cpu_ms"],
                    "calls": row["calls"],
                    "storage_bytes": row["storage_bytes"],
                }
                for row in rows
            ]
        }
    )


def _day(name: str, text: str | None) -> dt.date | None:
    if text is None:
        return None
    try:
        if len(text) == len("2026-01-31"):
            return dt.date.fromisoformat(text)
        return dt.datetime.fromtimestamp(time_ms(text) / 1000, dt.UTC).date()
    except ValueError:
        raise invalid(name, "invalid_value", "A day such as 2026-01-31, or a time in ISO 8601.") from None
