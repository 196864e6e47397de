"""Builds the control plane's application from its edges, and nothing else."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.approvals.endpoints import router as approvals_router
from app.approvals.service import Approvals
from app.audit.endpoints import router as audit_router
from app.audit.repository import AuditRepository
from app.bulk.endpoints import router as bulk_router
from app.bulk.service import Bulk
from app.deps import Services
from app.dispatcher.calls import CallMaker
from app.dispatcher.children import ChildEnds, ChildStarter
from app.dispatcher.egress import Egress
from app.dispatcher.http_tool import HttpTool
from app.dispatcher.mcp import Servers
from app.errors import problem, render
from app.hardening import Exposure, Hardened
from app.health import Health, text_of
from app.keeping.endpoints import router as keeping_router
from app.keeping.repository import KeepingRepository
from app.keeping.service import Keeping
from app.keys.endpoints import router as keys_router
from app.llms import LLMS_TXT
from app.namespaces.endpoints import router as namespaces_router
from app.namespaces.repository import NamespaceRepository
from app.namespaces.service import Namespaces
from app.openapi import openapi_of
from app.pages import pages_of
from app.pages_settings import PagesSettings
from app.quarantine.endpoints import router as quarantine_router
from app.quarantine.service import Quarantine
from app.quotas.endpoints import router as quotas_router
from app.rates import Rates
from app.reenactments.endpoints import router as reenactments_router
from app.reenactments.repository import ReplayRepository
from app.reenactments.service import Reenactments
from app.reference import reference_of
from app.responses import iso, json_response
from app.runs.batch import router as batch_router
from app.runs.endpoints import router as runs_router
from app.runs.events import router as events_router
from app.runs.fork_endpoints import router as forks_router
from app.runs.forks import Forks
from app.runs.live import LiveJournals
from app.runs.repository import RunRepository
from app.runs.service import Runs
from app.scheduler.seals import Sealer
from app.scripts.endpoints import router as scripts_router
from app.scripts.repository import ScriptRepository
from app.scripts.service import Scripts
from app.secrets.endpoints import router as secrets_router
from app.signals.repository import SignalRepository
from app.signals.service import Signals
from app.tasks.claims import Claims
from app.tasks.endpoints import routes as task_routes
from app.tasks.leases import Leases
from app.tasks.repository import TaskRepository
from app.tasks.service import Tasks
from app.tenants.endpoints import router as tenants_router
from app.toolsets.endpoints import router as toolsets_router
from app.toolsets.repository import ToolsetRepository
from app.toolsets.servers import ToolServers
from app.toolsets.service import Toolsets
from app.values import Blobs, Values
from app.webhooks.endpoints import router as webhooks_router
from app.webhooks.hooks import Hooks, hooks_of
from app.webhooks.outbox import KeySealing
from app.webhooks.service import RunEvents
from app.workflows.endpoints import router as workflows_router
from app.workflows.repository import WorkflowRepository
from app.workflows.service import Workflows
from sandbox.compiler.client import Requests, SandboxClient
from sandbox.config import build_version
from sandbox.journal.canonical import CanonicalError
from sandbox.journal.errors import ApiError, Unavailable
from sandbox.journal.ids import Epoch
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.reach import NOTHING, TenantPool, reaching
from sandbox.store.postgres.retention import Retention
from sandbox.store.postgres.values import RecordedBlobs
from sandbox.store.wakeups import Wakeups
from tenancy.keys.service import Keys
from tenancy.quotas.service import Quotas
from tenancy.repository import SecretRepository, TenancyRepository
from tenancy.secrets import SecretBox, Secrets
from tenancy.service import Authenticator, Tenancy

SECURITY_TXT_MS = 180 * 86_400_000


def build_services(
    *,
    store: PostgresEdge,
    retention: Retention,
    engine: AsyncEngine,
    requests: Requests,
    wakeups: Wakeups,
    blobs: Blobs,
    box: SecretBox,
    servers: Servers,
    egress: Egress,
    people: PagesSettings,
    rates: Rates,
    epoch: Epoch,
    stop: asyncio.Event,
) -> Services:
    """Wire the edges. New runs get `epoch`; when `stop` is set, parked requests are answered."""
    pool: asyncpg.Pool | TenantPool = store.pool
    repository = TenancyRepository(pool, engine)
    authenticator = Authenticator(repository)
    tenancy = Tenancy(repository, authenticator)
    keys, quotas = Keys(pool, authenticator), Quotas(pool)
    secrets_ = Secrets(SecretRepository(pool), box)
    toolsets = _toolsets(pool, servers, secrets_, tenancy, box)
    values = Values(RecordedBlobs(pool, blobs, store.keys))
    journals, sandbox = RunRepository(pool, store.keys), SandboxClient(requests)
    scripts = Scripts(store, ScriptRepository(pool), sandbox, quotas, epoch)
    workflows = Workflows(WorkflowRepository(pool), scripts, toolsets, sandbox, epoch)
    forks = _forks(store, journals, scripts, sandbox, quotas, values)
    runs = _runs(store, journals, scripts, toolsets, workflows, quotas, values, wakeups, epoch, stop)
    approvals = Approvals(store=store, journals=journals, values=values, tenancy=tenancy)
    return Services(
        authenticator=authenticator,
        tenancy=tenancy,
        audit=AuditRepository(pool),
        secrets=secrets_,
        keys=keys,
        pages=pages_of(pool, keys=keys, box=box, egress=egress, settings=people),
        quotas=quotas,
        rates=rates,
        toolsets=toolsets,
        scripts=scripts,
        workflows=workflows,
        runs=runs,
        reenactments=_reenactments(store, sandbox, scripts, toolsets, epoch),
        quarantine=Quarantine(store),
        forks=forks,
        sealer=Sealer(store),
        keeping=Keeping(store, KeepingRepository(retention, store.keys), Sealer(store)),
        bulk=Bulk(store),
        namespaces=Namespaces(NamespaceRepository(pool), tenancy, store),
        approvals=approvals,
        live=LiveJournals(store, journals, wakeups, stop),
        signals=Signals(store, values, SignalRepository(pool)),
        tasks=_tasks(store, toolsets, tenancy, values, wakeups, stop),
        call_maker=_call_maker(store, servers, HttpTool(egress), values, scripts, toolsets, workflows, epoch),
        children=ChildEnds(store),
        hooks=_hooks(store, RunEvents(runs, approvals, tenancy), egress, box),
        health=Health(pool, epoch),
    )


def _forks(
    store: PostgresEdge,
    journals: RunRepository,
    scripts: Scripts,
    sandbox: SandboxClient,
    quotas: Quotas,
    values: Values,
) -> Forks:
    return Forks(
        store=store, repository=journals, scripts=scripts, sandbox=sandbox, quotas=quotas, values=values
    )


def _runs(
    store: PostgresEdge,
    journals: RunRepository,
    scripts: Scripts,
    toolsets: Toolsets,
    workflows: Workflows,
    quotas: Quotas,
    values: Values,
    wakeups: Wakeups,
    epoch: Epoch,
    stop: asyncio.Event,
) -> Runs:
    return Runs(
        store=store,
        repository=journals,
        scripts=scripts,
        toolsets=toolsets,
        workflows=workflows,
        quotas=quotas,
        values=values,
        wakeups=wakeups,
        epoch=epoch,
        stop=stop,
    )


def _hooks(store: PostgresEdge, told: RunEvents, egress: Egress, box: SecretBox) -> Hooks:
    return hooks_of(store.pool, told=told, egress=egress, box=box, sealing=KeySealing(store.keys))


def _toolsets(
    pool: asyncpg.Pool, servers: Servers, secrets_: Secrets, tenancy: Tenancy, box: SecretBox
) -> Toolsets:
    pinned = ToolsetRepository(pool)
    asked = ToolServers(repository=pinned, servers=servers, secrets=secrets_, tenancy=tenancy, box=box)
    return Toolsets(pinned, asked, WorkflowRepository(pool))


def _call_maker(
    store: PostgresEdge,
    servers: Servers,
    http: HttpTool,
    values: Values,
    scripts: Scripts,
    toolsets: Toolsets,
    workflows: Workflows,
    epoch: Epoch,
) -> CallMaker:
    starter = ChildStarter(store=store, scripts=scripts, workflows=workflows, values=values, epoch=epoch)
    return CallMaker(
        store=store, toolsets=toolsets, servers=servers, http=http, values=values, children=starter
    )


def _reenactments(
    store: PostgresEdge, sandbox: SandboxClient, scripts: Scripts, toolsets: Toolsets, epoch: Epoch
) -> Reenactments:
    return Reenactments(
        sandbox=sandbox,
        scripts=scripts,
        toolsets=toolsets,
        repository=ReplayRepository(store.pool, store.keys),
        epoch=epoch,
    )


def _tasks(
    store: PostgresEdge,
    toolsets: Toolsets,
    tenancy: Tenancy,
    values: Values,
    wakeups: Wakeups,
    stop: asyncio.Event,
) -> Tasks:
    repository = TaskRepository(store.pool)
    leases = Leases(store, repository, toolsets)
    claims = Claims(
        store=store,
        leases=leases,
        toolsets=toolsets,
        tenancy=tenancy,
        values=values,
        wakeups=wakeups,
        stop=stop,
    )
    return Tasks(
        store=store, repository=repository, leases=leases, claims=claims, tenancy=tenancy, values=values
    )


def create_app(
    services: Services, pages: Sequence[BaseRoute] = (), exposure: Exposure | None = None
) -> FastAPI:
    exposed = exposure or Exposure()
    app = FastAPI(
        title="Rewind",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    # Routes are tried in order: those of every step come first.
    app.router.routes[:0] = task_routes
    for router in (
        quotas_router,
        keys_router,
        runs_router,
        batch_router,
        bulk_router,
        forks_router,
        approvals_router,
        quarantine_router,
        keeping_router,
        events_router,
        scripts_router,
        reenactments_router,
        webhooks_router,
        toolsets_router,
        workflows_router,
        secrets_router,
        tenants_router,
        namespaces_router,
        audit_router,
    ):
        app.router.routes.extend(router.routes)
    app.openapi = openapi_of(app, build_version())  # type: ignore[method-assign]
    _add_root_routes(app, exposed)
    app.router.routes.extend(pages)
    handled: Mapping[type[Exception], Any] = {
        ApiError: _answer,
        Unavailable: _answer,
        CanonicalError: _answer,
        RequestValidationError: _answer,
        HTTPException: _answer,
        Exception: _answer,
    }
    for kind, handler in handled.items():
        app.add_exception_handler(kind, handler)
    app.add_middleware(RequestIds)
    app.add_middleware(Hardened, exposure=exposed)
    return app


class RequestIds:
    """Gives every request an id, which its answer carries, whatever becomes of it; it begins with no right to any row."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = "req_" + secrets.token_hex(12)
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        with reaching(NOTHING):
            await self._app(scope, receive, send_with_id)


