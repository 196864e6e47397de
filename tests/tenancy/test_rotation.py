"""Another secret key: all that the former one sealed is sealed anew, and nothing opens with the former one."""

import base64
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from cryptography.fernet import Fernet

from app.config import secret_keys
from sandbox.config import SettingsError
from sandbox.store.sealing import SealBroken
from tenancy.rotation import SEALED, rotate_secret_key
from tenancy.secret_keys import KeyFile, secret_box
from tenancy.secrets import SecretBox

OLD, NEW = b"o" * 32, b"n" * 32
REPOSITORY = Path(__file__).resolve().parents[2]


async def test_all_that_was_sealed_is_sealed_anew(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    organization, namespace = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-000000000000"
    places = {f"s{n}": f"secret/{organization}/{namespace}/s{n}" for n in range(250)}
    old, both, new = SecretBox(OLD), SecretBox(NEW, OLD), SecretBox(NEW)
    try:
        await connection.execute("insert into organizations values ($1, 'o', 0, null)", organization)
        await connection.executemany(
            "insert into secrets (organization_id, namespace_id, name, sealed, created_at, updated_at)"
            " values ($1, $2, $3, $4, 0, 0)",
            [
                (organization, namespace, name, old.seal(name.encode(), place))
                for name, place in places.items()
            ],
        )
        assert await rotate_secret_key(connection, both) == 250
        for row in await connection.fetch("select name, sealed from secrets"):
            assert new.open(row["sealed"], places[row["name"]]) == row["name"].encode()
            with pytest.raises(SealBroken):
                old.open(row["sealed"], places[row["name"]])
        assert await rotate_secret_key(connection, both) == 0
        for sealed in SEALED:  # each names a table and columns that there are
            await connection.fetch(f"select {sealed.place}, {sealed.column} from {sealed.table}")
    finally:
        await connection.close()


def test_every_place_that_seals_is_rotated() -> None:
    """Whoever seals something with the secret key must say here how it is sealed anew."""
    sealing = re.compile(r"\b_?box\.seal\(")
    found = {
        str(path.relative_to(REPOSITORY))
        for folder in ("app", "tenancy", "dashboard", "billing")
        for path in (REPOSITORY / folder).rglob("*.py")
        if path.name != "rotation.py" and sealing.search(path.read_text())
    }
    assert found == {
        "app/toolsets/servers.py", "app/webhooks/service.py", "tenancy/identity/sso.py", "tenancy/identity/totp.py",
        "tenancy/secrets.py",
    }  # fmt: skip


KMS = """
import sys
from pathlib import Path
from cryptography.fernet import Fernet, InvalidToken
master, wrapped = (Path(name).read_bytes() for name in sys.argv[1:3])
try:
    sys.stdout.buffer.write(Fernet(master).decrypt(wrapped))
except InvalidToken:
    sys.exit("the master key does not open this")
"""
"""A small KMS: it unwraps keys with a master key of its own."""


def in_file(folder: Path, text: str) -> dict[str, str]:
    path = folder / "key"
    path.write_text(text)
    return {"REWIND_SECRET_KEY_FILE": str(path)}


def in_environment(folder: Path, text: str) -> dict[str, str]:
    return {"REWIND_SECRET_KEY": text}


def in_kms(folder: Path, text: str) -> dict[str, str]:
    master, wrapped, program = folder / "master", folder / "wrapped", folder / "kms.py"
    master.write_bytes(Fernet.generate_key())
    wrapped.write_bytes(Fernet(master.read_bytes()).encrypt(text.encode()))
    program.write_text(KMS)
    return {
        "REWIND_SECRET_KEY_COMMAND": shlex.join([sys.executable, str(program), str(master), str(wrapped)])
    }


Source = Callable[[Path, str], dict[str, str]]


@pytest.mark.parametrize("source", [in_file, in_environment, in_kms])
class TestEverySourceOfTheKey:
    """The contract of a KeySource, wherever the key comes from."""

    def test_the_first_key_seals_and_former_ones_open(self, source: Source, tmp_path: Path) -> None:
        sealed = SecretBox(OLD).seal(b"x", "p")
        found = secret_keys(source(tmp_path, f"{NEW.hex()}\n{base64.b64encode(OLD).decode()}\n"))
        assert list(found.keys()) == [NEW, OLD]
        box = secret_box(found)
        assert box.open(sealed, "p") == b"x"
        assert SecretBox(NEW).open(box.seal(b"y", "p"), "p") == b"y"
        assert (box.is_current(sealed), box.is_current(box.seal(b"z", "p"))) == (False, True)

    def test_it_says_nothing_of_the_key(self, source: Source, tmp_path: Path) -> None:
        given = source(tmp_path, OLD.hex())
        assert OLD.hex() not in repr(secret_keys(given)) + repr(secret_box(secret_keys(given)))

    def test_what_is_no_key_is_refused_without_being_shown(self, source: Source, tmp_path: Path) -> None:
        given = source(tmp_path, "hidden-nonsense")
        with pytest.raises(SettingsError, match="must hold 32 random bytes") as caught:
            secret_box(secret_keys(given))
        assert next(iter(given)) in str(caught.value)
        assert "hidden" not in str(caught.value)


def test_a_key_comes_from_one_place() -> None:
    with pytest.raises(SettingsError, match="REWIND_SECRET_KEY and REWIND_SECRET_KEY_FILE are both set"):
        secret_keys({"REWIND_SECRET_KEY": "x", "REWIND_SECRET_KEY_FILE": "y"})
    with pytest.raises(SettingsError, match="both set"):
        secret_keys({"REWIND_SECRET_KEY_COMMAND": "x", "REWIND_SECRET_KEY_FILE": "y"})


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (f"{sys.executable} -c 'import sys; sys.exit(\"no such key\")'", "ended with 1: no such key"),
        ("/nowhere/kms", "cannot be run"),
        ("'", "cannot be run"),
        (" ", "cannot be run"),
    ],
)
def test_a_command_that_gives_no_key_says_why(command: str, says: str) -> None:
    with pytest.raises(SettingsError, match=f"REWIND_SECRET_KEY_COMMAND {says}"):
        secret_box(secret_keys({"REWIND_SECRET_KEY_COMMAND": command}))


def test_a_box_follows_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a restart: the new key beside the old one, then alone; a file that holds none changes nothing."""
    path = Path(in_file(tmp_path, OLD.hex())["REWIND_SECRET_KEY_FILE"])
    box = secret_box(KeyFile(path))
    first = box.seal(b"1", "p")
    path.write_text(f"{NEW.hex()}\n{OLD.hex()}\n")
    second = box.seal(b"2", "p")
    assert SecretBox(NEW).open(second, "p") == b"2"
    assert box.open(first, "p") == b"1"
    path.write_text("half a k")
    assert box.open(second, "p") == b"2"
    assert "the keys read before stay in use" in caplog.text
    path.unlink()
    assert box.open(second, "p") == b"2"
    path.write_text(NEW.hex())
    with pytest.raises(SealBroken):
        box.open(first, "p")
