"""Run nanio as the local object store: one folder, one port, credentials made at the first start."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from infra.processes import FolderLock, InfraError, open_log, spawn, stop, tail, wait_until
from sandbox.config import S3Location

HOST = "127.0.0.1"
BUCKET = "rewind"
START_TIMEOUT_S = 30.0


class ObjectStoreFailed(InfraError):
    """The store did not start; the message carries the end of its log."""


@dataclass(frozen=True, slots=True)
class _Access:
    """What a later start needs to offer the same URL; stored readable by its owner only."""

    port: int
    access_key: str
    secret_key: str


class EmbeddedObjectStore:
    """One store in one folder. `start` may be called again after the process died; its URL stays the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = FolderLock(self.folder / "lock")
        self._access: _Access | None = None
        self._log_offset = 0

    @property
    def url(self) -> str:
        """Value for REWIND_S3_URL."""
        if self._access is None:
            raise ObjectStoreFailed(f"the object store of {self.folder} was not started")
        access = self._access
        return f"s3+http://{access.access_key}:{access.secret_key}@{HOST}:{access.port}/{BUCKET}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ObjectStoreFailed(f"the object store of {self.folder} is not running")
        return self._process.pid

    @property
    def _objects(self) -> Path:
        return self.folder / "objects"

    @property
    def _unclean(self) -> Path:
        """Exists while the store runs, and after it was killed."""
        return self.folder / "running"

    @property
    def log_path(self) -> Path:
        return self.folder / "object_store.log"

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def spawn(self) -> Self:
        """Start the process without waiting for it: `wait_ready` does."""
        if self.is_running():
            return self
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        self._objects.mkdir(mode=0o700, exist_ok=True)
        self._clear_after_kill()
        access = self._access = self._read_access()
        self._log_offset = self.log_path.stat().st_size if self.log_path.exists() else 0
        flags = ["--host", HOST, "--port", str(access.port), "--data-dir", str(self._objects)]
        with open_log(self.log_path) as sink:
            self._process = spawn(
                [sys.executable, "-m", "nanio", "serve", "--no-access-log", "--log-level", "warning", *flags],
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "NANIO_ACCESS_KEY": access.access_key,
                    "NANIO_SECRET_KEY": access.secret_key,
                },
                cwd=self.folder,
                log=sink,
            )
        return self

    def wait_ready(self) -> Self:
        """Return when the store accepts connections and its bucket exists."""
        process = self._process
        if process is None or self._access is None:
            raise ObjectStoreFailed(f"the object store of {self.folder} was not started")
        port = self._access.port
        if not wait_until(
            lambda: process.poll() is not None or _accepts(port), timeout_s=START_TIMEOUT_S, every_s=0.02
        ) or (process.poll() is not None):
            raise ObjectStoreFailed(
                f"the object store did not start in {self.folder}:\n"
                f"{tail(self.log_path, start=self._log_offset)}"
            )
        if not (self._objects / BUCKET).exists():
            _make_bucket(self.url)
        return self

    def start(self) -> Self:
        """Bring the store up with its bucket in it."""
        return self.spawn().wait_ready()

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None
            self._unclean.unlink(missing_ok=True)
        self._lock.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _clear_after_kill(self) -> None:
        """Remove half-written files: nanio 0.1.7 refuses for ever to write a key again whose sidecar is one."""
        if self._unclean.exists():
            for root, _, names in os.walk(self._objects):
                for name in names:
                    if name.endswith(".json.tmp") or name.startswith(".tmp."):
                        Path(root, name).unlink()
        self._unclean.touch()

    def _read_access(self) -> _Access:
        """Return the stored access; a port that someone else has taken meanwhile is replaced."""
        path = self.folder / "access.json"
        if self._access is not None:
            return self._access
        access = _Access(_free_port(), secrets.token_hex(10), secrets.token_urlsafe(30))
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
            access = _Access(**json.loads(path.read_text()))
        if not _is_free(access.port):
            access = _Access(_free_port(), access.access_key, access.secret_key)
        write_private(path, json.dumps(asdict(access)))
        return access


def _make_bucket(url: str) -> None:
    # Imported here because boto3 takes half a second to load, and only the first start needs it.
    from sandbox.store.blobs import BlobStore

    store = BlobStore(S3Location.parse(url))
    try:
        store.ensure_bucket()
    finally:
        store.close()


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, all at once."""
    partial = path.with_name(f"{path.name}.new")
    partial.unlink(missing_ok=True)
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    partial.rename(path)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
