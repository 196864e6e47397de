"""The supervisor restarts what dies, backs off from what cannot live, and stops everything."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.processes import is_alive, wait_until
from infra.supervisor import Program, ServiceFailed, Signals, Stopped, Supervisor

REPOSITORY = Path(__file__).resolve().parents[2]
FOREVER = "import signal; signal.pause()"


def program(folder: Path, code: str, name: str = "program") -> Program:
    return Program([sys.executable, "-c", code], env=dict(os.environ), log_path=folder / f"{name}.log")


@pytest.fixture
def restarts() -> list[str]:
    return []


@pytest.fixture
def supervisor(restarts: list[str]) -> Iterator[Supervisor]:
    supervisor = Supervisor(restarts.append)
    yield supervisor
    supervisor.stop()


def tend_until(supervisor: Supervisor, condition: object) -> None:
    def done() -> bool:
        supervisor.tend()
        return condition()

    assert wait_until(done, timeout_s=20)


def test_killed_program_is_started_again(tmp_path: Path, supervisor: Supervisor, restarts: list[str]) -> None:
    service = program(tmp_path, FOREVER).start()
    supervisor.add("it", service)
    former = service.pid
    os.kill(former, signal.SIGKILL)
    tend_until(supervisor, lambda: restarts == ["it"])
    assert service.pid != former
    assert supervisor.pids() == {"it": service.pid}


def test_program_that_cannot_live_is_tried_ever_more_rarely(
    tmp_path: Path, supervisor: Supervisor, restarts: list[str]
) -> None:
    supervisor.add("it", program(tmp_path, "raise SystemExit(1)").start())
    began = time.monotonic()
    tend_until(supervisor, lambda: len(restarts) == 3)
    assert time.monotonic() - began >= 0.1 + 0.2 + 0.4


def test_one_program_in_trouble_does_not_delay_another(
    tmp_path: Path, supervisor: Supervisor, restarts: list[str]
) -> None:
    supervisor.add("ill", program(tmp_path, "raise SystemExit(1)", "ill").start())
    tend_until(supervisor, lambda: len(restarts) == 4)
    healthy = program(tmp_path, FOREVER, "healthy").start()
    supervisor.add("healthy", healthy)
    os.kill(healthy.pid, signal.SIGKILL)
    began = time.monotonic()
    tend_until(supervisor, lambda: restarts[-1] == "healthy")
    assert time.monotonic() - began < 1.5, "the other one waits 1.6 s by now"


def test_end_before_readiness_is_a_failure_with_the_output(tmp_path: Path, supervisor: Supervisor) -> None:
    service = program(tmp_path, "print('cannot find the door')").start()
    supervisor.add("it", service)
    assert wait_until(lambda: not service.is_running(), timeout_s=10)
    with pytest.raises(ServiceFailed, match=r"it ended while starting:\ncannot find the door"):
        supervisor.check()


def test_programs_drain_at_the_same_time(tmp_path: Path) -> None:
    slow = "import signal, time; signal.signal(15, lambda *_: (time.sleep(1), exit())); print(1, flush=True); signal.pause()"
    supervisor = Supervisor(lambda _: None)
    services = [program(tmp_path, slow, str(n)).start() for n in range(3)]
    for n, service in enumerate(services):
        supervisor.add(str(n), service)
    assert wait_until(lambda: all(service.recent_output() for service in services), timeout_s=10)
    began = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - began < 2.5
    assert not any(service.is_running() for service in services)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel signals orphans on Linux only")
def test_killed_supervisor_takes_its_programs_along(tmp_path: Path) -> None:
    code = f"""
    import os, signal, sys
    from pathlib import Path
    from infra.supervisor import Program
    print(Program([sys.executable, "-c", {FOREVER!r}], env=dict(os.environ), log_path=Path({str(tmp_path)!r}, "log")).start().pid, flush=True)
    signal.pause()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    assert wait_until(lambda: not runs(child), timeout_s=10)


def runs(pid: int) -> bool:
    """Whether the process exists and is no zombie that nobody has collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_signal_ends_the_wait_and_a_second_one_does_not_disturb_the_stop() -> None:
    with Signals() as signals:
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
            signals.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        signals.wait(0)


def test_end_of_a_child_ends_the_wait() -> None:
    with Signals() as signals:
        child = subprocess.Popen(["true"])
        began = time.monotonic()
        signals.wait(30)
        assert time.monotonic() - began < 20
        child.wait()
