"""`python -m tests.sandbox.isolate.one_layer LAYER PORT`: apply one layer alone, then try what it is there to forbid.

Prints what happened as JSON: {"off": why} or attempt -> "allowed" or the name of the error.
"""

import errno
import json
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from sandbox.isolate import confine
from sandbox.isolate.seccomp import SeccompUnavailableError, install_filter

UID = 61_999


def attempt(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "allowed"


def connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=5).close()


def mount() -> None:
    if confine._libc.mount(b"none", b"/mnt", b"tmpfs", 0, None) < 0:
        raise OSError(confine.ctypes.get_errno(), "mount")


def write_much(file: int) -> None:
    os.write(file, b"x" * 100_000)


def open_many() -> None:
    for _ in range(100):
        os.open("/dev/null", os.O_RDONLY)


def main() -> None:
    layer, port = sys.argv[1], int(sys.argv[2])
    file, name = tempfile.mkstemp()
    Path(name).unlink()
    layers: dict[str, tuple[Callable[[], None], dict[str, Callable[[], object]]]] = {
        "uid": (lambda: confine._own_uid(UID), {"become root": lambda: os.setuid(0)}),
        "namespaces": (confine._namespaces, {"connect": lambda: connect(port), "mount": mount}),
        "landlock": (
            lambda: confine._landlock(None),
            {"read": Path("/etc/passwd").read_text, "list": lambda: list(Path("/").iterdir())},
        ),
        "seccomp": (install_filter, {"socket": socket.socket, "fork": os.fork, "read": open_many}),
        "limits": (
            confine._limits,
            {"write": lambda: write_much(file), "open": open_many},
        ),
    }
    apply, attempts = layers[layer]
    before = attempt(lambda: connect(port))
    assert before == "allowed", before
    try:
        apply()
    except (confine.UnavailableError, SeccompUnavailableError, OSError) as error:
        print(json.dumps({"off": str(error)}))
        return
    result = {what: attempt(act) for what, act in attempts.items()}
    result["core"] = str(resource.getrlimit(resource.RLIMIT_CORE)[0]) if layer == "limits" else ""
    os.write(1, json.dumps(result).encode())


if __name__ == "__main__":
    main()
