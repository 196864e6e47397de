"""`rewind serve` as a process: it leaves when told to, and answers whoever is parked."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psutil
import pytest

from infra.processes import wait_until
from tests.fixtures.api import Api
from tests.fixtures.keys import data_key_file

REPOSITORY = Path(__file__).resolve().parents[2]
SERVE = (
    "import asyncio, uvloop; from app import serve; from app.config import Settings\n"
    "with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:\n"
    "    runner.run(serve.run(Settings.from_env()))"
)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(api: Api, s3_url: str, tmp_path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "REWIND_DATABASE_URL": api.url,
        "REWIND_S3_URL": s3_url,
        "REWIND_DATA": str(tmp_path / "data"),
        "REWIND_PORT": str(port),
        "REWIND_DATA_KEY_FILE": str(data_key_file(tmp_path)),
    }
    process = subprocess.Popen([sys.executable, "-c", SERVE], cwd=REPOSITORY, env=environment)
    try:
        assert wait_until(lambda: _alive(port) or process.poll() is not None, timeout_s=30)
        yield process
    finally:
        process.kill()
        process.wait()


def _alive(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


async def test_sigterm_answers_parked_requests_and_ends_the_process(
    api: Api, server: subprocess.Popen[bytes], port: int
) -> None:
    def claim() -> httpx2.Response:
        with httpx2.Client(timeout=70, headers={"authorization": f"Bearer {api.key}"}) as client:
            return client.post(f"http://127.0.0.1:{port}/v1/tasks/claim", json={"max": 1, "wait": "60s"})

    def parked() -> bool:
        connections = psutil.Process(server.pid).net_connections(kind="inet")
        return any(found.status == psutil.CONN_ESTABLISHED for found in connections)

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(claim)
        assert wait_until(parked, timeout_s=10)
        server.send_signal(signal.SIGTERM)
        assert answer.result(10).json() == {"tasks": []}
    assert server.wait(10) == 0
