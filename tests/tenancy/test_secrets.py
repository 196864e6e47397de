"""Sealing, and the key it is done with."""

import base64
import stat
from pathlib import Path

import pytest

from sandbox.config import SettingsError
from sandbox.store.sealing import SealBroken
from tenancy.secrets import SecretBox


def test_what_is_sealed_opens_only_where_it_belongs() -> None:
    box = SecretBox(b"k" * 32)
    sealed = box.seal(b"value", "secret/a/b/c")
    assert box.open(sealed, "secret/a/b/c") == b"value"
    assert sealed != box.seal(b"value", "secret/a/b/c")
    with pytest.raises(SealBroken, match="elsewhere"):
        box.open(sealed, "secret/a/b/d")
    with pytest.raises(SealBroken, match="damaged"):
        box.open(sealed[:-1] + bytes([sealed[-1] ^ 1]), "secret/a/b/c")
    with pytest.raises(SealBroken, match="REWIND_SECRET_KEY_FILE"):
        SecretBox(b"o" * 32).open(sealed, "secret/a/b/c")
    with pytest.raises(SealBroken):
        box.open(b"", "secret/a/b/c")


def test_a_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret.key"
    sealed = SecretBox.from_file(path, make=True).seal(b"x", "p")
    assert SecretBox.from_file(path, make=True).open(sealed, "p") == b"x"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in path.parent.iterdir()] == ["secret.key"]


@pytest.mark.parametrize("text", [base64.b64encode(b"k" * 32).decode() + "\n", (b"k" * 32).hex()])
def test_keys_as_operators_write_them(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    sealed = SecretBox(b"k" * 32).seal(b"x", "p")
    assert SecretBox.from_file(tmp_path / "key").open(sealed, "p") == b"x"


@pytest.mark.parametrize("text", ["", "short", "ä", base64.b64encode(b"k" * 16).decode()])
def test_what_is_no_key(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(SettingsError, match=r"openssl rand|cannot be read"):
        SecretBox.from_file(tmp_path / "key")
    with pytest.raises(SettingsError, match="cannot be read"):
        SecretBox.from_file(tmp_path / "none")
