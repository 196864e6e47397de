"""Child processes that do not outlive their parent, and locks that end with their holder."""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

LOG_BYTES_MAX = 10 * 1024 * 1024
"""A log file that is larger when its process starts is begun anew; the former one is kept as `.old`."""

_PR_SET_PDEATHSIG = 1
_CLONE_NEWUSER = 0x10000000


class InfraError(Exception):
    """Something around the processes of Rewind is not as it must be; the message says what to do."""


class AlreadyRunning(InfraError):
    """Another live process holds the folder."""

    def __init__(self, path: Path, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{path.parent} is in use by {holder}")
        self.pid = pid


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom a child runs. uid and gid are the owner that its files need, as seen from this process."""

    kind: str
    uid: int
    gid: int
    become: tuple[int, int] | None = None
    """Take this user and group before exec; needs root."""
    appear: tuple[int, int] | None = None
    """Enter a user namespace in which this process's own user appears as this one."""


def current_identity() -> Identity:
    return Identity("this user", os.geteuid(), os.getegid())


def spawn(
    argv: Iterable[str | Path],
    *,
    identity: Identity | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    log: IO[bytes] | int | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
    pass_fds: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own that gets `death_signal` when this process dies, however it dies.

    Call it from the main thread: Linux sends the signal when the thread that forked ends. Elsewhere than on
    Linux there is no such signal, and a child may outlive a killed parent.
    """
    who = identity or current_identity()
    uid, gid = who.become or (None, None)
    return subprocess.Popen(
        [os.fspath(part) for part in argv],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=None if env is None else dict(env),
        cwd=cwd,
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
        start_new_session=True,
        pass_fds=pass_fds,
        # The only place from which a parent-death signal can be set; it takes no lock and imports nothing.
        preexec_fn=_between_fork_and_exec(who, death_signal),  # noqa: PLW1509
    )


def stop(process: subprocess.Popen[bytes], *signals: signal.Signals, grace_s: float = 10.0) -> int:
    """Ask the child to end, by one signal after the other, and kill it at last; returns its exit status."""
    for signum in signals or (signal.SIGTERM,):
        if process.poll() is not None:
            break
        process.send_signal(signum)
        try:
            return process.wait(grace_s)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.wait()


def open_log(path: Path) -> IO[bytes]:
    """Open a log for appending, beginning it anew when it has grown too large."""
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        path.replace(path.with_suffix(path.suffix + ".old"))
    return path.open("ab")


def tail(path: Path, *, start: int = 0, lines: int = 20) -> str:
    """Return the last lines that were written to a log after byte `start`."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(start, file.tell() - 16_384))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def processes_in(folder: Path) -> list[int]:
    """Return the live processes whose working folder is `folder` (Linux; elsewhere none are seen)."""
    target = os.path.realpath(folder)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == Path(target):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def send_signal(pid: int, signum: signal.Signals) -> None:
    """Signal a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def wait_until(condition: Callable[[], bool], *, timeout_s: float, every_s: float = 0.01) -> bool:
    """Poll a condition that nothing announces; false when it did not come true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


class FolderLock:
    """An exclusive lock on a file that names its holder and is free again when the holder dies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock or raise AlreadyRunning at once."""
        if self._fd is not None:
            return
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode(errors="replace").strip()
            os.close(fd)
            raise AlreadyRunning(self.path, int(holder) if holder.isdecimal() else None) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _between_fork_and_exec(who: Identity, death_signal: signal.Signals) -> Callable[[], None]:
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if libc is None:
            return
        if who.appear is not None:
            _enter_user_namespace(libc, who.appear)
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _enter_user_namespace(libc: ctypes.CDLL, appear: tuple[int, int]) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWUSER) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"user namespaces are not available: {os.strerror(code)}")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{appear[0]} {uid} 1"),
        ("gid_map", f"{appear[1]} {gid} 1"),
    ):
        Path("/proc/self", name).write_text(text)
