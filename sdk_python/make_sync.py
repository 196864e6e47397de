"""Write the blocking resources (`rewind/_sync`) from the asynchronous ones (`rewind/_async`).

`python sdk_python/make_sync.py` writes them, `--check` exits 1 when they are out of date (a test calls it).
"""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "rewind"
HEADER = """# Written by sdk_python/make_sync.py from {source}; change that file.
# ruff: noqa: I001
# fmt: off
"""
REPLACEMENTS = (
    (r"\bawait ", ""),
    (r"\basync (def|for|with)\b", r"\1"),
    (
        r"\bAsync(Audit|Keys|Usage|Runs|Approvals|Forks|Keeping|Scripts|Toolsets|Tokens|Secrets|Webhooks|Workflows|Namespaces|Tasks|Pager|Core|Iterator)\b",
        r"\1",
    ),
    (r"\bAsyncGenerator\[(\w+), None\]", r"Iterator[\1]"),
    (r"\bAsyncGenerator\b", "Iterator"),
    (r"\bAwaitable\[(\w+\[\w+\])\]", r"\1"),
    (r"Awaitable, ", ""),
    (r"__aiter__", "__iter__"),
    (r"for item in page\.data:\n\s+yield item", "yield from page.data"),
    (r"rewind\._async\b", "rewind._sync"),
    (
        r"from rewind\._core import Core, (.*)",
        r"from rewind._core import \1\nfrom rewind._portal import Core",
    ),
)


def blocking(source: str, name: str) -> str:
    """The blocking form of one asynchronous module."""
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source)
    return HEADER.format(source=f"rewind/_async/{name}") + source


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    stale: list[str] = []
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        text = source.read_text()
        wanted = blocking(text, source.name) if text else ""
        target = PACKAGE / "_sync" / source.name
        if not target.exists() or target.read_text() != wanted:
            stale.append(source.name)
            if not check:
                target.parent.mkdir(exist_ok=True)
                target.write_text(wanted)
    if check and stale:
        print(f"rewind/_sync is out of date ({', '.join(stale)}): run python sdk_python/make_sync.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
