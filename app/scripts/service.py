"""Scripts of a namespace: by source or by digest, accepted once the sandbox has stripped and checked them."""

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol

from app.errors import InputRefused, ScriptRefused, TooLarge, invalid
from app.large import beside_loop, body_bytes
from app.responses import iso
from app.scripts.input import input_errors
from app.scripts.repository import Check, ScriptRepository
from app.toolsets.service import ToolsetRef
from app.turns import waiting
from sandbox.compiler.client import Checked, SandboxClient
from sandbox.journal.errors import FieldError, QuotaExceeded
from sandbox.journal.ids import Digest, Epoch, Json, NamespaceId, OrganizationId, TimeMs
from tenancy.errors import NotFound
from tenancy.quotas.service import Quotas

SCRIPT_BYTES_MAX = 256 * 1024
KNOWN_MAX = 5_000
"""Pairs of script and toolset that a process remembers, refused ones too: a type bomb is tried once."""
CHECKER = "2/7.0.2"
"""Version of what is kept of a check: of our reading of types and diagnostics, and of TypeScript."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
Diagnostics = list[dict[str, Json]]


class ScriptStore(Protocol):
    async def get_script(self, namespace: NamespaceId, digest: Digest) -> str | None: ...
    async def get_compiled(
        self, namespace: NamespaceId, digest: Digest, epoch: Epoch
    ) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class ScriptReport:
    """A script that was checked. `diagnostics` of a script without errors are warnings."""

    digest: Digest
    ok: bool
    diagnostics: Diagnostics
    input_type: str | None
    output_type: str | None
    input_schema: Json

    def require_ok(self) -> None:
        """ScriptRefused unless it can run."""
        if not self.ok:
            raise script_refused(self.diagnostics)

    async def require_input(self, value: Json) -> None:
        """InputRefused, with the paths, when main does not take this. `value`: of the request's body."""
        await require_input(self.input_type, self.input_schema, value, body_bytes())


@dataclass(frozen=True, slots=True)
class Candidate:
    """A script that could run, checked and not kept yet; source and checked are None when it is known."""

    digest: Digest
    compiled: dict[str, Any]
    source: str | None
    checked: Checked | None
    input_type: str | None = None
    input_schema: Json = True


@dataclass(frozen=True, slots=True)
class CheckedSource:
    """A script as it was checked for an epoch, with a toolset, by this version of the checker."""

    digest: Digest
    source: str
    toolset: ToolsetRef | None
    epoch: Epoch
    checker: str
    checked: Checked


