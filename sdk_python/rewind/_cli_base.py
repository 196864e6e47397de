"""What the verbs of the command share: output, common options, values given as text."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from rewind._style import Style

DEFAULT_NAMESPACE = "default"
"""In which an API key acts unless --namespace names another."""
RUN_HELP = "the id of a run, as `rewind runs list` shows it"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Usage(Exception):
    """The command line can't mean anything; the message says what is expected."""


class Console:
    """Results on stdout, everything else on stderr."""

    def __init__(self, out: TextIO, err: TextIO, style: Style, err_style: Style) -> None:
        self._out = out
        self._err = err
        self.style = style
        self.err_style = err_style
        self.as_json = False

    @classmethod
    def of(cls, out: TextIO, err: TextIO) -> "Console":
        return cls(out, err, Style.of(out), Style.of(err))

    def line(self, text: str = "") -> None:
        print(text, file=self._out, flush=True)

    def json(self, value: Any) -> None:
        """A result for a program: one line, so that several can follow each other."""
        print(json.dumps(value, ensure_ascii=True, separators=(",", ":")), file=self._out, flush=True)

    def error(self, text: str) -> None:
        head, *rest = self.err_style.plain_lines(text)
        print(self.err_style.red("error: ") + head, *rest, sep="\n", file=self._err, flush=True)

    def note(self, text: str) -> None:
        print(self.err_style.dim("\n".join(self.err_style.plain_lines(text))), file=self._err, flush=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns as wide as their widest cell; the last one is left as it is."""
        widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
        widths[-1] = 0
        for number, row in enumerate([heads, *rows]):
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self.line(self.style.bold(text) if number == 0 else self.style.plain(text))


def remote_verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    handler: Callable[..., int],
    *,
    help: str,  # noqa: A002 - argparse's name
) -> argparse.ArgumentParser:
    """A verb that talks to a server, with the options that all of them take."""
    parser = verbs.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
    parser.set_defaults(handler=handler, remote=True, parser=parser)
    parser.add_argument("--url", help="address of the server (default: REWIND_URL, then .rewind/dev.json)")
    parser.add_argument("--namespace", help="the end user whose objects are meant (API keys only)")
    parser.add_argument("--json", action="store_true", help="print the answer as one line of JSON")
    return parser


def group(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    *,
    help: str,  # noqa: A002 - argparse's name
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    """A verb that only has verbs of its own."""
    parser = verbs.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
    parser.set_defaults(parser=parser)
    return parser.add_subparsers(title="commands", metavar="COMMAND")


def json_argument(text: str, what: str) -> Any:
    """A value given as JSON, as `@file`, or as `-` for stdin."""
    source = what
    if text == "-":
        text, source = sys.stdin.read(), "stdin"
    elif text.startswith("@"):
        source = text[1:]
        text = read_file(source)
    try:
        return json.loads(text)
    except ValueError as error:
        hint = f" Text needs quotes: '{json.dumps(text)}'." if source == what and "\n" not in text else ""
        raise Usage(f"{source} is no JSON: {error}.{hint}") from None


def read_file(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Usage(f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Usage(f"{path} is not UTF-8 text") from None


def labels_argument(pairs: Sequence[str] | None) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Usage(f"--label takes key=value, not {pair!r}")
        labels[key] = value
    return labels


def seconds(text: str) -> float:
    """A duration such as `500` (ms), `30s` or `1h 30m`, in seconds; for argparse."""
    stripped = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        return float(stripped) / 1000
    parts = _DURATION.findall(stripped)
    if not parts or _DURATION.sub("", stripped).strip():
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 30s, 5m, 1h 30m, or milliseconds")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)
