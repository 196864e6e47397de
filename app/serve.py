"""`rewind serve`: api, dispatcher and scheduler in one process, on one event loop."""

import asyncio
import contextlib
import logging
import resource
import signal
import socket
from collections.abc import Coroutine, Iterator
from typing import Any, Self

import uvicorn

from app.background import pause
from app.config import Settings
from app.deps import Services
from app.dispatcher.egress import Egress
from app.dispatcher.loop import Dispatcher
from app.dispatcher.mcp import Servers
from app.hardening import Exposure
from app.main import build_services, create_app
from app.protocol import ProblemProtocol
from app.rates import Rates
from app.scheduler.closing import run_closing
from app.scheduler.collector import run_collector
from app.scheduler.loop import run_scheduler
from app.scheduler.mails import run_mailer
from app.scheduler.retention import run_retention
from sandbox.epochs.registry import CURRENT
from sandbox.journal.errors import Unavailable
from sandbox.store.blobs import BlobStore
from sandbox.store.hints import HintBus
from sandbox.store.postgres.connection import LOST
from sandbox.store.postgres.edge import REQUEST_ROLE, PostgresEdge
from sandbox.store.postgres.reach import as_system
from sandbox.store.postgres.requests import RequestDesk
from sandbox.store.postgres.retention import Retention
from sandbox.store.sealing import DataKey
from sandbox.store.wakeups import Wakeups
from tenancy.engine import engine_of
from tenancy.secret_keys import secret_box

logger = logging.getLogger(__name__)

RETRY_S = 0.5
GRACE_S = 8
"""Requests under way at SIGTERM are given so long; parked ones are answered within a second."""
KEEP_ALIVE_S = 75


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    box = secret_box(settings.secret_keys)
    data_key = DataKey.from_file(settings.plane.data_key_file, make=settings.plane.make_data_key)
    listener, stop = _listening(settings), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    hints = HintBus(settings.plane.hints_dir, "api")
    store = await _until_reachable(settings, data_key, hints, stop)
    if store is None:
        listener.close()
        return
    retention = Retention(settings.plane.database_url)
    engine = engine_of(settings.plane.database_url, REQUEST_ROLE)
    blobs = BlobStore(settings.plane.s3)
    servers = Servers(egress := Egress(settings.egress_allow))
    hints.start()
    services = build_services(
        store=store,
        retention=retention,
        engine=engine,
        requests=RequestDesk(store.own_pool, hints, store.keys),
        wakeups=Wakeups(hints),
        blobs=blobs,
        box=box,
        servers=servers,
        egress=egress,
        people=settings.pages,
        rates=Rates(settings.rate_limit),
        epoch=CURRENT,
        stop=stop,
    )
    server = _Server.of(services, settings.exposure)
    dispatcher = Dispatcher(services.call_maker, services.children, store=store, servers=servers, hints=hints)
    roles = [
        asyncio.create_task(_role(role, stop))
        for role in (
            _leave(server, stop),
            run_scheduler(store, stop),
            dispatcher.run(stop),
            _of_services(services, stop),
            run_mailer(store.pool, settings.smtp, stop),
            run_collector(store.pool, blobs, stop),
            run_closing(services.pages.closing, store.erase_namespace, stop),
            run_retention(retention, stop),
        )
    ]
    try:
        logger.info("serving on port %d", listener.getsockname()[1])
        await server.serve(sockets=[listener])
    finally:
        stop.set()
        await asyncio.gather(*roles, return_exceptions=True)
        services.pages.close()
        egress.close()
        hints.close()
        blobs.close()
        await asyncio.gather(engine.dispose(), retention.close(), store.close())


def _listening(settings: Settings) -> socket.socket:
    """With as many open files as the deployment lets us have: each connection is one, and shells begin with 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return settings.listener()


class _Server(uvicorn.Server):
    """The process's signals are ours: uvicorn would take them over."""

    @classmethod
    def of(cls, services: Services, exposure: Exposure) -> Self:
        return cls(
            uvicorn.Config(
                create_app(services, services.pages.routes, exposure),
                http=ProblemProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # who is behind a proxy is decided by `Hardened`, for those that are trusted
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _role(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """A role that fails takes the process with it: better restarted than without its scheduler."""
    try:
        with as_system():
            await work
    except Exception:
        logger.exception("a role of serve failed; the process leaves")
        stop.set()


async def _of_services(services: Services, stop: asyncio.Event) -> None:
    """What services do by themselves beside answering."""
    async with asyncio.TaskGroup() as group:
        for work in (
            services.sealer.run(stop),
            services.hooks.run(stop),
            services.bulk.run(stop),
        ):
            group.create_task(work)


async def _leave(server: uvicorn.Server, stop: asyncio.Event) -> None:
    await stop.wait()
    server.should_exit = True


async def _until_reachable(
    settings: Settings, data_key: DataKey, hints: HintBus, stop: asyncio.Event
) -> PostgresEdge | None:
    while not stop.is_set():
        try:
            return await PostgresEdge.serving(
                settings.plane.database_url,
                data_key=data_key,
                role=settings.database_role,
                hints=hints,
            )
        except (Unavailable, *LOST) as error:
            logger.warning("the database is not reachable yet: %s", error or type(error).__name__)
            await pause(stop, RETRY_S)
    return None
