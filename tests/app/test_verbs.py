"""What verbs have in common: asking before what cannot be taken back, tables, exit codes."""

import argparse
import io
import sys

import pytest

from app.verbs import FAILED, OK, REFUSED, UNREACHABLE, USAGE, WrongUsage, confirm, guarded, table
from infra.processes import InfraError
from sandbox.config import SettingsError
from sandbox.journal.errors import Unavailable
from tenancy.errors import NotFound


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "done"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, typed: str, *, done: bool) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    asked = argparse.Namespace(yes=False)
    if done:
        confirm(asked, "It ends.")
    else:
        with pytest.raises(WrongUsage, match="nothing was changed"):
            confirm(asked, "It ends.")


def test_elsewhere_somebody_has_said_yes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(WrongUsage, match=r"It ends\. Nobody can be asked here: add --yes"):
        confirm(argparse.Namespace(yes=False), "It ends.")
    confirm(argparse.Namespace(yes=True), "It ends.")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, OK),
        (InfraError("broken"), FAILED),
        (SettingsError("wrong"), USAGE),
        (WrongUsage("more"), USAGE),
        (NotFound("none"), REFUSED),
        (Unavailable("away"), UNREACHABLE),
    ],
)
def test_each_fault_has_its_exit_code(
    capsys: pytest.CaptureFixture[str], error: Exception | None, code: int
) -> None:
    def handler(_: argparse.Namespace) -> int:
        if error is not None:
            raise error
        return OK

    assert guarded(handler, argparse.Namespace()) == code
    told = capsys.readouterr().err
    assert told == ("" if error is None else f"rewind: {error}\n")


def test_a_table_has_its_columns_under_each_other() -> None:
    text = table(("NAME", "RUNS"), [("a", 1_000_000), ("a long one\nof two lines", None)], none="nothing")
    assert text.splitlines() == [
        "NAME                     RUNS",
        "a                        1,000,000",
        "a long one of two lines  -",
    ]
    assert table(("NAME",), [], none="nothing") == "nothing"
