"""What the quick start talks to: Rewind (the server of this folder if it runs, else one of its own), and a tracker."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rewind import Rewind, RewindError

from examples.quickstart.executions import DATA, FOLDER

PORT = 8484
STOP_TIMEOUT_S = 30


class NotStarted(Exception):
    """`rewind dev` ended before it was ready; it has said why."""


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    api_key: str
    process: subprocess.Popen[str] | None
    """`rewind dev`, when it was started here."""


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Attach to the server of this folder, or start one and stop it afterwards."""
    found = _found()
    if found is not None:
        yield found
        return
    print("Starting Rewind (the first time takes some seconds) …", flush=True)
    # A session of its own: Ctrl-C reaches this program first, which then stops the server in order.
    process = subprocess.Popen(
        [sys.executable, "-m", "rewind", "dev", "--json", *_port_options()],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise NotStarted(f"`rewind dev` ended with exit code {process.wait()}")
        ready = json.loads(line)
        yield Server(ready["url"], ready["api_key"], process)
    finally:
        _stop(process)


@contextlib.contextmanager
def toolset_name() -> Iterator[str]:
    """`quickstart`; a name of its own while another process of this folder serves that one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
        name = "quickstart"
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            name = f"quickstart-{os.getpid()}"
        yield name


@contextlib.contextmanager
def running_tracker() -> Iterator[str]:
    """Start the MCP server of this example and answer its address; it ends with the context or this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.quickstart.tracker_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise NotStarted(f"the MCP server of this example ended with exit code {process.wait()}")
        yield url
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        _wait(process)
        process.stdout.close()


def _found() -> Server | None:
    """The server that `.rewind/dev.json` names, if it answers and takes that key."""
    try:
        ready = json.loads((DATA / "dev.json").read_text())
        server = Server(ready["url"], ready["api_key"], None)
        with Rewind(
            api_key=server.api_key, base_url=server.url, namespace="default", max_retries=0
        ) as client:
            client.toolsets.list(limit=1).page()
    except (OSError, ValueError, KeyError, RewindError):
        return None
    return server


def _port_options() -> list[str]:
    if "REWIND_PORT" in os.environ:
        return []
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            print(f"Port {PORT} is taken: using any free one.", flush=True)
            return ["--port", "0"]
    return []


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    _wait(process)
    if process.stdout is not None:
        process.stdout.close()


def _wait(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
