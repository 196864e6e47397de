"""What `schemathesis run` loads: real ids and names among the invented ones, so that calls get past the first check.

REWIND_PLACES names a file: `{places: {name: [texts]}, spare: {name: [texts]}, query: {name: text}}`. `spare` is what
calls may destroy.
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import schemathesis

WAIT_MS = "20"
REAL = 0.85
"""So often a real value takes the place of an invented one."""
KNOWN = json.loads(Path(os.environ["REWIND_PLACES"]).read_text())
DESTROYS = ("/suspend", "/redact", "/abandon")


def _chosen(chance: random.Random, name: str, path: str, method: str) -> str | None:
    spent = method == "DELETE" or path.endswith(DESTROYS)
    kept = KNOWN["spare" if spent else "places"]
    place = f"{path.split('/')[2]}.{name}" if name in {"name", "reference"} else name
    found = KNOWN["ended"] if path.endswith("/events") else kept.get(place) or kept.get(name)
    return chance.choice(found) if found and chance.random() < REAL else None


def _filled(chance: random.Random, body: Any) -> Any:
    """The same body with real scripts, tools, runs and tokens in it."""
    if isinstance(body, list):
        return [_filled(chance, item) for item in body]
    if not isinstance(body, dict):
        return body
    made = {}
    for key, value in body.items():
        real = KNOWN["places"].get(f"body.{key}") or KNOWN["places"].get(key)
        take = real and isinstance(value, str) and chance.random() < REAL
        made[key] = chance.choice(real) if take else _filled(chance, value)
    if isinstance(made.get("wait"), str | int | float):
        made["wait"] = WAIT_MS if isinstance(made["wait"], str) else min(int(WAIT_MS), made["wait"])
    return made


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Every call says whose it is, and none waits long."""
    chance = random.Random(repr((case.path_parameters, case.query, case.method, case.path)))
    for name in list(case.path_parameters or {}):
        real = _chosen(chance, name, case.path, case.method)
        if real is not None:
            case.path_parameters[name] = real
    if isinstance(case.body, dict | list):
        case.body = _filled(chance, case.body)
    query = dict(case.query or {})
    for name, text in KNOWN["query"].items():
        if name not in query or chance.random() < REAL:
            query[name] = text
    if "wait" in query:
        query["wait"] = WAIT_MS
    case.query = query
