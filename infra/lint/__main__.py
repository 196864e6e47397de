"""`python -m infra.lint [ROOT]`: print what breaks our rules; exit code 1 when anything does."""

import sys
from collections.abc import Iterator
from pathlib import Path

from infra.lint.rules import Finding, Source, check

FOLDERS = ("app", "billing", "dashboard", "examples", "infra", "sandbox", "sdk_python", "tenancy", "tests")
ROOT = Path(__file__).resolve().parents[2]


def sources(root: Path = ROOT) -> Iterator[Source]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if "node_modules" not in path.parts:
                yield Source.parse(path.relative_to(root).as_posix(), path.read_text())


def findings(root: Path = ROOT) -> list[Finding]:
    return [finding for source in sources(root) for finding in check(source)]


def main() -> int:
    found = findings(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
