"""What the projects declare is what the lock installs, and nothing in the tree names a machine or a registry."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = {"rewind-sdk", "rewind-server"}
ELSEWHERE = re.compile(
    r"py[p]i\.org|pytho[n]hosted\.org|npm[j]s\.(?:org|com)|(?:^|[^A-Za-z0-9_.])/(?:work|farm)/[a-z]"
)


def declared() -> set[str]:
    names: set[str] = set()
    for file in ("pyproject.toml", "sdk_python/pyproject.toml"):
        project = tomllib.loads((REPOSITORY / file).read_text())["project"]
        wanted = [*project["dependencies"], *project.get("optional-dependencies", {}).get("dev", [])]
        names |= {re.split(r"[^A-Za-z0-9._-]", text)[0].lower().replace("_", "-") for text in wanted}
    return names - OURS


def test_lock_has_every_declared_package_with_hashes() -> None:
    lock = (REPOSITORY / "requirements.lock").read_text()
    locked = set(re.findall(r"^([a-z0-9._-]+)==\S+ .*\\\n    --hash=sha256:", lock, re.MULTILINE))
    assert declared() <= locked, "run `make lock`"
    assert "://" not in lock


def test_no_machine_or_registry_is_named() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git clone")
    named = [
        f"{path}: {match[0]}"
        for path in listed.stdout.splitlines()
        if (REPOSITORY / path).is_file()
        for match in [ELSEWHERE.search((REPOSITORY / path).read_text(errors="replace"))]
        if match
    ]
    assert named == []