class Scripts:
    def __init__(
        self,
        store: ScriptStore,
        repository: ScriptRepository,
        sandbox: SandboxClient,
        quotas: Quotas,
        epoch: Epoch,
    ) -> None:
        self._store = store
        self._quotas = quotas
        self._repository = repository
        self._sandbox = sandbox
        self._epoch = epoch
        self._known: OrderedDict[tuple[NamespaceId, Digest, str], ScriptReport] = OrderedDict()

    async def check(
        self,
        organization: OrganizationId,
        namespace: NamespaceId,
        script: str,
        toolset: ToolsetRef | None,
        *,
        keep: bool = True,
    ) -> ScriptReport:
        """Say whether a script can run with these tools; `script` is its source or its digest.

        One without errors is kept, unless `keep` is false: its digest is known from then on.
        Errors: TooLarge, NotFound for an unknown digest, Unavailable.
        """
        source = None if DIGEST.fullmatch(script) else script
        digest = await self._digest(organization, namespace, script, source)
        key = (namespace, digest, "" if toolset is None else toolset.digest)
        report = self._known.get(key)
        if report is not None and source is None and not report.ok:
            report = None  # a refused script is not kept: its digest is as unknown here as elsewhere
        if report is None:
            report = await self._find(*key) or await self._ask(
                organization, *key[:2], source, toolset, keep=keep
            )
        if keep:
            self._remember(key, report)
        return report

    async def _digest(
        self, organization: OrganizationId, namespace: NamespaceId, script: str, source: str | None
    ) -> Digest:
        """Errors: TooLarge for what the engine, QuotaExceeded for what the namespace does not take."""
        if source is None:
            return Digest(script)
        digest = digest_of(source)
        await self._quotas.require(
            organization, namespace, "script_bytes_max", len(source.encode()), most=SCRIPT_BYTES_MAX
        )
        return digest

    async def source(self, namespace: NamespaceId, script: str) -> str:
        """The text of a script given as source or as a digest; nothing is stored. Errors: TooLarge, NotFound."""
        if not DIGEST.fullmatch(script):
            digest_of(script)
            return script
        known = await self._store.get_script(namespace, Digest(script))
        if known is None:
            raise NotFound(f"There is no script {script} in this namespace: send its source once.")
        return known

    def _remember(self, key: tuple[NamespaceId, Digest, str], report: ScriptReport) -> None:
        self._known[key] = report
        self._known.move_to_end(key)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    async def _find(self, namespace: NamespaceId, digest: Digest, toolset: str) -> ScriptReport | None:
        known = await self._repository.find_check(namespace, digest, toolset, self._epoch, CHECKER)
        if known is None:
            return None
        return ScriptReport(
            digest, True, known.warnings, known.input_type, known.output_type, known.input_schema
        )

    async def _ask(
        self,
        organization: OrganizationId,
        namespace: NamespaceId,
        digest: Digest,
        source: str | None,
        toolset: ToolsetRef | None,
        *,
        keep: bool,
    ) -> ScriptReport:
        if source is None:
            source = await self._store.get_script(namespace, digest)
        if source is None:
            raise NotFound(f"There is no script {digest} in this namespace: send its source once.")
        async with waiting():
            checked = await self._sandbox.check(
                namespace,
                source,
                self._epoch,
                organization=organization,
                toolset=None if toolset is None else (toolset.name, toolset.digest),
            )
        if checked.compiled is not None and keep:
            await self._keep(namespace, digest, source, toolset, checked, self._epoch)
        return ScriptReport(
            digest,
            checked.compiled is not None,
            [shown(found) for found in checked.diagnostics],
            checked.input_type,
            checked.output_type,
            checked.input_schema,
        )

    async def ensure(
        self, organization: OrganizationId, namespace: NamespaceId, known: CheckedSource
    ) -> ScriptReport:
        """Have a script in this namespace that was checked elsewhere: checked again only if anything has changed since.

        Errors: Unavailable.
        """
        key = (namespace, known.digest, "" if known.toolset is None else known.toolset.digest)
        report = self._known.get(key) or await self._find(*key)
        if report is None and (known.epoch, known.checker) == (self._epoch, CHECKER):
            await self._keep(namespace, known.digest, known.source, known.toolset, known.checked, self._epoch)
            report = await self._find(*key)
        if report is None:
            report = await self._ask(organization, *key[:2], known.source, known.toolset, keep=True)
        self._remember(key, report)
        return report

    async def candidate(
        self,
        organization: OrganizationId,
        namespace: NamespaceId,
        script: str,
        toolset: ToolsetRef | None,
        epoch: Epoch,
    ) -> Candidate:
        """A script for runs of an epoch of the past; nothing is stored.

        Errors: TooLarge, NotFound, ScriptRefused, Unavailable.
        """
        source = None if DIGEST.fullmatch(script) else script
        digest = await self._digest(organization, namespace, script, source)
        compiled = await self._store.get_compiled(namespace, digest, epoch)
        within = "" if toolset is None else toolset.digest
        known = await self._repository.find_check(namespace, digest, within, epoch, CHECKER)
        if compiled is not None and known is not None:
            return Candidate(digest, compiled, None, None, known.input_type, known.input_schema)
        if source is None:
            source = await self._store.get_script(namespace, digest)
        if source is None:
            raise NotFound(f"There is no script {digest} in this namespace: send its source once.")
        pinned = None if toolset is None else (toolset.name, toolset.digest)
        checked = await self._sandbox.check(
            namespace, source, epoch, organization=organization, toolset=pinned
        )
        if checked.compiled is None:
            raise script_refused([shown(found) for found in checked.diagnostics])
        return Candidate(digest, checked.compiled, source, checked, checked.input_type, checked.input_schema)

    async def keep(
        self, namespace: NamespaceId, found: Candidate, toolset: ToolsetRef | None, epoch: Epoch
    ) -> None:
        """Store a candidate; again is harmless."""
        if found.source is not None and found.checked is not None:
            await self._keep(namespace, found.digest, found.source, toolset, found.checked, epoch)

    async def _keep(
        self,
        namespace: NamespaceId,
        digest: Digest,
        source: str,
        toolset: ToolsetRef | None,
        checked: Checked,
        epoch: Epoch,
    ) -> None:
        assert checked.compiled is not None
        warnings = [shown(found) for found in checked.diagnostics]
        try:
            await self._repository.keep(
                namespace,
                (digest, source),
                checked.compiled,
                (None, "") if toolset is None else (toolset.text, toolset.digest),
                epoch,
                CHECKER,
                Check(checked.input_type, checked.output_type, checked.input_schema, warnings),
            )
        except QuotaExceeded as error:
            await self._quotas.tell(namespace, error.extra)
            raise

    async def warnings(self, namespace: NamespaceId, digest: Digest, toolset: str | None) -> Diagnostics:
        """What the checker warned of; empty for a run whose check is not kept."""
        key = (namespace, digest, toolset or "")
        known = self._known.get(key) or await self._find(*key)
        if known is None or not known.ok:
            return []
        self._remember(key, known)
        return known.diagnostics

    async def get(self, namespace: NamespaceId, digest: str) -> dict[str, Any]:
        row = await self._repository.find(namespace, digest) if DIGEST.fullmatch(digest) else None
        if row is None:
            raise NotFound(f"There is no script {digest[:80]!r} in this namespace.")
        return {**script_view(row), "source": row["source"]}

    async def page(
        self, namespace: NamespaceId, *, before: tuple[TimeMs, str] | None, limit: int
    ) -> list[Any]:
        return await self._repository.page(namespace, before=before, limit=limit)


