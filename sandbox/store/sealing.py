"""How stored bytes are sealed: keys in files, the data master key among them, and what a namespace key seals.

AES-256-GCM everywhere. The master key (REWIND_DATA_KEY_FILE) wraps one key per namespace; from that one each
run, and each value in the object store, gets a key of its own, so that no key seals more than a journal's
entries (random nonces of 96 bits are safe for 2^32 uses). Without the namespace's key nothing of it opens.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sandbox.config import SettingsError
from sandbox.journal.errors import PlatformFault
from sandbox.journal.ids import NamespaceId

logger = logging.getLogger(__name__)

KEY_BYTES = 32
NONCE_BYTES = 12
MARK_BYTES = 4
KEYS_MAX = 8
"""In one file: the one in use and those that it replaced."""
BOX_VERSION = b"\x01"
SEAL_VERSION = b"\x01"
"""First byte of everything that a namespace key sealed; another way of sealing gets another one."""


_Stamp = tuple[int, int, int]


class SealBroken(PlatformFault):
    """Sealed under another key, or not what it was."""

    code = "seal_broken"


class KeyBox:
    """Seals bytes with a key of a file; `place` says where they belong and must be the same to open them.

    The first key seals. Further ones are those that it replaced, and open what they sealed. A box with a `path`
    follows its file: keys are exchanged while processes run.
    """

    setting: ClassVar[str]

    def __init__(self, *keys: bytes, path: Path | None = None) -> None:
        self._path = path
        self._read: _Stamp | None = None
        self._use(keys)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @classmethod
    def from_file(cls, path: Path, *, make: bool = False) -> Self:
        """Read the keys: 32 bytes in base64 or hex, one a line. `make`: write a new one where there is none.

        Errors: SettingsError.
        """
        return cls(*cls.keys_in_file(path, make=make), path=path)

    @classmethod
    def keys_in_file(cls, path: Path, *, make: bool = False) -> list[bytes]:
        """Errors: SettingsError."""
        if make:
            _make_key(path, cls.setting)
        try:
            text = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{cls.setting}: {path} cannot be read") from error
        return cls.keys_in_text(text, f"{cls.setting}: {path}")

    @classmethod
    def keys_in_text(cls, text: str, where: str) -> list[bytes]:
        """Keys, one a line or apart by spaces. Errors: SettingsError, which does not say what is there instead."""
        keys = [_key_of(line) for line in text.split()]
        if not 1 <= len(keys) <= KEYS_MAX or None in keys:
            raise SettingsError(
                f"{where} must hold {KEY_BYTES} random bytes in base64 or hex, "
                f"as `openssl rand -base64 32` writes them; former keys, at most {KEYS_MAX - 1}, on lines of their own"
            )
        return [key for key in keys if key is not None]

    def _use(self, keys: Sequence[bytes]) -> None:
        self._ciphers = {_mark(key): AESGCM(key) for key in reversed(keys)}
        self._sealing = _mark(keys[0])

    def _follow(self) -> None:
        """Take the keys of a file that was changed; one that holds no keys changes nothing."""
        if self._path is None or (stamp := _stamp(self._path)) in {None, self._read}:
            return
        try:
            self._use(self.keys_in_file(self._path))
        except SettingsError as error:
            logger.warning("the keys read before stay in use: %s", error)
        self._read = stamp

    def seal(self, data: bytes, place: str) -> bytes:
        self._follow()
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._ciphers[self._sealing].encrypt(nonce, data, place.encode())
        return self._sealing + nonce + sealed

    def open(self, sealed: bytes, place: str) -> bytes:
        """Errors: SealBroken."""
        self._follow()
        head = len(self._sealing)
        cipher = self._ciphers.get(sealed[:head])
        if cipher is None:
            raise SealBroken(f"sealed under another key: is {self.setting} the one it was written with?")
        nonce, text = sealed[head : head + NONCE_BYTES], sealed[head + NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, text, place.encode())
        except (InvalidTag, ValueError):
            raise SealBroken("the sealed data is damaged or belongs elsewhere") from None

    def is_current(self, sealed: bytes) -> bool:
        """Whether it was sealed with the first key."""
        self._follow()
        return sealed[: len(self._sealing)] == self._sealing


class DataKey(KeyBox):
    """The data master key: it seals the keys of namespaces, and nothing else."""

    setting = "REWIND_DATA_KEY_FILE"

    def new_namespace_key(self, namespace: NamespaceId) -> bytes:
        """A fresh key, wrapped."""
        return self.seal(os.urandom(KEY_BYTES), _namespace_place(namespace))

    def unwrap(self, namespace: NamespaceId, wrapped: bytes) -> "NamespaceSeal":
        """Errors: SealBroken."""
        return NamespaceSeal(self.open(wrapped, _namespace_place(namespace)))

    def rewrap(self, namespace: NamespaceId, wrapped: bytes) -> bytes:
        """The same namespace key under the first master key. Errors: SealBroken."""
        place = _namespace_place(namespace)
        return self.seal(self.open(wrapped, place), place)


class Sealer:
    """The key of one subject of a namespace: a run, a value, a question. `place`: what it seals of that."""

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, data: bytes, place: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return SEAL_VERSION + nonce + self._cipher.encrypt(nonce, data, place)

    def open(self, sealed: bytes, place: bytes) -> bytes:
        """Errors: SealBroken."""
        if sealed[:1] != SEAL_VERSION:
            raise SealBroken("stored data is not sealed as this build does it")
        try:
            return self._cipher.decrypt(sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :], place)
        except (InvalidTag, ValueError):
            raise SealBroken("stored data is damaged, or belongs to another run or namespace") from None


class NamespaceSeal:
    """The unwrapped key of a namespace."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, subject: str) -> Sealer:
        return Sealer(hmac.digest(self._key, subject.encode(), "sha256"))


def entry_place(type_: int) -> bytes:
    """What is bound to an entry's body beside its run. Its seq is given by the append, after the sealing."""
    return b"entry %d" % type_


PROGRESS_PLACE = b"progress"
FORK_PLACE = b"fork"
REPORT_PLACE = b"quarantine"
EVENT_PLACE = b"message"


def _namespace_place(namespace: NamespaceId) -> str:
    return f"namespace/{namespace}"


def _stamp(path: Path) -> _Stamp | None:
    """What is another one once the file was written or replaced."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _mark(key: bytes) -> bytes:
    return BOX_VERSION + hashlib.sha256(b"rewind key\n" + key).digest()[:MARK_BYTES]


def _key_of(text: str) -> bytes | None:
    for decode in (bytes.fromhex, _base64):
        try:
            key = decode(text)
        except ValueError:
            continue
        if len(key) == KEY_BYTES:
            return key
    return None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _make_key(path: Path, setting: str) -> None:
    """Write a new key unless there is one; of several processes at once, one wins."""
    if path.exists():
        return
    try:
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
    except OSError as error:
        raise SettingsError(f"{setting}: {path} cannot be written: {error.strerror}") from error
