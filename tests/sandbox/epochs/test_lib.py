"""The checker's lib declares exactly what the sandbox has: every global and every member, walked both ways."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.node import node_path
from sandbox.epochs.build import EPOCHS, ROOT
from tests.sandbox.isolate.conftest import Run

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = Path(__file__).parent

UNDECLARED = {
    "Object.__defineGetter__": "old, and TypeScript itself leaves it out",
    "Object.__defineSetter__": "the same",
    "Object.__lookupGetter__": "the same",
    "Object.__lookupSetter__": "the same",
    "Object.__proto__": "the same",
    "Date.getYear": "the same",
    "Date.setYear": "the same",
    "Date.toGMTString": "the same",
    "Intl.Symbol.toStringTag": "a namespace, which cannot declare a symbol",
    "Reflect.Symbol.toStringTag": "the same",
}
"""In the engine, not in the lib: each with its reason."""

MISSING = {
    "Iterator.next": "abstract: an iterator's own, not its prototype's",
    "Iterator.return": "the same",
    "Iterator.throw": "the same",
    "SuppressedError.cause": "every error may have one; V8's SuppressedError takes no options",
}
"""In the lib, not in the engine: each with its reason."""

ERROR_STATICS = {"captureStackTrace", "isError", "stackTraceLimit"}
"""Inherited by constructors whose interfaces in TypeScript extend nothing, as is Symbol.species by typed arrays."""


@pytest.fixture(scope="module")
def declared() -> dict[str, dict[str, list[str]]]:
    command = [str(node_path()), str(HERE / "declared.cjs"), str(EPOCHS / "e1" / "built" / "lib.d.ts")]
    environment = {"NODE_PATH": str(ROOT / "node_modules")}
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    return found


def names(walked: dict[str, Any], of_every_object: set[str]) -> set[str]:
    """Every global as such and every member as `Global.member`; what all objects have is told once."""
    found = set(walked)
    for name, members in walked.items():
        for kind in ("statics", "members"):
            found |= {
                f"{name}.{member}"
                for member in members[kind]
                if name == "Object" or member not in of_every_object
            }
    return found


async def test_lib_is_engine(run: Run, declared: dict[str, Any]) -> None:
    engine = (await run((HERE / "walk.ts").read_text(), both=False)).output
    for constant in ("Infinity", "NaN"):
        declared[constant] = {"statics": [], "members": []}  # numbers: their methods are Number's
    everywhere = {name for name in engine["Object"]["members"] if not name.startswith("__")} | {"constructor"}
    have = names(engine, everywhere)
    say = names({name: declared[name] for name in declared if not name.startswith('"language:')}, everywhere)
    errors = [name for name in engine if name.endswith(("Error", "Exception"))]
    inherited = {f"{name}.{static}" for name in errors for static in ERROR_STATICS}
    inherited |= {f"{name}.Symbol.species" for name in engine if name.endswith("Array") and name != "Array"}
    undeclared, missing = sorted(have - say - set(UNDECLARED) - inherited), sorted(say - have - set(MISSING))
    assert not undeclared, f"in the engine, not in the lib: {', '.join(undeclared)}"
    assert not missing, f"in the lib, not in the engine: {', '.join(missing)}"
    assert set(UNDECLARED) <= have - say, "an exception that is none any more"
    assert set(MISSING) <= say - have, "an exception that is none any more"
