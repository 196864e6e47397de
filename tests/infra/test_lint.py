"""Each of our rules finds what it is for, and leaves alone what looks like it."""

import pytest

from infra.lint.__main__ import main
from infra.lint.rules import RULES, Source, check

BAD = {
    "system-reach": [
        ("app/runs/service.py", "with as_system(): pass"),
        ("tenancy/keys/service.py", "limit_to(Reach(system=True))"),
        ("app/runs/service.py", "rows = store.own_pool.fetch(sql)"),
        ("app/approvals/repository.py", "async def f(pool): return pool.system.acquire()"),
    ],
    "sql-outside-repositories": [
        ("app/runs/service.py", 'ask("select id from runs where id = $1", run)'),
        ("app/runs/service.py", 'ask(f"insert into runs ({columns}) values ($1)")'),
        ("billing/service.py", 'X = """\n  update runs\n  set status = 1"""'),
        ("dashboard/runs.py", 'ask("DELETE FROM runs")'),
    ],
    "repository-takes-a-scope": [
        ("app/approvals/repository.py", "class Runs:\n  async def get(self, run: RunId) -> Row: ..."),
        ("tenancy/repository.py", "class Tokens:\n  async def page(self) -> Row: ..."),
    ],
    "commit-outside-unit-of-work": [("app/runs/service.py", "async def f(s):\n  await s.commit()")],
    "async-in-pure-code": [
        ("sandbox/journal/state.py", "async def apply(state): ..."),
        ("billing/plans.py", "async def limits(): ..."),
    ],
    "wall-clock-in-product": [
        ("app/runs/service.py", "import time\nnow = time.time()"),
        ("sandbox/worker.py", "from datetime import datetime, UTC\nnow = datetime.now(UTC)"),
    ],
    "sleep-in-tests": [
        ("tests/app/test_a.py", "import time\ntime.sleep(1)"),
        ("tests/app/test_a.py", "import asyncio\nasync def f(): await asyncio.sleep(0.1)"),
    ],
    "swallowed-cancellation": [
        ("app/serve.py", "import asyncio\nasync def f(e): await asyncio.wait_for(e.wait(), 1)")
    ],
    "import-in-function": [("app/main.py", "def f():\n  import json\n  return json")],
    "unfinished-marks": [("app/main.py", "x = 1  # TODO: later"), ("app/main.py", "# FIXME\nx = 1")],
}
GOOD = [
    ("app/serve.py", "with as_system(): pass"),
    ("app/doctor.py", "name = platform.system()"),
    ("app/runs/service.py", "limit_to(Reach(organization=organization))"),
    ("app/approvals/repository.py", 'X = "select id from runs"'),
    ("app/runs/service.py", '"""Select a run from the list and update it."""'),
    (
        "app/runs/service.py",
        'raise Error("select a run from these") from None\nsay("delete it, or insert another")',
    ),
    ("app/runs/service.py", 'say("update the script and try again")'),
    (
        "app/approvals/repository.py",
        "class Runs:\n  async def get(self, namespace: NamespaceId, run: RunId): ...",
    ),
    (
        "app/approvals/repository.py",
        'class Runs:\n  async def get(self, key: "Principal | None"): ...\n  def _row(self): ...',
    ),
    ("app/approvals/repository.py", "class Runs:\n  def __init__(self, pool): ..."),
    ("sandbox/store/postgres/batcher.py", "async def f(s):\n  await s.commit()"),
    ("sandbox/worker.py", "import time\nbegan = time.monotonic()"),
    ("tests/app/test_a.py", "import asyncio\nasync def f(): await asyncio.sleep(0)"),
    ("tests/bench/rig.py", "import time\ntime.sleep(1)"),
    ("app/main.py", "def f():\n  # Slow to load, and rarely needed.\n  import json\n  return json"),
    ("app/main.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import json"),
    ("app/main.py", 'url = "#TODO"'),
]


@pytest.mark.parametrize(
    ("rule", "path", "text"), [(rule, path, text) for rule, cases in BAD.items() for path, text in cases]
)
def test_rule_finds(rule: str, path: str, text: str) -> None:
    assert {finding.rule for finding in check(Source.parse(path, text))} == {rule}


@pytest.mark.parametrize(("path", "text"), GOOD)
def test_no_false_alarm(path: str, text: str) -> None:
    assert check(Source.parse(path, text)) == []


def test_every_rule_has_a_case() -> None:
    assert {rule.__name__.replace("_", "-") for rule in RULES} == set(BAD)


def test_command_fails_and_names_the_place(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/main.py").write_text("x = 1\ny = 2  # XXX\n")
    monkeypatch.setattr("sys.argv", ["lint", str(tmp_path)])
    assert main() == 1
    assert capsys.readouterr().out == (
        "app/main.py:2: finish it, or file an issue: the code carries no such marks [unfinished-marks]\n"
    )
