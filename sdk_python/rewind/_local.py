"""The sandbox on this machine: distribution `rewind-sandbox`, spoken to over stdio, one line of JSON each way."""

import importlib.util
import json
import subprocess
import sys
from typing import Any

INSTALL = "This runs scripts on this machine: pip install 'rewind-sdk[local]'"


class LocalSandboxError(Exception):
    """The sandbox refused the request, or could not be used; `code` is its own, `not_installed` or `failed`."""

    def __init__(self, code: str, message: str, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.problem = problem or {"code": code, "message": message}


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Start the sandbox for one request. Errors: LocalSandboxError."""
    try:
        found = importlib.util.find_spec("sandbox.local")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise LocalSandboxError("not_installed", INSTALL)
    line = json.dumps(request).encode() + b"\n"
    done = subprocess.run(
        [sys.executable, "-m", "sandbox.local"], input=line, capture_output=True, check=False
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
            f"exit code {done.returncode}"
        ]
        raise LocalSandboxError("failed", f"the local sandbox gave no answer: {words[0]}") from None
    if "error" in answer:
        error = answer["error"]
        raise LocalSandboxError(str(error.get("code")), str(error.get("message")), error)
    result: dict[str, Any] = answer["result"]
    return result
