"""What the tools really did, one line per execution, so that the example can say that no call was repeated."""

import json
import os
from collections import Counter
from pathlib import Path

DATA = Path(os.environ.get("REWIND_DATA", ".rewind"))
FOLDER = DATA / "quickstart"
EXECUTED = FOLDER / "executed.jsonl"


def executed(tool: str, key: str) -> None:
    """Note an execution; `key` is the idempotency key of the call, the same for each of its attempts."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with EXECUTED.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"tool": tool, "key": key}) + "\n")


def executions(run: str) -> Counter[str]:
    """How often each call of a run was executed, by its key, which begins with the run's id."""
    if not EXECUTED.exists():
        return Counter()
    keys = (json.loads(line)["key"] for line in EXECUTED.read_text(encoding="utf-8").splitlines())
    return Counter(key for key in keys if key.startswith(f"{run}/"))
