"""The verb `login`: a server and a key that the command remembers for this user."""

import argparse
import getpass
import json
import os
import sys
from pathlib import Path
from typing import Any

from rewind._cli_base import Console, Usage
from rewind._client import Rewind
from rewind._config import LOCAL_URL, mask_secrets
from rewind._errors import ApiError, ConfigurationError, ConnectionFailed

PREFIXES = {"rwk_": "api_key", "rwt_": "token"}
REFUSED, UNREACHABLE = 3, 4


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    login = verbs.add_parser(
        "login",
        help="remember a server and a key",
        description="Remember a server and a key for this user. The key is asked for, or read from stdin. "
        "REWIND_URL and REWIND_API_KEY, and the server of this folder, come before what is remembered.",
    )
    login.set_defaults(handler=login_or_forget, parser=login)
    login.add_argument("--url", help=f"address of the server (default: REWIND_URL, then {LOCAL_URL})")
    login.add_argument("--forget", action="store_true", help="remove what is remembered")
    login.add_argument("--json", action="store_true", help="print the answer as one line of JSON")


def login_or_forget(arguments: argparse.Namespace) -> int:
    console = Console.of(sys.stdout, sys.stderr)
    path = credentials_file()
    if arguments.forget:
        path.unlink(missing_ok=True)
        console.note(f"nothing is remembered in {path}")
        return 0
    url = arguments.url or os.environ.get("REWIND_URL") or LOCAL_URL
    secret = (getpass.getpass("API key or token: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    kind = PREFIXES.get(secret[:4])
    if kind is None:
        raise Usage("An API key begins with rwk_, a token with rwt_: give one on stdin, or when asked.")
    try:
        with Rewind(**{kind: secret}, base_url=url) as client:  # type: ignore[arg-type]
            principal = client.me()["principal"]
    except ConfigurationError as error:
        raise Usage(str(error)) from error
    except ApiError as error:
        console.error(mask_secrets(str(error)))
        return REFUSED
    except ConnectionFailed as error:
        console.error(str(error))
        return UNREACHABLE
    _write(path, {"url": url, kind: secret})
    if arguments.json:
        console.json({"url": url, "principal": principal})
    else:
        whose = principal["namespace"] or f"organization {principal['organization']}"
        console.line(f"{url} is remembered, with the {principal['kind']} of {whose}")
    return 0


def remembered() -> dict[str, Any]:
    """`{url, api_key or token}` of the last login; empty without one."""
    try:
        found = json.loads(credentials_file().read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def credentials_file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "rewind" / "credentials.json"


def _write(path: Path, value: dict[str, str]) -> None:
    """Readable by its owner alone, from the first moment on."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(value, file)
    fresh.replace(path)
