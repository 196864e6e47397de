"""Keep a few processes running: start them in order, restart what dies, stop them in reverse order."""

import logging
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol, Self

from infra.processes import InfraError, open_log, spawn, stop, tail

log = logging.getLogger(__name__)

BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 5.0
STEADY_S = 10.0
"""A process that ran this long is restarted without delay, however it ended."""
STOP_GRACE_S = 12.0


class Service(Protocol):
    """What the supervisor needs of a process; the embedded servers and Program have it."""

    def start(self) -> object: ...
    def stop(self) -> None: ...
    def is_running(self) -> bool: ...
    @property
    def pid(self) -> int: ...


class ServiceFailed(InfraError):
    """A process ended while it was needed; the message carries the end of its log."""


class Program:
    """A process of ours, with its output in a log file."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        log_path: Path,
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        self._argv = argv
        self._env = env
        self._pass_fds = pass_fds
        self.log_path = log_path
        self._log_offset = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServiceFailed(f"{self._argv[-1]} is not running")
        return self._process.pid

    def start(self) -> Self:
        # The death signal is SIGKILL: a successor may start at once, and nothing that a kill loses is kept here.
        with open_log(self.log_path) as sink:
            self._log_offset = self.log_path.stat().st_size
            self._process = spawn(
                self._argv, env=self._env, log=sink, pass_fds=self._pass_fds, death_signal=signal.SIGKILL
            )
        return self

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, grace_s=STOP_GRACE_S)

    def recent_output(self) -> str:
        """Return the end of what this process wrote since its start."""
        return tail(self.log_path, start=self._log_offset)


@dataclass(slots=True)
class _Watched:
    name: str
    service: Service
    started_at: float = 0.0
    next_start_at: float = 0.0
    backoff_s: float = field(default=BACKOFF_MIN_S)


class Supervisor:
    """Services in the order of their dependence: later ones need earlier ones."""

    def __init__(self, on_restart: Callable[[str], None]) -> None:
        self._watched: list[_Watched] = []
        self._on_restart = on_restart

    def add(self, name: str, service: Service) -> None:
        """Watch a service that has been started."""
        self._watched.append(_Watched(name, service, started_at=time.monotonic()))

    def pids(self) -> dict[str, int]:
        return {item.name: item.service.pid for item in self._watched if item.service.is_running()}

    def check(self) -> None:
        """Raise ServiceFailed when a service has ended: for the time before everything is ready."""
        for item in self._watched:
            if not item.service.is_running():
                output = item.service.recent_output() if isinstance(item.service, Program) else ""
                raise ServiceFailed(f"{item.name} ended while starting:\n{output}".rstrip())

    def tend(self) -> float:
        """Restart what has died and is due; returns the seconds until the next restart is."""
        wait_s = BACKOFF_MAX_S
        for item in self._watched:
            if item.service.is_running():
                continue
            now = time.monotonic()
            if item.started_at > item.next_start_at:
                if now - item.started_at > STEADY_S:
                    item.backoff_s = BACKOFF_MIN_S
                    item.next_start_at = now
                else:
                    item.next_start_at = now + item.backoff_s
                    item.backoff_s = min(item.backoff_s * 2, BACKOFF_MAX_S)
            if now >= item.next_start_at:
                self._restart(item)
            else:
                wait_s = min(wait_s, item.next_start_at - now)
        return wait_s

    def stop(self) -> None:
        """Stop all, the last started first; our own programs drain at the same time."""
        for item in self._watched:
            if isinstance(item.service, Program):
                item.service.ask_to_stop()
        for item in reversed(self._watched):
            item.service.stop()

    def _restart(self, item: _Watched) -> None:
        item.started_at = time.monotonic()
        try:
            item.service.start()
        except (InfraError, OSError) as error:
            log.error("%s did not start: %s", item.name, error)
        else:
            self._on_restart(item.name)


class Stopped(BaseException):
    """SIGTERM or SIGINT arrived."""


class Signals:
    """In this context SIGTERM and SIGINT raise Stopped, once, and `wait` returns early when a child ends."""

    def __init__(self) -> None:
        self._wake, self._wakeup_fd = socket.socketpair()
        self._stopped = False

    def __enter__(self) -> Self:
        for end in (self._wake, self._wakeup_fd):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_fd.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._wake.close()
        self._wakeup_fd.close()

    def wait(self, timeout_s: float) -> None:
        if select.select([self._wake], [], [], timeout_s)[0]:
            self._wake.recv(4096)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if not self._stopped:
            self._stopped = True
            raise Stopped
