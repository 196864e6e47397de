"""Blank the types of a script, or say why it is refused."""

from dataclasses import asdict

import orjson

from sandbox.isolate.compiled import Compiled
from sandbox.store.postgres.requests import SandboxRequest
from sandbox.worker.answers.bench import Bench


async def strip(bench: Bench, request: SandboxRequest) -> bytes:
    """`{source, epoch}` → `{compiled or null, diagnostics}`."""
    question = orjson.loads(request.payload)
    result = await bench.children.strip(question["source"], question["epoch"], tenant=request.namespace)
    if isinstance(result, Compiled):
        return orjson.dumps({"compiled": result.to_json(), "diagnostics": []})
    return orjson.dumps({"compiled": None, "diagnostics": [asdict(item) for item in result]})
