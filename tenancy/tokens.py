"""Secrets that callers carry: API keys (`rwk_`) and namespace tokens (`rwt_`).

A secret is its prefix, 43 characters for 32 random bytes, and a checksum, so that a scanner or a typing
error is told from a revoked secret without a look at the database. Only its SHA-256 is stored; with 256
random bits a slow hash would add nothing.
"""

import hashlib
import secrets
import zlib
from typing import Literal

Kind = Literal["key", "token"]
PREFIXES: dict[Kind, str] = {"key": "rwk_", "token": "rwt_"}

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_BYTES = 32
_BODY = 43
_CHECKSUM = 6
SHOWN = 12
"""Characters of a secret that are stored in clear, so that its owner can recognise it."""


def mint(kind: Kind) -> str:
    """Return a new secret. It exists nowhere else: what is stored is `digest(secret)`."""
    number = int.from_bytes(secrets.token_bytes(_RANDOM_BYTES), "big")
    head = PREFIXES[kind] + _base62(number, _BODY)
    return head + _checksum(head)


def kind_of(secret: str) -> Kind | None:
    """Return what kind of secret this is, or None when it is none or was mistyped."""
    for kind, prefix in PREFIXES.items():
        if secret.startswith(prefix):
            well_formed = len(secret) == len(prefix) + _BODY + _CHECKSUM and secret.isascii()
            return kind if well_formed and _checksum(secret[:-_CHECKSUM]) == secret[-_CHECKSUM:] else None
    return None


def digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _checksum(head: str) -> str:
    return _base62(zlib.crc32(head.encode()), _CHECKSUM)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, rest = divmod(number, 62)
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits))
