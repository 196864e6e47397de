"""Scripts tried in virtual time in real, confined children; their journals replayed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest_asyncio

from sandbox.activation.outcome import decoded
from sandbox.activation.reenact import replay_run, stored_of_wire, try_script
from sandbox.activation.reenacted import Play
from sandbox.activation.setup import pinned_tools
from sandbox.activation.texts import Texts
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool
from sandbox.journal.canonical import parse_json
from sandbox.journal.entries import Limits
from sandbox.journal.ids import Epoch, NamespaceId, RunId
from sandbox.journal.state import fold

NAMESPACE = NamespaceId("00000000-0000-4000-8000-000000000001")
Json = Any


@dataclass
class Stage:
    """Everything goes through JSON, as over the wire."""

    pool: ChildPool

    async def tried(
        self, source: str, *tools: str | dict[str, Any], gated: tuple[str, ...] = (), **question: Json
    ) -> Json:
        """`tools`: names, or definitions with their schemas."""
        definitions = [{"name": tool} if isinstance(tool, str) else tool for tool in tools]
        definitions += [{"name": name, "approval": True} for name in gated]
        asked = {"source": source, "epoch": 1, "tools": definitions, "namespace": "acme", **question}
        report: Json = parse_json(orjson.dumps(await try_script(self.pool, asked, NAMESPACE)))
        if "journal" in report:
            state = fold(decoded([stored_of_wire(entry) for entry in report["journal"]]))
            assert state.status == report["status"]  # its journal is one that a run can have
        return report

    async def replayed(
        self,
        source: str,
        journal: list[Json],
        *tools: str,
        gated: tuple[str, ...] = (),
        run: str = "00000000-0000-7000-8000-000000000000",
        **options: Json,
    ) -> Json:
        compiled = await self.pool.strip(source, 1)
        assert isinstance(compiled, Compiled), compiled
        definitions = [{"name": name} for name in tools]
        definitions += [{"name": name, "approval": True} for name in gated]
        play = Play(RunId(run), NAMESPACE, "acme", Epoch(1), compiled, pinned_tools(definitions), Limits())
        entries = [stored_of_wire(entry) for entry in journal]
        return parse_json(orjson.dumps(await replay_run(self.pool, play, entries, Texts(), **options)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with ChildPool(children=1) as pool:
        yield Stage(pool)
