"""Strip and type-check a script against a pinned toolset."""

import asyncio
from typing import Any

import orjson

from sandbox.compiler.check import TypeReport
from sandbox.compiler.diagnostics import nested_too_deeply, readable, too_complex
from sandbox.compiler.strip import early_refusal
from sandbox.compiler.toolset import NO_TOOLS, Toolset, toolset_of
from sandbox.isolate.compiled import Compiled, Diagnostic
from sandbox.journal.ids import Digest, Epoch, OrganizationId
from sandbox.store.postgres.requests import SandboxRequest
from sandbox.worker.answers.bench import Bench

INLINE_CHARS_MAX = 20_000
"""Of a script whose diagnostics are written on the event loop; longer ones take a thread."""


async def check(bench: Bench, request: SandboxRequest) -> bytes:
    """`{source, epoch, organization, toolset: [name, digest] or null, output?: true}` →
    `{compiled or null, diagnostics, input_type, output_type, input_schema, output_schema}`.

    `compiled` is null exactly when there is an error among the diagnostics.
    """
    question = orjson.loads(request.payload)
    source: str = question["source"]
    refusal = early_refusal(source) or nested_too_deeply(source)
    if refusal is not None:
        return _answer(None, [refusal], TypeReport())
    toolset = await _toolset(bench, OrganizationId(question["organization"]), question["toolset"])
    epoch = Epoch(question["epoch"])
    tenant = str(request.namespace)
    stripped, report = await asyncio.gather(
        bench.children.strip(source, epoch, tenant=tenant),
        bench.checker.check(
            source, toolset, epoch=epoch, tenant=tenant, output=question.get("output", False)
        ),
    )
    refusals = [] if isinstance(stripped, Compiled) else stripped
    if report.too_complex and not refusals:
        return _answer(None, [too_complex(source)], report)
    if len(source) <= INLINE_CHARS_MAX:
        diagnostics = readable(source, toolset, report.diagnostics, refusals)
    else:
        diagnostics = await asyncio.to_thread(readable, source, toolset, report.diagnostics, refusals)
    return _answer(stripped if isinstance(stripped, Compiled) else None, diagnostics, report)


def _answer(compiled: Compiled | None, diagnostics: list[Diagnostic], report: TypeReport) -> bytes:
    wrong = any(found.severity == "error" for found in diagnostics)
    return orjson.dumps(
        {
            "compiled": None if compiled is None or wrong else compiled.to_json(),
            "diagnostics": [found.to_json() for found in diagnostics],
            "input_type": report.types.input_type,
            "output_type": report.types.output_type,
            "input_schema": report.types.input_schema,
            "output_schema": report.types.output_schema,
        }
    )


async def _toolset(bench: Bench, organization: OrganizationId, reference: list[str] | None) -> Toolset:
    if reference is None:
        return NO_TOOLS
    name, digest = reference
    key = f"{organization} {name} {digest}"
    known = bench.toolsets.get(key)
    if known is None:
        definition = await bench.store.load_definition(organization, name, Digest(digest))
        if definition is None:
            raise LookupError(f"the toolset {name}@{digest} is gone")
        known = await asyncio.to_thread(_declared, key, definition)
        bench.toolsets.put(known)
    return known


def _declared(key: str, definition: dict[str, Any]) -> Toolset:
    return toolset_of(key, definition["tools"], http=bool(definition.get("http")))
