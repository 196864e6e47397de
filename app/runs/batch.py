"""`POST /v1/runs/batch`: many starts in one exchange, each answered by itself."""

import asyncio
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from app.body import BATCH_BODY_BYTES_MAX
from app.deps import Caller, Edge, Services
from app.errors import render
from app.idempotency import REPLAYED, idempotency_key, request_sha256
from app.paging import NamespaceName, named
from app.responses import json_response, spliced
from app.routing import needs, strict_router
from app.runs.schemas import RunView, StartRunBody
from app.runs.service import BATCH_ROUTE, require_start
from app.schemas import Answer, NamespacedBody
from tenancy.principals import Principal, Scope

router = strict_router(prefix="/v1/runs", tags=["runs"])

ITEMS_MAX = 100


class BatchBody(NamespacedBody):
    items: list[Any] = Field(
        min_length=1,
        max_length=ITEMS_MAX,
        description="Each is the body of `POST /v1/runs`.",
        json_schema_extra={"items": {"$ref": "#/components/schemas/StartRunBody"}},
    )


class BatchItem(Answer):
    ok: bool
    run: RunView | None = None
    problem: dict[str, Any] | None = Field(default=None, description="A problem document.")


class BatchView(Answer):
    results: list[BatchItem] = Field(description="In the order of the items.")


@router.post("/batch", responses={200: {"model": BatchView}})
@needs(Scope.RUNS_WRITE, body_bytes_max=BATCH_BODY_BYTES_MAX, idempotent=True, audited="run.start")
async def start_runs(
    request: Request, body: BatchBody, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """Start up to 100 runs. One that is refused keeps no other from starting.

    With an Idempotency-Key, the same request again answers the same runs, and tries again what was refused.
    """
    key = idempotency_key(request)
    sha256 = await request_sha256(await request.json(), without=("namespace",))
    starter = _Starter(request, caller, services, named(body, namespace), key, sha256)
    if key is not None:
        await services.runs.reserve_batch(caller, key, sha256)
    results = await asyncio.gather(*(starter.start(index, item) for index, item in enumerate(body.items)))
    replayed = key is not None and all(result.get("replayed") for result in results)
    for result in results:
        result.pop("replayed", None)
    return json_response({"results": results}, headers=REPLAYED if replayed else None)


class _Starter:
    def __init__(
        self,
        request: Request,
        caller: Principal,
        services: Services,
        namespace: str | None,
        key: str | None,
        sha256: bytes,
    ) -> None:
        self._request = request
        self._caller = caller
        self._services = services
        self._namespace = namespace
        self._key = key
        self._sha256 = sha256

    async def start(self, index: int, item: Any) -> dict[str, Any]:
        """The run, or the problem document that the start alone would have been answered with."""
        try:
            return await self._start(index, item)
        except ValidationError as error:
            errors = [{**found, "loc": ("body", *found["loc"])} for found in error.errors()]
            refusal: Exception = RequestValidationError(errors)
        except Exception as error:  # also of a fault: the other items were started and are answered
            refusal = error
        return {"ok": False, "problem": spliced(bytes(render(refusal, self._request).body))}

    async def _start(self, index: int, item: Any) -> dict[str, Any]:
        body = StartRunBody.model_validate(item)
        require_start(self._caller, body)
        services = self._services
        within = await services.tenancy.namespace(self._caller, named(body, self._namespace), write=True)
        started = await services.runs.start(
            self._caller,
            within,
            body,
            route=BATCH_ROUTE,
            key=None if self._key is None else f"{index}:{self._key}",
            request_sha256=self._sha256,
        )
        record = await services.runs.wait(within.id, started.run, body.wait, body.until)
        return {"ok": True, "run": await services.runs.view(record), "replayed": started.replayed}
