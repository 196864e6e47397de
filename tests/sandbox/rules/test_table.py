"""README.md names tests that exist."""

import re
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parents[1]


def test_every_test_that_the_table_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (HERE / "README.md").read_text()))
    written = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 80
    assert named - written == set()