def script_view(row: Any) -> dict[str, Any]:
    return {
        "digest": row["digest"],
        "toolset": row["toolset"],
        "input_type": row["input_type"],
        "output_type": row["output_type"],
        "created_at": iso(row["created_at"]),
    }


async def require_input(input_type: str | None, schema: Json, value: Json, size: int) -> None:
    errors = await beside_loop(input_errors, schema, value, size=size)
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        first = errors[0]
        raise InputRefused(
            f"main does not take this input: {first.path}: {first.message}{more}",
            errors=errors,
            extra={"input_type": input_type},
        )


def digest_of(source: str) -> Digest:
    """Errors: TooLarge; ApiError for a source that cannot be stored."""
    data = source.encode()
    if len(data) > SCRIPT_BYTES_MAX:
        message = f"The script has {len(data):,} bytes; the limit is {SCRIPT_BYTES_MAX:,}."
        raise TooLarge(message, errors=[FieldError("script", "too_large", message)])
    if "\0" in source:
        raise invalid("script", "invalid_value", "A script cannot hold the character U+0000.")
    return Digest(f"sha256:{hashlib.sha256(data).hexdigest()}")


def shown(found: dict[str, Json]) -> dict[str, Json]:
    """A diagnostic as the API gives it."""
    return {name: value for name, value in found.items() if name != "hint" or value is not None}


def script_refused(diagnostics: Diagnostics) -> ScriptRefused:
    wrong = [found for found in diagnostics if found.get("severity") == "error"]
    errors = [
        FieldError("script", str(found.get("code", "refused")), str(found.get("message", "")))
        for found in wrong
    ]
    first = wrong[0] if wrong else {}
    where = f" (line {first['line']}, column {first['column']})" if first.get("line") is not None else ""
    return ScriptRefused(
        f"The script was refused: {first.get('message', 'it cannot be run')}{where}",
        errors=errors,
        extra={"diagnostics": [*diagnostics]},
    )
