"""The process that runs scripts: `python -m sandbox.isolate.child SOCKET PAGE PARENT UID EPOCH FOLDER BLANKS`.

One request at a time. It holds one socket, no environment, no file; it makes blank isolates while idle, so that
a run finds one with the prelude already loaded.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

import orjson

from sandbox.epochs.registry import check_engine, epoch_files
from sandbox.isolate.code import Library
from sandbox.isolate.confine import confine
from sandbox.isolate.engine import Engine, EngineError, Handle, Isolate, ScriptThrewError, StoppedError
from sandbox.isolate.frames import Frame, receive_frame
from sandbox.isolate.selftest import self_test
from sandbox.isolate.vitals import Vitals
from sandbox.isolate.warmup import load_prelude, warm_libraries

SETUP_BUDGET_US = 5_000_000
"""CPU for compiling a script of the largest size, with room."""
DEFAULT_HEAP_BYTES = 128 * 1024 * 1024
"""Blank isolates have this limit; a run with another one gets its own."""


@dataclass
class Blank:
    """An isolate with the prelude loaded, and the prelude's entry function."""

    isolate: Isolate
    entry: Handle


class Child:
    def __init__(self, libraries: Sequence[Library], engine: Engine, vitals: Vitals, blanks: int) -> None:
        self._libraries = libraries
        self._engine = engine
        self._vitals = vitals
        self._blanks_wanted = blanks
        self._blanks: list[Blank] = []
        self._runs: dict[int, Blank] = {}

    def prepare(self) -> bool:
        """Make one blank isolate if one is missing. False: nothing to do."""
        if len(self._blanks) >= self._blanks_wanted:
            return False
        self._blanks.append(self._blank(DEFAULT_HEAP_BYTES))
        return True

    def answer(self, request: Frame) -> Frame | None:
        header = request.header
        match header["op"]:
            case "open":
                return self._guarded(lambda: self._open(header, request.body))
            case "deliver":
                return self._guarded(lambda: self._deliver(header, request.body))
            case "close":
                run = self._runs.pop(header["id"], None)
                if run is not None:
                    run.isolate.close()
                return None
            case other:
                raise EngineError(f"unknown request {other!r}")

    def _blank(self, heap_bytes: int) -> Blank:
        isolate = Isolate(
            self._engine,
            heap_bytes=heap_bytes,
            libraries=self._libraries,
            on_event=self._vitals.begin,
        )
        return Blank(isolate, load_prelude(isolate))

    def _open(self, header: dict[str, Any], body: bytes) -> Frame:
        heap_bytes = header["heap_bytes"]
        usable = heap_bytes == DEFAULT_HEAP_BYTES and self._blanks
        run = self._blanks.pop() if usable else self._blank(heap_bytes)
        self._runs[header["id"]] = run
        self._vitals.begin(0)
        length = header["script_bytes"]
        began = run.isolate.cpu_ns()
        script = run.isolate.evaluate(body[:length].decode(), budget_us=SETUP_BUDGET_US)
        if not isinstance(script, Handle) or not script.is_function:
            raise EngineError("a compiled script is no function")
        run.isolate.call(run.entry, text=body[length:], this=script, budget_us=SETUP_BUDGET_US)
        return Frame({"ok": True, "cpu_us": (run.isolate.cpu_ns() - began) // 1_000})

    def _deliver(self, header: dict[str, Any], body: bytes) -> Frame:
        run = self._runs[header["id"]]
        self._vitals.begin(0)
        began = run.isolate.cpu_ns()
        try:
            result = run.isolate.call(run.entry, text=body, budget_us=header["budget_us"])
        except StoppedError:
            del self._runs[header["id"]]
            run.isolate.close()
            raise
        if not isinstance(result, str):
            raise EngineError("the prelude answered no text")
        return Frame({"ok": True, "cpu_us": (run.isolate.cpu_ns() - began) // 1_000}, result.encode())

    def _guarded(self, act: Callable[[], Frame]) -> Frame:
        try:
            return act()
        except StoppedError as stop:
            return Frame({"stop": stop.limit, "allowed": stop.allowed, "used": stop.used})
        except ScriptThrewError as error:
            return Frame({"fault": str(error)[:2_000]})


def serve(connection: socket, answer: Callable[[Frame], Frame | None], prepare: Callable[[], bool]) -> None:
    """Answer requests until the other side is gone; prepare while there are none."""
    while True:
        while not select.select([connection], [], [], 0)[0] and prepare():
            pass
        request = receive_frame(connection)
        if request is None:
            return
        answered = answer(request)
        if answered is not None:
            connection.sendall(answered.encode())


def start(flags: tuple[str, ...] | None, warm: Callable[[Engine], None]) -> tuple[socket, Vitals, Engine]:
    """Start the engine, warm it, take away what is not needed, say hello."""
    descriptor, page, parent, uid = (int(argument) for argument in sys.argv[1:5])
    connection = socket(fileno=descriptor)
    vitals = Vitals.open(page)
    files = epoch_files(int(sys.argv[5]), Path(sys.argv[6]))
    check_engine(files)
    engine = Engine(files.flags if flags is None else flags)
    engine.on_fatal = vitals.note_out_of_memory
    warm(engine)
    orjson.dumps(orjson.loads(b"{}"))
    layers = confine(uid=uid if uid >= 0 else None, parent=parent)
    os.environ.clear()
    hello = {"ready": True, "confinement": layers, "v8": engine.v8.version, "cpu_ns": time.process_time_ns()}
    connection.sendall(Frame(hello).encode())
    return connection, vitals, engine


def main() -> None:
    files = epoch_files(int(sys.argv[5]), Path(sys.argv[6]))
    libraries: list[Library] = []

    def warm(engine: Engine) -> None:
        self_test(engine, files)
        libraries.extend(warm_libraries(engine, files))

    connection, vitals, engine = start(None, warm)
    child = Child(libraries, engine, vitals, blanks=int(sys.argv[7]))
    serve(connection, child.answer, child.prepare)
    os._exit(0)


if __name__ == "__main__":
    main()
