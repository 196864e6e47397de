"""`rewind doctor`: every setting with its source, what is reached, what is missing and how to get it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app import doctor
from app.doctor import DEFAULTS, Report, examine, text_of
from sandbox.isolate.confine import LAYERS
from tests.fixtures.database import REPOSITORY, new_database
from tests.fixtures.processes import DevProcess

SECRET = "rwk_live_0123456789abcdef"


def problems(report: Report) -> dict[str, str]:
    return {problem.what: problem.help for problem in report.problems}


@pytest.fixture
def confined(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the child reports, without starting one."""
    layers = dict.fromkeys(LAYERS, "on")

    monkeypatch.setattr(doctor, "child_report", lambda _: {"confinement": dict(layers)})
    return layers


def test_every_setting_of_the_product_is_listed() -> None:
    used: set[str] = set()
    for folder in ("app", "sandbox", "infra", "tenancy", "sdk_python/rewind"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            used |= set(re.findall(r"\bREWIND_[A-Z0-9_]+\b", path.read_text()))
    assert used == set(DEFAULTS)


def test_nothing_is_there(tmp_path: Path, confined: dict[str, str]) -> None:
    report = examine({}, tmp_path)
    found = problems(report)
    assert set(found) == {"there is no database", "there is no object store"}
    assert "rewind dev" in found["there is no database"]
    assert {setting.source for setting in report.settings} == {"default"}
    assert json.loads(report.to_json())["ok"] is False


def test_where_settings_come_from_and_no_secret_among_them(tmp_path: Path, confined: dict[str, str]) -> None:
    (tmp_path / "services.json").write_text(
        json.dumps({"database_url": "postgresql://u:hidden@127.0.0.1:1/x", "s3_url": "", "pids": {}})
    )
    environ = {
        "REWIND_API_KEY": SECRET,
        "REWIND_S3_URL": "s3+http://key:hidden@127.0.0.1:1/bucket",
        "REWIND_PORT": "9000",
    }
    report = examine(environ, tmp_path)
    sources = {setting.name: (setting.value, setting.source) for setting in report.settings}
    assert sources["REWIND_PORT"] == ("9000", "environment")
    assert sources["REWIND_DATABASE_URL"] == ("postgresql://u:…@127.0.0.1:1/x", "running server")
    assert sources["REWIND_S3_URL"] == ("s3+http://key:…@127.0.0.1:1/bucket", "environment")
    for text in (report.to_json(), text_of(report)):
        assert "hidden" not in text and SECRET not in text
    advice = {what.split(":")[0]: how for what, how in problems(report).items()}
    assert "start it again" in advice["the database does not answer"], (
        "it is of a `rewind dev` that was killed"
    )
    assert advice["the object store failed"].startswith("REWIND_S3_URL names it")


def test_a_database_that_is_not_upgraded(
    postgres_url: str, s3_url: str, tmp_path: Path, confined: dict[str, str]
) -> None:
    with new_database(postgres_url, template="template1") as url:
        report = examine({"REWIND_DATABASE_URL": url, "REWIND_S3_URL": s3_url}, tmp_path)
    (what, how), *more = problems(report).items()
    assert what.endswith("migrations wait") and how == "run `rewind db upgrade`"
    assert not more
    assert report.object_store


def test_no_worker_and_a_bucket_that_is_missing(
    database_url: str, s3_url: str, tmp_path: Path, confined: dict[str, str]
) -> None:
    environ = {"REWIND_DATABASE_URL": database_url, "REWIND_S3_URL": s3_url + "-none"}
    found = problems(examine(environ, tmp_path))
    assert found["no live worker serves epoch 1"] == "start `rewind worker`"
    assert "the bucket of REWIND_S3_URL does not exist" in found
    assert len(found) == 2


def test_layers_that_are_off_are_a_problem_only_where_they_are_required(
    tmp_path: Path, confined: dict[str, str]
) -> None:
    confined["landlock"] = "landlock: the kernel lacks it"
    assert not any("landlock" in what for what in problems(examine({}, tmp_path)))
    report = examine({"REWIND_REQUIRE_CONFINEMENT": "1"}, tmp_path)
    assert any("landlock" in what for what in problems(report))
    assert "landlock: the kernel lacks it" in text_of(report)


@pytest.mark.e2e
def test_a_running_server(shared_dev: DevProcess) -> None:
    environ: dict[str, Any] = {k: v for k, v in os.environ.items() if not k.startswith("REWIND_")}
    done = subprocess.run(
        [sys.executable, "-m", "rewind.cli", "doctor", "--json"],
        cwd=REPOSITORY,
        env={**environ, "REWIND_DATA": str(shared_dev.data)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["problems"], report["ok"]) == (0, [], True), done.stdout
    assert set(report["confinement"]) == set(LAYERS)
    assert report["database"]["workers"][0]["pid"] == shared_dev.pids()["worker"]
    assert report["migrations"]["waiting"] == []
    assert report["object_store"]
    elsewhere = subprocess.run(
        [sys.executable, "-m", "rewind.cli", "doctor"],
        cwd=REPOSITORY,
        env={**environ, "REWIND_DATA": str(shared_dev.data / "nowhere")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert elsewhere.returncode == 4
    assert "there is no database" in elsewhere.stdout
