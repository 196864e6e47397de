"""`rewind serve` as a process: it leaves when told to, and answers whoever is parked."""

import contextlib
import json
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


FILES = 1_024
"""That a shell lets a process open before it asks for more."""


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
    few = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, 2 * {FILES}))\n"
    process = subprocess.Popen([sys.executable, "-c", few + SERVE], cwd=REPOSITORY, env=environment)
    try:
        assert wait_until(lambda: _alive(port) or process.poll() is not None, timeout_s=60)
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


def test_it_opens_as_many_files_as_it_may(server: subprocess.Popen[bytes]) -> None:
    """Each connection is one."""
    assert psutil.Process(server.pid).rlimit(psutil.RLIMIT_NOFILE) == (2 * FILES, 2 * FILES)


@pytest.mark.parametrize(
    "sent",
    [
        b"no HTTP at all\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 40_000 + b"\r\n",
        b"GET /v1/me HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 4_000_000,
        b"GET /v1/me?" + b"%C3%A4" * 20_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n",
    ],
    ids=["no HTTP", "long header", "many headers", "endless header", "long address", "no length"],
)
def test_what_is_no_http_is_answered_by_a_problem(
    server: subprocess.Popen[bytes], port: int, sent: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        answer = b""
        with contextlib.suppress(ConnectionError):  # it may hang up before all is sent
            connection.sendall(sent)
        with contextlib.suppress(ConnectionError):
            while chunk := connection.recv(65_536):
                answer += chunk
    if len(sent) > 1_000_000 and not answer:
        return  # hung up on in the middle: the answer is lost with the connection
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "http/1.1 400 bad request"
    headers = dict(line.split(": ", 1) for line in lines[1:])
    assert headers["content-type"] == "application/problem+json"
    assert int(headers["content-length"]) == len(body)
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (400, "invalid_request")
    assert headers["x-request-id"] == problem["request_id"]
    assert headers["x-content-type-options"] == "nosniff"


async def test_nobody_on_this_machine_says_who_the_client_is(
    server: subprocess.Popen[bytes], api: Api, port: int
) -> None:
    """A proxy is believed when it is listed; being on loopback is no reason."""
    made = await api.call("POST", "/v1/keys", json={"allow_ips": ["198.51.100.0/24"]})
    headers = {"authorization": f"Bearer {made.json()['key']}", "x-forwarded-for": "198.51.100.7"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        answer = await client.get("/v1/me", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
