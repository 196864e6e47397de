"""A namespace as lines of JSON: everything that the product holds of an end user, secrets' values aside.

export     format, namespace, exported_at
script     digest, source, created_at
toolset    name, digest, tools: those that its runs are pinned to
run        run: as GET /runs/{id} shows it
entry      run, entry: each entry of its journal, in order
value      run, sha256, bytes, value: those too big to stand in an entry; once for each run that names them
cassette   run, cassette; or unavailable: why there is none
seal       position, run, root, entries, sealed_at, previous: the whole chain, deleted runs' too
end        runs, lines (this one not counted): the export is whole
error      code, detail: it is not; ask again
"""

import logging
from collections.abc import AsyncIterator
from typing import Any

import orjson

from app.namespaces.repository import NamespaceRepository, NamespaceRow
from app.responses import iso, spliced
from app.runs.cassettes import cassette_of_run
from app.runs.service import Runs
from app.runs.views import entry_json
from sandbox.journal.codec import value_in
from sandbox.journal.errors import ApiError, RewindFault, Unavailable
from sandbox.journal.ids import OrganizationId, RunId, Sha256
from sandbox.store.interface import FROM_START, RunRecord
from sandbox.store.postgres.values import VALUE_TYPES

logger = logging.getLogger(__name__)

FORMAT = 1
SCRIPTS_AT_ONCE = 20
RUNS_AT_ONCE = 50
ENTRIES_AT_ONCE = 500
SEALS_AT_ONCE = 1_000


class Export:
    def __init__(
        self,
        runs: Runs,
        repository: NamespaceRepository,
        *,
        organization: OrganizationId,
        namespace: NamespaceRow,
        view: dict[str, Any],
    ) -> None:
        self._runs = runs
        self._repository = repository
        self._organization = organization
        self._namespace = namespace
        self._view = view
        self._exported = 0

    async def lines(self) -> AsyncIterator[bytes]:
        """Runs that are started meanwhile may be left out."""
        lines = 0
        try:
            async for line in self._lines():
                lines += 1
                yield orjson.dumps(line) + b"\n"
        except (ApiError, RewindFault, Unavailable) as error:
            # The answer has begun: all that is left is to say in it that it is not whole.
            logger.warning("an export of namespace %s broke off: %s", self._namespace.id, error)
            code = getattr(error, "code", "unavailable")
            yield orjson.dumps({"type": "error", "code": code, "detail": str(error)}) + b"\n"
            return
        yield orjson.dumps({"type": "end", "runs": self._exported, "lines": lines}) + b"\n"

    async def _lines(self) -> AsyncIterator[dict[str, Any]]:
        now = iso(await self._runs.store.now())
        yield {"type": "export", "format": FORMAT, "namespace": self._view, "exported_at": now}
        digest = ""
        while scripts := await self._repository.scripts(self._namespace.id, digest, SCRIPTS_AT_ONCE):
            for script in scripts:
                yield {"type": "script", **script, "created_at": iso(script["created_at"])}
            digest = scripts[-1]["digest"]
        for toolset in await self._repository.toolsets(self._organization, self._namespace.id):
            yield {"type": "toolset", **toolset}
        last: RunId | None = None
        while runs := await self._repository.runs(self._namespace.id, last, RUNS_AT_ONCE):
            for run in runs:
                record = await self._runs.store.get_run(self._namespace.id, run)
                if record is not None:  # deleted meanwhile
                    async for line in self._run(record):
                        yield line
                    self._exported += 1
            last = runs[-1]
        position = 0
        while seals := await self._repository.seals(self._namespace.id, position, SEALS_AT_ONCE):
            for seal in seals:
                yield {"type": "seal", **seal, "sealed_at": iso(seal["sealed_at"])}
            position = seals[-1]["position"]

    async def _run(self, record: RunRecord) -> AsyncIterator[dict[str, Any]]:
        yield {"type": "run", "run": await self._runs.view(record)}
        named: set[Sha256] = set()
        after = FROM_START
        while entries := await self._runs.store.read_entries(
            record.namespace, record.run, after=after, limit=ENTRIES_AT_ONCE
        ):
            for entry in entries:
                yield {"type": "entry", "run": record.run, "entry": spliced(entry_json(entry))}
                value = value_in(entry.body) if entry.type in VALUE_TYPES else None
                if value is None or value.text is not None or value.redacted or value.sha256 in named:
                    continue
                named.add(value.sha256)
                text = spliced(await self._runs.values.text(record.namespace, value))
                sha256, size = value.sha256, value.bytes
                yield {"type": "value", "run": record.run, "sha256": sha256, "bytes": size, "value": text}
            after = entries[-1].seq
        yield {"type": "cassette", "run": record.run, **await self._cassette(record)}

    async def _cassette(self, record: RunRecord) -> dict[str, Any]:
        try:
            return {"cassette": await cassette_of_run(self._runs, record)}
        except ApiError as error:
            return {"unavailable": str(error)}