async def _answer(request: Request, error: Exception) -> Response:
    return render(error, request)


def _add_root_routes(app: FastAPI, exposure: Exposure) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> Response:
        """The process is alive."""
        return json_response({"status": "ok"})

    @app.get("/readyz", tags=["health"])
    async def readyz(request: Request) -> Response:
        """The deployment can serve: database reachable, migrations applied, a live worker."""
        services: Services = request.app.state.services
        problems = await services.health.problems()
        if not problems:
            return json_response({"status": "ready"})
        return problem(
            request.state.request_id,
            status=503,
            code="unavailable",
            detail=text_of(problems),
            headers={"Retry-After": "1"},
        )

    @app.get("/.well-known/security.txt", tags=["health"], response_class=PlainTextResponse)
    async def security_txt(request: Request) -> Response:
        """Whom to tell of a weakness (RFC 9116)."""
        services: Services = request.app.state.services
        expires = iso(await services.health.now() + SECURITY_TXT_MS)
        return PlainTextResponse(
            f"Contact: {exposure.contact}\nExpires: {expires}\nPreferred-Languages: en\n"
            f"Canonical: {exposure.public_url}/.well-known/security.txt\n"
        )

    page = reference_of(app.openapi)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page())

    @app.get("/llms.txt", tags=["health"], response_class=PlainTextResponse)
    async def llms_txt() -> Response:
        """What this server is, for models."""
        return PlainTextResponse(LLMS_TXT)
