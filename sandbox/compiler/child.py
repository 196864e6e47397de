"""The process that reads scripts: `python -m sandbox.compiler.child`, arguments as those of isolate/child.py.

Confined like the one that runs them: TypeScript's parser sees hostile text. Started by the pool by name.
"""

import os
import sys
from pathlib import Path
from socket import socket

import orjson

from sandbox.compiler.strip import Stripper, too_complex
from sandbox.epochs.registry import epoch_files
from sandbox.isolate.child import serve, start
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.engine import COMPILER_FLAGS, Engine, Isolate, StoppedError
from sandbox.isolate.frames import Frame
from sandbox.journal.codeframe import code_frame


def main() -> None:
    files = epoch_files(int(sys.argv[5]), Path(sys.argv[6]))
    connection, _, engine = start(COMPILER_FLAGS, _warm)
    stripper = Stripper(engine, files.stripper)
    serve(connection, lambda request: _answer(stripper, connection, request), lambda: False)
    os._exit(0)


def _warm(engine: Engine) -> None:
    isolate = Isolate(engine, heap_bytes=64 * 1024 * 1024)
    isolate.evaluate("1 + 1")
    isolate.close()
    # Whatever imports a file on first use must have done so before files are out of reach.
    code_frame("warm", 1, 2)


def _answer(stripper: Stripper, connection: socket, request: Frame) -> Frame:
    source = request.body.decode(errors="surrogatepass")
    try:
        result = stripper.strip(source)
    except StoppedError:
        # The isolate is spent: answer the author and leave; the next script gets a new process.
        connection.sendall(_frame([too_complex(source).to_json()], None).encode())
        os._exit(0)
    if isinstance(result, Compiled):
        return _frame([], result)
    return _frame([diagnostic.to_json() for diagnostic in result], None)


def _frame(diagnostics: list[dict[str, object]], compiled: Compiled | None) -> Frame:
    body = {"compiled": None if compiled is None else compiled.to_json(), "diagnostics": diagnostics}
    return Frame({"ok": True}, orjson.dumps(body))


if __name__ == "__main__":
    main()
