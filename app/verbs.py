"""What every verb of the server has in common: how it is added, its exit code, how it asks and complains.

Exit codes: 0 ok, 1 failed, 2 wrong usage or settings, 3 refused, 4 a service is unreachable.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from infra.migrate import DatabaseUnreachable
from infra.processes import AlreadyRunning, InfraError
from sandbox.config import SettingsError
from sandbox.journal.errors import ApiError, Unavailable

OK, FAILED, USAGE, REFUSED, UNREACHABLE = range(5)

Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Handler = Callable[[argparse.Namespace], int]


class WrongUsage(Exception):
    """What was typed is not enough, or somebody had to say yes and did not."""


def add_verb(verbs: Parsers, name: str, handler: Handler, text: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text[0].lower() + text[1:].rstrip("."), description=text)
    parser.set_defaults(handler=lambda arguments: guarded(handler, arguments), parser=parser)
    return parser


def add_group(verbs: Parsers, name: str, text: str) -> Parsers:
    """A verb that has verbs."""
    return verbs.add_parser(name, help=text).add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )


def with_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def with_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def guarded(handler: Handler, arguments: argparse.Namespace) -> int:
    """Say what went wrong in one line, with the exit code of its kind."""
    try:
        return handler(arguments)
    except (SettingsError, WrongUsage) as error:
        return complain(error, USAGE)
    except (ApiError, AlreadyRunning) as error:
        return complain(error, REFUSED)
    except (DatabaseUnreachable, Unavailable) as error:
        return complain(error, UNREACHABLE)
    except InfraError as error:
        return complain(error, FAILED)


def complain(error: Exception, code: int) -> int:
    print(f"rewind: {error}", file=sys.stderr)
    return code


def confirm(arguments: argparse.Namespace, what: str) -> None:
    """Ask at a terminal; elsewhere `--yes` must have been given. WrongUsage otherwise."""
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise WrongUsage(f"{what} Nobody can be asked here: add --yes to do it.")
    print(f"{what} Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise WrongUsage("nothing was changed")


def show(arguments: argparse.Namespace, value: Any, text: str) -> int:
    """The result: as JSON where that was asked for."""
    print(json.dumps(value) if arguments.json else text)
    return OK


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, none: str) -> str:
    """Rows in columns under their headers; `none` says what an empty table means."""
    if not rows:
        return none
    texts = [list(headers), *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in texts) for n in range(len(headers))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else " ".join(str(value).split())
    )
