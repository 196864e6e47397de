"""A sandbox child that, once confined, tries what each layer forbids and reports how it went."""

import ctypes
import os
import signal
import socket as sockets
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from sandbox.isolate.child import start
from sandbox.isolate.engine import Engine
from sandbox.isolate.frames import Frame, receive_frame


def attempt(act: Callable[[], object]) -> str:
    try:
        return f"allowed: {act()!r}"
    except OSError as error:
        return f"refused: {error.strerror}"


def attempts(parent: int) -> dict[str, str]:
    libc = ctypes.CDLL(None, use_errno=True)

    def raw(number: int, *arguments: int) -> int:
        result = libc.syscall(number, *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return int(result)

    thread = threading.Thread(target=lambda: None)
    return {
        "read a file": attempt(lambda: Path("/etc/hostname").read_text()),
        "list a folder": attempt(lambda: list(Path("/").iterdir())),
        "write a file": attempt(lambda: Path("/tmp/escaped").write_text("x")),
        "open a socket": attempt(lambda: sockets.socket(sockets.AF_INET)),
        "open a unix socket": attempt(lambda: sockets.socket(sockets.AF_UNIX)),
        "fork": attempt(os.fork),
        "execute": attempt(lambda: os.execv("/bin/true", ["true"])),
        "run a program": attempt(lambda: subprocess.run(["/bin/true"], check=False)),
        "signal the parent": attempt(lambda: os.kill(parent, 0)),
        "signal another by tgkill": attempt(lambda: raw(234, parent, parent, signal.SIGTERM)),
        "trace": attempt(lambda: raw(101, 0, 0, 0, 0)),
        "read another's memory": attempt(lambda: raw(310, parent, 0, 0, 0, 0, 0)),
        "change user": attempt(lambda: os.setuid(0)),
        "raise a limit": attempt(lambda: raw(302, 0, 2, 0, 0)),
        "mount": attempt(lambda: raw(165, 0, 0, 0, 0, 0)),
        "thread": attempt(thread.start),
    }


def main() -> None:
    parent = int(sys.argv[3])

    def warm(_engine: Engine) -> None:
        str(OSError(1, "warm"))

    connection, _, _ = start(None, warm)
    while (request := receive_frame(connection)) is not None:
        match request.header["op"]:
            case "attempts":
                result: dict[str, object] = dict(attempts(parent))
            case "self":
                result = {
                    "environ": dict(os.environ),
                    "descriptors": [fd for fd in range(64) if fd != connection.fileno() and _is_open(fd)],
                    "uid": os.getuid(),
                }
            case _:
                chunks = []
                result = {}
                try:
                    while len(chunks) < 64:
                        chunks += [bytearray(128 * 1024 * 1024)]
                except MemoryError:
                    result = {"refused_after_mib": 128 * len(chunks)}
                chunks.clear()
        connection.sendall(Frame(result).encode())
    os._exit(0)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
