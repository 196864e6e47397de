"""Becomes the confined type-checker: `python -m sandbox.compiler.tsc_launch PROGRAM PARENT UID`.

One line of JSON on stderr says which layers hold; then nothing of this process is left but the confinement, the
two pipes that it was given, and TypeScript's own binary.
"""

import json
import os
import resource
import sys

from sandbox.isolate.confine import confine

ADDRESS_BYTES_MAX = 1024**3
"""An ordinary check needs 0.8 GiB of address space and 45 MiB of memory; a type bomb dies here by itself."""
ENVIRONMENT = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "GOMAXPROCS": "2", "GOTRACEBACK": "none"}
ARGUMENTS = (
    "tsc",
    "--api",
    "--async",
    "--cwd",
    "/",
    "--callbacks=readFile,fileExists,directoryExists,getAccessibleEntries,realpath",
)


def main() -> None:
    path, parent, uid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # Opened while files can be: the process's own user may not reach the folder.
    program = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_WRONLY)
    layers = confine(uid=uid if uid >= 0 else None, parent=parent, program=program)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
    os.write(2, json.dumps({"confinement": layers}).encode() + b"\n")
    os.dup2(nothing, 2)
    os.execve(program, ARGUMENTS, ENVIRONMENT)  # noqa: S606 - no shell is what is wanted


if __name__ == "__main__":
    main()
