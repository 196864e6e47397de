"""One process of TypeScript's native compiler, spoken to over its pipes (JSON-RPC, `tsc --api --async`).

It has no files: every question about one is answered from `files`, and everything else is absent. One request at
a time; whoever asks watches the clocks and kills it. The protocol is private to TypeScript 7.0.2, which the lock
file pins, and tests hold what is used of it.
"""

import asyncio
import contextlib
import os
import platform
import re
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Self

import orjson

from sandbox.isolate.api import ChildDied, SandboxFault
from sandbox.isolate.confine import LAYERS
from sandbox.isolate.process import CHILD_UIDS, FIRST_CHILD_UID, PACKAGE_ROOT, missing_layers
from sandbox.isolate.vitals import process_cpu_ns

VERSION = "7.0.2"
START_TIMEOUT_S = 30
NICE = 10
ANSWER_BYTES_MAX = 8 * 1024 * 1024
"""Of one message: a script can make as many diagnostics as it has characters."""
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)

Files = dict[str, str]


class TscRefused(Exception):
    """The compiler answered a request with an error of its own; it lives on."""


class TscOverloaded(Exception):
    """The answer is larger than ANSWER_BYTES_MAX: it was not read, and the process is gone."""


def tsc_path() -> Path:
    """Return the binary that the build's lock file installed. SandboxFault when it is not there."""
    machine = _MACHINES.get(platform.machine().lower(), platform.machine())
    package = f"typescript-{sys.platform}-{machine}"
    path = PACKAGE_ROOT / "node_modules" / "@typescript" / package / "lib" / "tsc"
    if not path.exists():
        raise SandboxFault(
            f"TypeScript {VERSION} is not installed for {sys.platform} {machine}: run `make setup`"
        )
    return path


class Tsc:
    """Errors of every request: ChildDied, TscRefused, TscOverloaded."""

    def __init__(self, process: Process, confinement: dict[str, str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.files: Files = {}
        self._killed = False
        self.yields = False
        self.confinement = confinement
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._number = 0

    @classmethod
    async def start(cls, path: Path, *, slot: int, require_confinement: bool) -> Self:
        """Start a confined process. slot: two that run at the same time differ in it. Errors: SandboxFault."""
        # From the end of the range: children of the script pool take theirs from its beginning.
        uid = FIRST_CHILD_UID + CHILD_UIDS - 1 - slot if os.getuid() == 0 else -1
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-s", "-m", "sandbox.compiler.tsc_launch"),
            *(str(path), str(os.getpid()), str(uid)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={"PYTHONPATH": str(PACKAGE_ROOT)},
            start_new_session=True,
            limit=1 << 20,
        )
        assert process.stderr is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                line = await process.stderr.readline()
        try:
            confinement: dict[str, str] = orjson.loads(line)["confinement"]
            tsc = cls(process, confinement)
            async with asyncio.timeout(START_TIMEOUT_S):
                await tsc.call("initialize")
        except (ValueError, KeyError, TypeError, ChildDied, TimeoutError) as error:
            words = (line + await _rest(process)).decode(errors="replace").strip()[-2_000:]
            raise SandboxFault(f"the type-checker did not start: {words or error}") from error
        missing = missing_layers(confinement)
        if require_confinement and missing:
            await tsc.stop()
            listed = "; ".join(f"{layer}: {missing[layer]}" for layer in LAYERS if layer in missing)
            raise SandboxFault(f"REWIND_REQUIRE_CONFINEMENT is set, but this host does not allow: {listed}")
        return tsc

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def dead(self) -> bool:
        """Killed by us, or ended by itself or by others, also while nobody asked it anything."""
        return self._killed or self._process.returncode is not None or self._stdin.is_closing()

    def cpu_ns(self) -> int:
        """CPU of the process so far; 0 when it is gone."""
        try:
            return process_cpu_ns(self.pid)
        except OSError:
            return 0

    async def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Ask, answer its questions about files meanwhile, and return its answer."""
        if self.dead:
            raise ChildDied("the type-checker is gone")
        self._number += 1
        number = self._number
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            while True:
                message = await self._receive()
                if "method" in message:
                    self._answer(message)
                elif message.get("id") == number:
                    break
            await self._stdin.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError) as error:
            self.kill()
            raise ChildDied("the type-checker ended") from error
        except asyncio.CancelledError:
            self.kill()  # its answer would be taken for that of the next request
            raise
        if "error" in message:
            raise TscRefused(str(message["error"].get("message", "")).partition("\n")[0][:500])
        return message.get("result")

    def yield_to_others(self) -> None:
        """Let everything else on this machine go first, for good: the way back takes privileges."""
        if self.yields or self.dead:
            return
        self.yields = True
        with contextlib.suppress(OSError):  # it has just ended
            os.setpriority(os.PRIO_PGRP, self.pid, NICE)

    def kill(self) -> None:
        self._killed = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self) -> None:
        """Kill and reap."""
        self.kill()
        await self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        if self._stdin.is_closing():  # uvloop raises RuntimeError then
            raise BrokenPipeError
        body = orjson.dumps(message)
        self._stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _receive(self) -> dict[str, Any]:
        head = await self._stdout.readuntil(b"\r\n\r\n")
        found = _LENGTH.search(head)
        length = int(found[1]) if found else 0
        if length > ANSWER_BYTES_MAX:
            self.kill()
            raise TscOverloaded
        message: dict[str, Any] = orjson.loads(await self._stdout.readexactly(length))
        return message

    def _answer(self, question: dict[str, Any]) -> None:
        if "id" not in question:
            return
        params = question.get("params")
        path = params[0] if isinstance(params, list) and params else params
        self._send(
            {"jsonrpc": "2.0", "id": question["id"], "result": self._about(question["method"], str(path))}
        )

    def _about(self, method: str, path: str) -> Any:
        """What it may know of a path: null would send it to the real disk, so nothing is answered with null."""
        match method:
            case "readFile":
                return {"content": self.files.get(path)}
            case "fileExists":
                return path in self.files
            case "directoryExists":
                folder = path.rstrip("/") + "/"
                return any(name.startswith(folder) for name in self.files)
            case "getAccessibleEntries":
                return {"files": [], "directories": []}
            case "realpath":
                return path
        return {}


async def _rest(process: Process) -> bytes:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    assert process.stderr is not None
    words = await process.stderr.read(4_000)
    await process.wait()
    return words
