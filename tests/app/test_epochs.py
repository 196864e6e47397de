"""What a build says that lacks the epoch of runs that are not over: it changes nothing, and shows it."""

from argparse import Namespace
from pathlib import Path
from uuid import uuid4

import pytest

from app import cli, doctor
from tests.fixtures.database import new_database, psql

UNKNOWN = 9
AS_TEXT = Namespace(json=False)


@pytest.mark.parametrize(
    ("status", "code"),
    [(0, cli.REFUSED), (5, cli.REFUSED), (1, cli.OK)],
    ids=["active", "quarantined", "ended"],
)
def test_db_upgrade_refuses_while_such_runs_are_not_over(
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
    code: int,
) -> None:
    with new_database(postgres_url) as url:
        psql(
            url,
            "insert into runs (namespace_id, run_id, status, epoch, next_seq, last_time, last_event, ready) "
            f"values ('{uuid4()}', '{uuid4()}', {status}, {UNKNOWN}, 1, 0, 0, false)",
        )
        monkeypatch.setenv("REWIND_DATABASE_URL", url)
        assert cli._db_upgrade(AS_TEXT) == code
    said = capsys.readouterr()
    refused = code == cli.REFUSED
    assert (f"runs of epoch {UNKNOWN} are not over" in said.err) is refused
    assert ("nothing to apply" in said.out) is not refused


def test_db_upgrade_of_an_empty_database(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_database(postgres_url, template="template1") as url:
        monkeypatch.setenv("REWIND_DATABASE_URL", url)
        assert cli._db_upgrade(AS_TEXT) == cli.OK
    assert "applied 0001_core.sql" in capsys.readouterr().out


def test_doctor_names_the_epoch(postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "child_report", lambda _: {"confinement": {}})
    with new_database(postgres_url) as url:
        psql(
            url,
            "insert into runs (namespace_id, run_id, epoch, next_seq, last_time, last_event, ready) "
            f"values ('{uuid4()}', '{uuid4()}', {UNKNOWN}, 1, 0, 0, true)",
        )
        report = doctor.examine({"REWIND_DATABASE_URL": url}, tmp_path)
    problems = {problem.what: problem.help for problem in report.problems}
    found = f"runs of epoch {UNKNOWN} are not over, and this build does not have it"
    assert problems[found] == "keep a build that does"
