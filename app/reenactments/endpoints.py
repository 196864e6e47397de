"""`/v1/scripts/test` and `/v1/runs/{run}/replay`: executed without effects."""

from typing import Any

from starlette.responses import Response

from app.body import BATCH_BODY_BYTES_MAX
from app.deps import Caller, Edge
from app.errors import HistoryUnavailable, InputRefused, ScriptRefused, UnknownToolset
from app.paging import NamespaceName, named
from app.reenactments.schemas import PendingReplay, ReplayBody, ReplayView, TestBody, TestView
from app.reenactments.service import Replayed
from app.responses import json_response
from app.routing import needs, strict_router
from tenancy.principals import Scope

router = strict_router(prefix="/v1", tags=["scripts"])
REPLAYED: dict[int | str, dict[str, Any]] = {200: {"model": ReplayView}, 202: {"model": PendingReplay}}


@router.post("/scripts/test", responses={200: {"model": TestView}})
@needs(
    Scope.SCRIPTS_CHECK,
    body_bytes_max=BATCH_BODY_BYTES_MAX,
    refusals=(ScriptRefused, InputRefused, UnknownToolset),
)
async def try_script(
    body: TestBody, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """Run a script in virtual time against mocks and a cassette: nothing is called, nothing is stored."""
    caller.require_toolset((body.toolset or "").partition("@")[0])
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    return json_response(await services.reenactments.test(caller, within, body))


@router.post("/runs/{run}/replay", responses=REPLAYED)
@needs(
    Scope.RUNS_WRITE,
    body_bytes_max=BATCH_BODY_BYTES_MAX,
    refusals=(ScriptRefused, HistoryUnavailable),
    audited="run.replay",
)
async def replay_run(
    run: str,
    caller: Caller,
    services: Edge,
    body: ReplayBody | None = None,
    namespace: NamespaceName = None,
) -> Response:
    """Execute a run again and compare it with its journal; nothing is sent. With overrides, a what-if."""
    within = await services.tenancy.namespace(caller, named(body, namespace))
    record = await services.runs.find(caller, within, run)
    return _answer(await services.reenactments.replay(record, body or ReplayBody()))


@router.get("/runs/{run}/replays/{replay}", responses=REPLAYED)
@needs(Scope.RUNS_READ, refusals=(ScriptRefused, HistoryUnavailable), audited="run.read_replay")
async def get_replay(
    run: str, replay: str, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """The result of a replay that was not ready when it was asked for; 202 while it runs."""
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.find(caller, within, run)
    return _answer(await services.reenactments.find(record, replay))


def _answer(replayed: Replayed) -> Response:
    if replayed.body is None:
        return json_response({"id": replayed.id}, 202)
    return json_response(replayed.body)
