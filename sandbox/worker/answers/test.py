"""Try a script in virtual time: nothing is called, nothing is stored."""

from typing import Any

import orjson

from sandbox.activation import reenact
from sandbox.store.postgres.requests import SandboxRequest
from sandbox.worker.answers.bench import Bench


async def try_script(bench: Bench, request: SandboxRequest) -> bytes:
    """`{source, epoch, tools, toolset?, namespace, input?, cassette?, mocks?, signals?, approvals?}` → the report."""
    question: dict[str, Any] = orjson.loads(request.payload)
    return orjson.dumps(await reenact.try_script(bench.children, question, request.namespace))
