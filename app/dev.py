"""`rewind dev`: everything on one machine, with data in one folder.

A supervisor starts an embedded Postgres and object store (unless the environment names real ones), upgrades
the database, keeps `rewind serve` and `rewind worker` running, and makes an organization with a key once.
"""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import app
from app.listening import listening_socket
from infra.embedded_postgres import EmbeddedPostgres
from infra.migrate import upgrade
from infra.object_store import EmbeddedObjectStore, write_private
from infra.processes import AlreadyRunning, FolderLock, InfraError, wait_until
from infra.supervisor import Program, ServiceFailed, Signals, Stopped, Supervisor
from sandbox.config import KEY_SETTINGS, SettingsError, default_children, hints_dir
from sandbox.store.postgres.connection import connect

HOST = "127.0.0.1"
ORGANIZATION = "dev"
READY_TIMEOUT_S = 60.0
READY_POLL_S = 0.03
ASK_TIMEOUT_S = 5.0
PORT_WAIT_S = 2.0
"""How long to wait for a port that a supervisor killed just before may still hold."""
WORKER_CHILDREN_MAX = 2
WORKER_MODULE = "sandbox.worker"
LOOPBACK = "127.0.0.0/8,::1"


@dataclass(frozen=True, slots=True)
class DevServer:
    """What `dev.json` says while the server is ready. `organization` is its id."""

    url: str
    api_key: str
    organization: str
    pid: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class DevFolder:
    """One data folder: its files, and who runs on it."""

    def __init__(self, data: Path) -> None:
        self.data = data.absolute()
        self.lock = FolderLock(self.data / "dev.lock")
        self._server = self.data / "dev.json"
        self._key = self.data / "dev_key.json"
        self._services = self.data / "services.json"

    def make(self) -> None:
        # Searchable by all, because the embedded Postgres of root runs as another user; its files are private.
        self.data.mkdir(mode=0o711, parents=True, exist_ok=True)
        (self.data / "logs").mkdir(mode=0o700, exist_ok=True)

    def log(self, name: str) -> Path:
        return self.data / "logs" / f"{name}.log"

    def server(self) -> DevServer | None:
        """Return the ready server, or None."""
        try:
            return DevServer(**json.loads(self._server.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def announce(self, server: DevServer) -> None:
        write_private(self._server, server.to_json() + "\n")

    def write_services(self, addresses: Mapping[str, str], pids: Mapping[str, int]) -> None:
        """Tell the other verbs where things are, and tests which processes there are."""
        write_private(self._services, json.dumps({**addresses, "pids": pids}))

    def withdraw(self) -> None:
        for path in (self._server, self._services):
            path.unlink(missing_ok=True)

    def addresses(self) -> dict[str, str]:
        """Return database and object store of what runs here; nothing when nothing runs."""
        try:
            found = json.loads(self._services.read_text())
            return {"database_url": str(found["database_url"]), "s3_url": str(found["s3_url"])}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def key(self) -> tuple[str, str] | None:
        """Return organization and API key of an earlier start."""
        try:
            kept = json.loads(self._key.read_text())
            return str(kept["organization"]), str(kept["api_key"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep_key(self, organization: str, api_key: str) -> None:
        write_private(self._key, json.dumps({"organization": organization, "api_key": api_key}))


def run_dev(
    data: Path,
    port: int,
    environ: Mapping[str, str],
    *,
    on_ready: Callable[[DevServer], None],
    on_restart: Callable[[str], None],
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP.

    Errors: AlreadyRunning when another supervisor has the folder; InfraError when something does not start.
    """
    folder = DevFolder(data)
    folder.make()
    with folder.lock, Signals() as signals, contextlib.suppress(Stopped):
        folder.withdraw()
        with _listener(port) as listener:
            supervisor = Supervisor(on_restart)
            try:
                addresses = _start(supervisor, folder, listener, environ)
                _wait_ready(supervisor, _port(listener))
                organization, api_key = _working_key(folder, addresses["database_url"], _port(listener))
                server = DevServer(f"http://{HOST}:{_port(listener)}", api_key, organization, os.getpid())
                folder.announce(server)
                on_ready(server)
                _tend(supervisor, signals, folder, addresses)
            finally:
                folder.withdraw()
                supervisor.stop()
                shutil.rmtree(hints_dir(folder.data), ignore_errors=True)


@contextlib.contextmanager
def database_of(data: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """The database that a verb means: REWIND_DATABASE_URL, the running dev server's, or the folder's own.

    The last is started for the time of the context.
    """
    if given := environ.get("REWIND_DATABASE_URL"):
        yield given
        return
    folder = DevFolder(data)
    folder.make()
    try:
        folder.lock.acquire()
    except AlreadyRunning:
        found = folder.addresses()
        if not found:
            raise InfraError(
                f"the server on {folder.data} is still starting: try again in a moment"
            ) from None
        yield found["database_url"]
        return
    with folder.lock, EmbeddedPostgres(folder.data / "postgres") as postgres:
        yield postgres.url()


def with_dev_services(environ: Mapping[str, str], data: Path) -> dict[str, str]:
    """Complete an environment that names no services with those of the running dev server, if there is one."""
    found = DevFolder(data).addresses()
    known = {"REWIND_DATABASE_URL": found.get("database_url", ""), "REWIND_S3_URL": found.get("s3_url", "")}
    return {**known, **environ}


def with_our_code(environ: Mapping[str, str]) -> dict[str, str]:
    """Let a child import this very copy of the server, wherever it is started."""
    places = [str(Path(app.__path__[0]).parent), environ.get("PYTHONPATH", "")]
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}


async def new_organization(database_url: str, name: str) -> tuple[str, str]:
    """Create an organization with its first API key; returns its id and the key."""
    # Imported here because the models take half a second to load, and a second `rewind dev` needs none.
    from tenancy.service import create_organization

    connection = await connect(database_url, role="rewind_api", name="admin", planner=False)
    try:
        organization, api_key = await create_organization(connection, name)
    finally:
        await connection.close()
    return str(organization.id), api_key


def _start(
    supervisor: Supervisor, folder: DevFolder, listener: socket.socket, environ: Mapping[str, str]
) -> dict[str, str]:
    """Start everything; returns the addresses of database and object store."""
    database_url, s3_url = environ.get("REWIND_DATABASE_URL", ""), environ.get("REWIND_S3_URL", "")
    objects = None if s3_url else EmbeddedObjectStore(folder.data / "objects").spawn()
    if objects is not None:
        supervisor.add("objects", objects)
    if not database_url:
        postgres = EmbeddedPostgres(folder.data / "postgres").start()
        supervisor.add("postgres", postgres)
        database_url = postgres.url()
    asyncio.run(upgrade(database_url))
    if objects is not None:
        s3_url = objects.url
    addresses = {"database_url": database_url, "s3_url": s3_url}
    env = _child_environment(environ, folder, addresses, listener)
    for name, module, fds in (
        ("serve", ("app.cli", "serve"), (listener.fileno(),)),
        ("worker", (WORKER_MODULE,), ()),
    ):
        argv = [sys.executable, "-m", *module]
        # Scripts run below the worker: it must not be able to open secrets.
        own = {key: value for key, value in env.items() if name != "worker" or key not in KEY_SETTINGS}
        supervisor.add(name, Program(argv, env=own, log_path=folder.log(name), pass_fds=fds).start())
    folder.write_services(addresses, supervisor.pids())
    if objects is not None:
        objects.wait_ready()
    return addresses


def _tend(supervisor: Supervisor, signals: Signals, folder: DevFolder, addresses: Mapping[str, str]) -> None:
    known = supervisor.pids()
    while True:
        wait_s = supervisor.tend()
        if supervisor.pids() != known:
            known = supervisor.pids()
            folder.write_services(addresses, known)
        signals.wait(wait_s)


def _child_environment(
    environ: Mapping[str, str], folder: DevFolder, addresses: Mapping[str, str], listener: socket.socket
) -> dict[str, str]:
    defaults = {
        "REWIND_WORKER_CHILDREN": str(min(default_children(), WORKER_CHILDREN_MAX)),
        "REWIND_EGRESS_ALLOW": LOOPBACK,
        "REWIND_DEV_MAILS": "1",
        "REWIND_PUBLIC_URL": f"http://{HOST}:{_port(listener)}",
    }
    return {
        **defaults,
        **with_our_code(environ),
        "REWIND_DATABASE_URL": addresses["database_url"],
        "REWIND_S3_URL": addresses["s3_url"],
        "REWIND_DATA": str(folder.data),
        "REWIND_LISTEN_FD": str(listener.fileno()),
        "REWIND_PORT": str(_port(listener)),
    }


def _listener(port: int) -> socket.socket:
    """Listen here, in the supervisor, so that connections wait while `serve` is restarted."""
    found: list[socket.socket] = []

    def bound() -> bool:
        with contextlib.suppress(SettingsError):
            found.append(listening_socket(HOST, port))
        return bool(found)

    if not wait_until(bound, timeout_s=PORT_WAIT_S, every_s=0.1):
        raise InfraError(
            f"port {port} is taken by another program: stop it, or use --port 0 for any free port"
        )
    return found[0]


def _port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def _wait_ready(supervisor: Supervisor, port: int) -> None:
    answer = (0, "no answer")

    def ready() -> bool:
        nonlocal answer
        supervisor.check()
        answer = _ask(port, "/readyz")
        return answer[0] == 200

    if not wait_until(ready, timeout_s=READY_TIMEOUT_S, every_s=READY_POLL_S):
        raise ServiceFailed(f"not ready after {READY_TIMEOUT_S:.0f} s: {answer[1]}")


def _working_key(folder: DevFolder, database_url: str, port: int) -> tuple[str, str]:
    """Return the key of an earlier start while the database still knows it, else a new one."""
    kept = folder.key()
    if kept is None or _ask(port, "/v1/toolsets?limit=1", api_key=kept[1])[0] == 401:
        kept = asyncio.run(new_organization(database_url, ORGANIZATION))
        folder.keep_key(*kept)
    return kept


def _ask(port: int, path: str, *, api_key: str = "") -> tuple[int, str]:
    """Return status and body of a GET; status 0 when nobody answered."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ASK_TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {api_key}"} if api_key else {})
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, f"no answer ({error})"
    finally:
        connection.close()
