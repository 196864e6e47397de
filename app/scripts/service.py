"""Scripts of a namespace: by source or by digest, accepted once the sandbox has stripped them."""

import hashlib
import re
from typing import Any, Protocol

from app.errors import ScriptRefused, TooLarge, invalid
from sandbox.compiler.client import SandboxClient
from sandbox.journal.errors import FieldError
from sandbox.journal.ids import Digest, Epoch, Json, NamespaceId
from tenancy.errors import NotFound

SCRIPT_BYTES_MAX = 256 * 1024
CACHE_MAX = 20_000
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class ScriptStore(Protocol):
    async def put_script(self, namespace: NamespaceId, digest: Digest, source: str) -> None: ...
    async def get_script(self, namespace: NamespaceId, digest: Digest) -> str | None: ...
    async def get_compiled(
        self, namespace: NamespaceId, digest: Digest, epoch: Epoch
    ) -> dict[str, Any] | None: ...
    async def put_compiled(
        self, namespace: NamespaceId, digest: Digest, epoch: Epoch, compiled: dict[str, Any]
    ) -> None: ...


class Scripts:
    def __init__(self, store: ScriptStore, sandbox: SandboxClient, epoch: Epoch) -> None:
        self._store = store
        self._sandbox = sandbox
        self._epoch = epoch
        self._ready: set[tuple[NamespaceId, Digest]] = set()

    async def ensure(self, namespace: NamespaceId, script: str) -> Digest:
        """Return the digest of a script that can run: `script` is its source or its digest.

        Errors: TooLarge, NotFound for an unknown digest, ScriptRefused with diagnostics, Unavailable.
        """
        source = None if DIGEST.fullmatch(script) else script
        digest = Digest(script) if source is None else _digest_of(script)
        if (namespace, digest) in self._ready:
            return digest
        if await self._store.get_compiled(namespace, digest, self._epoch) is None:
            if source is None:
                source = await self._store.get_script(namespace, digest)
            if source is None:
                raise NotFound(f"There is no script {digest} in this namespace: send its source once.")
            await self._compile(namespace, digest, source)
        if len(self._ready) >= CACHE_MAX:
            self._ready.clear()
        self._ready.add((namespace, digest))
        return digest

    async def _compile(self, namespace: NamespaceId, digest: Digest, source: str) -> None:
        stripped = await self._sandbox.strip(namespace, source, self._epoch)
        if stripped.compiled is None:
            raise _refused(stripped.diagnostics)
        await self._store.put_script(namespace, digest, source)
        await self._store.put_compiled(namespace, digest, self._epoch, stripped.compiled)


def _digest_of(source: str) -> Digest:
    data = source.encode()
    if len(data) > SCRIPT_BYTES_MAX:
        message = f"The script has {len(data):,} bytes; the limit is {SCRIPT_BYTES_MAX:,}."
        raise TooLarge(message, errors=[FieldError("script", "too_large", message)])
    if "\0" in source:
        raise invalid("script", "invalid_value", "A script cannot hold the character U+0000.")
    return Digest(f"sha256:{hashlib.sha256(data).hexdigest()}")


def _refused(diagnostics: list[dict[str, Json]]) -> ScriptRefused:
    errors = [
        FieldError("script", str(found.get("code", "refused")), str(found.get("message", "")))
        for found in diagnostics
    ]
    first = diagnostics[0] if diagnostics else {}
    where = f" (line {first['line']}, column {first['column']})" if first.get("line") is not None else ""
    return ScriptRefused(
        f"The script was refused: {first.get('message', 'it cannot be run')}{where}",
        errors=errors,
        extra={
            "diagnostics": [
                {name: value for name, value in found.items() if name != "hint" or value is not None}
                for found in diagnostics
            ]
        },
    )
