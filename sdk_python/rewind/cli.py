"""The command `rewind`: verbs that talk to a server, and those that an installed server adds.

Exit codes: 0 ok, 1 the run did not complete, 2 wrong usage, 3 refused by the server, 4 unreachable.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rewind import (
    _cli_approvals,
    _cli_listen,
    _cli_login,
    _cli_replays,
    _cli_runs,
    _cli_scripts,
    _cli_settings,
)
from rewind._cli_base import DEFAULT_NAMESPACE, Console, Usage
from rewind._client import Rewind
from rewind._config import mask_secrets, package_version
from rewind._errors import ApiError, ConfigurationError, ConnectionFailed, RewindError

OK, FAILED, USAGE, REFUSED, UNREACHABLE = range(5)
COMMANDS = "rewind.commands"
"""Entry-point group: each member is `register(subparsers)` and sets `handler(arguments) -> exit code`."""
SERVER_VERBS = ("dev", "serve", "worker", "db", "doctor", "admin")
REMOTE_VERBS = (
    "run", "runs", "check", "approvals", "toolsets", "tokens", "cassette", "replay", "verify", "test",
    "listen", "login",
)  # fmt: skip
DESCRIPTION = """Durable runs of TypeScript scripts.

The server is found by REWIND_URL and REWIND_API_KEY (or REWIND_TOKEN); without them by .rewind/dev.json of this
folder, which `rewind dev` writes, or by what `rewind login` has remembered. An API key acts in the namespace `default` unless --namespace names another;
`approvals` is about all of them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    console = Console.of(sys.stdout, sys.stderr)
    try:
        return _dispatch(given, console)
    except Usage as error:
        console.error(str(error))
        return USAGE
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130


def _dispatch(given: list[str], console: Console) -> int:
    verb = next((word for word in given if not word.startswith("-")), None)
    parser, problems = _parser(with_server=verb not in REMOTE_VERBS)
    if verb in SERVER_VERBS and verb not in _verbs(parser):
        reason = f" ({problems[0]})" if problems else ""
        raise Usage(f"`rewind {verb}` comes with the server: pip install rewind-server{reason}")
    arguments, unknown = parser.parse_known_args(given)
    if unknown:  # told by the verb's own parser, whose usage is the one to look at
        (getattr(arguments, "parser", None) or parser).error(f"unknown arguments: {' '.join(unknown)}")
    handler: Callable[..., int] | None = getattr(arguments, "handler", None)
    if handler is None:
        (getattr(arguments, "parser", None) or parser).print_help()
        return USAGE if given else OK
    if not getattr(arguments, "remote", False):
        return handler(arguments)
    return _remote(handler, arguments, console)


def _remote(handler: Callable[..., int], arguments: argparse.Namespace, console: Console) -> int:
    """Call a verb with a client, and say what went wrong so that a person can act on it."""
    console.as_json = arguments.json
    try:
        with connect(arguments) as client:
            return handler(arguments, client, console)
    except ApiError as error:
        if arguments.json:
            console.json({**error.problem, "status": error.status, "code": error.code})
        console.error(mask_secrets(str(error)))
        if advice := _advice(error):
            console.note(advice)
        if error.status >= 500 and error.request_id:
            console.note(f"request {error.request_id}")
        return REFUSED
    except ConnectionFailed as error:
        console.error(str(error))
        console.note("Is the server running? `rewind dev` starts one here; REWIND_URL names another.")
        return UNREACHABLE
    except ConfigurationError as error:
        raise Usage(str(error)) from error
    except RewindError as error:
        console.error(str(error))
        return FAILED


def connect(arguments: argparse.Namespace) -> Rewind:
    """The client that the arguments and the environment describe; else that of `.rewind/dev.json`."""
    secret = os.environ.get("REWIND_API_KEY") or os.environ.get("REWIND_TOKEN")
    url = arguments.url or os.environ.get("REWIND_URL")
    known = [] if secret else [_dev_server(), _cli_login.remembered()]
    # The key of one server is not shown to another.
    fitting = (
        one for one in known if one and (not url or url.rstrip("/") == str(one.get("url")).rstrip("/"))
    )
    found = next(fitting, {})
    if not secret and not found:
        if url:
            raise Usage(f"No key for {url}: set REWIND_API_KEY (or REWIND_TOKEN).")
        raise Usage(
            "No server to talk to: set REWIND_URL and REWIND_API_KEY (or REWIND_TOKEN), "
            "start one in this folder with `rewind dev`, or let `rewind login` remember one."
        )
    secret = secret or str(found.get("api_key") or found.get("token"))
    everywhere = secret.startswith("rwt_") or getattr(arguments, "all_namespaces", False)
    namespace = arguments.namespace or (None if everywhere else DEFAULT_NAMESPACE)
    kind = "token" if secret.startswith("rwt_") else "api_key"
    return Rewind(**{kind: secret}, base_url=url or found.get("url"), namespace=namespace)  # type: ignore[arg-type]


def _dev_server() -> dict[str, Any]:
    path = Path(os.environ.get("REWIND_DATA", ".rewind")) / "dev.json"
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _parser(*, with_server: bool) -> tuple[argparse.ArgumentParser, list[str]]:
    """All verbs; those of the server only when asked for, since importing it takes a while."""
    parser = argparse.ArgumentParser(
        prog="rewind", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"rewind-sdk {package_version()}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    _cli_runs.register(verbs)
    _cli_scripts.register(verbs)
    _cli_approvals.register(verbs)
    _cli_settings.register(verbs)
    _cli_replays.register(verbs)
    _cli_listen.register(verbs)
    _cli_login.register(verbs)
    problems: list[str] = []
    if with_server:
        for point in entry_points(group=COMMANDS):
            try:
                point.load()(verbs)
            except ImportError as error:
                problems.append(f"{point.value}: {error}")
    return parser, problems


def _verbs(parser: argparse.ArgumentParser) -> set[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return set(action.choices)
    return set()


def _advice(error: ApiError) -> str | None:
    """What to do next, where the code alone says it."""
    match error.code:
        case "unauthenticated":
            return "Check REWIND_API_KEY or REWIND_TOKEN; .rewind/dev.json has the key of `rewind dev`."
        case "not_found" if "namespace" in error.detail:
            return "With an API key, --namespace says whose objects are meant."
        case "unknown_toolset":
            return "`rewind toolsets list` shows the registered ones."
        case "insufficient_scope":
            return "Use an API key, or a token with that scope."
        case _:
            return None


if __name__ == "__main__":
    raise SystemExit(main())
