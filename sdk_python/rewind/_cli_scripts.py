"""The verb `check`."""

import argparse
from typing import Any

from rewind._cli_base import Console, json_argument, read_file, remote_verb
from rewind._client import Rewind
from rewind._style import without_escapes

REFUSED = 3

Verbs = argparse._SubParsersAction


def register(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    check = remote_verb(verbs, "check", check_file, help="check a script's types against a toolset")
    check.add_argument("file", metavar="FILE", help="the script (- for stdin)")
    check.add_argument("--toolset", help="the tools that the script may call: NAME or NAME@sha256:…")
    check.add_argument("--input", metavar="JSON", help="check this argument of main too: JSON or @file")


def check_file(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    """Exit code 3 when the script would be refused; warnings are printed and refuse nothing."""
    options: dict[str, Any] = {}
    if arguments.input is not None:
        options["input"] = json_argument(arguments.input, "--input")
    found = client.scripts.check(read_file(arguments.file), toolset=arguments.toolset, **options)
    if arguments.json:
        console.json(found.raw)
        return 0 if found.ok else REFUSED
    for diagnostic in found.diagnostics:
        _show(diagnostic, arguments.file, console)
    if found.ok:
        takes = "" if found.input_type is None else f"main takes {found.input_type}, "
        console.line(without_escapes(f"ok: {takes}gives {found.output_type or 'nothing'}"))
        return 0
    wrong = sum(one.get("severity") == "error" for one in found.diagnostics)
    console.note(f"{wrong} {'error' if wrong == 1 else 'errors'}")
    return REFUSED


def _show(diagnostic: dict[str, Any], file: str, console: Console) -> None:
    severity = str(diagnostic.get("severity"))
    place = f"{file}:{diagnostic.get('line')}:{diagnostic.get('column')}"
    head = f"{place} {severity} {diagnostic.get('code')}: {diagnostic.get('message')}"
    colour = console.style.red if severity == "error" else console.style.yellow
    console.line(colour(without_escapes(head)))
    if diagnostic.get("frame"):
        console.line(without_escapes(str(diagnostic["frame"])))
    if diagnostic.get("hint"):
        console.line(without_escapes(f"hint: {diagnostic['hint']}"))
    console.line()
