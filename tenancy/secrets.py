"""Secrets that customers leave with us: written, never read back, presented by the dispatcher alone.

Sealed with AES-GCM under the deployment's secret key (REWIND_SECRET_KEY_FILE) and bound to where they belong,
so that a row copied elsewhere does not open. A reference resolves in the run's namespace first, then in the
organization.
"""

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sandbox.config import SettingsError
from sandbox.journal.errors import ApiError, FieldError, RewindFault
from sandbox.journal.ids import NamespaceId, OrganizationId
from tenancy.errors import NotFound
from tenancy.repository import NO_NAMESPACE, SecretRepository, SecretRow

KEY_BYTES = 32
NONCE_BYTES = 12
MARK_BYTES = 4
VERSION = b"\x01"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
VALUE_BYTES_MAX = 64 * 1024


class SealBroken(RewindFault):
    """Sealed under another key, or not what it was."""

    code = "internal"


class SecretBox:
    """Seals bytes; `place` says where they belong and must be the same to open them."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._mark = VERSION + hashlib.sha256(b"rewind secret key\n" + key).digest()[:MARK_BYTES]

    def __repr__(self) -> str:
        return "SecretBox()"

    @classmethod
    def from_file(cls, path: Path, *, make: bool = False) -> Self:
        """Read the key: 32 bytes in base64 or hex. `make`: write a new one where there is none.

        Errors: SettingsError.
        """
        if make:
            _make_key(path)
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"REWIND_SECRET_KEY_FILE: {path} cannot be read") from error
        for decode in (bytes.fromhex, _base64):
            try:
                key = decode(text)
            except ValueError:
                continue
            if len(key) == KEY_BYTES:
                return cls(key)
        raise SettingsError(
            f"REWIND_SECRET_KEY_FILE: {path} must hold {KEY_BYTES} random bytes in base64 or hex, "
            "as `openssl rand -base64 32` writes them"
        )

    def seal(self, data: bytes, place: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return self._mark + nonce + self._cipher.encrypt(nonce, data, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """Errors: SealBroken."""
        head = len(self._mark)
        if sealed[:head] != self._mark:
            raise SealBroken(
                "sealed under another key: is REWIND_SECRET_KEY_FILE the one it was written with?"
            )
        nonce, text = sealed[head : head + NONCE_BYTES], sealed[head + NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, text, place.encode())
        except InvalidTag:
            raise SealBroken("the sealed data is damaged or belongs elsewhere") from None


class Secrets:
    """`namespace` None: of the whole organization."""

    def __init__(self, repository: SecretRepository, box: SecretBox) -> None:
        self._repository = repository
        self._box = box

    async def put(
        self, organization: OrganizationId, namespace: NamespaceId | None, name: str, value: str
    ) -> SecretRow:
        data = value.encode()
        if not 1 <= len(data) <= VALUE_BYTES_MAX:
            message = f"A secret has 1 to {VALUE_BYTES_MAX:,} bytes."
            raise ApiError(message, errors=[FieldError("value", "invalid_value", message)])
        within = namespace or NO_NAMESPACE
        sealed = self._box.seal(data, _place(organization, within, checked_secret_name(name)))
        return await self._repository.put(organization, within, name, sealed)

    async def get(self, organization: OrganizationId, namespace: NamespaceId | None, name: str) -> SecretRow:
        """When it was written; the value is given to nobody."""
        row = None
        if NAME.fullmatch(name) is not None:
            row = await self._repository.get(organization, namespace or NO_NAMESPACE, name)
        if row is None:
            raise NotFound(f"There is no secret {name[:140]!r} here.")
        return row

    async def page(
        self, organization: OrganizationId, namespace: NamespaceId | None, *, after: str | None, limit: int
    ) -> list[SecretRow]:
        return await self._repository.page(organization, namespace or NO_NAMESPACE, after, limit)

    async def delete(self, organization: OrganizationId, namespace: NamespaceId | None, name: str) -> None:
        known = NAME.fullmatch(name) is not None
        if not known or not await self._repository.delete(organization, namespace or NO_NAMESPACE, name):
            raise NotFound(f"There is no secret {name[:140]!r} here.")

    async def resolve(
        self,
        organization: OrganizationId,
        namespace: NamespaceId | None,
        names: Iterable[str],
        *,
        fallback: bool = True,
    ) -> dict[str, str]:
        """The values of those names that are known: the namespace's own, else (`fallback`) the organization's.

        Errors: SealBroken, Unavailable.
        """
        wanted = sorted(set(names))
        if not wanted:
            return {}
        places = [namespace] if namespace is not None else []
        if fallback or namespace is None:
            places.append(NO_NAMESPACE)
        found: dict[str, str] = {}
        rows = await self._repository.sealed(organization, places, wanted)
        for place in places:
            for name in wanted:
                sealed = rows.get((place, name))
                if sealed is not None and name not in found:
                    found[name] = self._box.open(sealed, _place(organization, place, name)).decode()
        return found


def checked_secret_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        message = (
            "A secret's name has 1 to 128 letters, digits and _ . - and begins with a letter, a digit or _."
        )
        raise ApiError(message, errors=[FieldError("name", "invalid_name", message)])
    return name


def _place(organization: OrganizationId, namespace: NamespaceId, name: str) -> str:
    return f"secret/{organization}/{namespace}/{name}"


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _make_key(path: Path) -> None:
    """Write a new key unless there is one; of several processes at once, one wins."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(base64.b64encode(os.urandom(KEY_BYTES)).decode() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
