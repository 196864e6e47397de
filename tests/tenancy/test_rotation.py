"""Another secret key: all that the former one sealed is sealed anew, and nothing opens with the former one."""

import re
from pathlib import Path

import asyncpg
import pytest

from app.config import secret_keys
from sandbox.config import SettingsError
from sandbox.store.sealing import SealBroken
from tenancy.rotation import SEALED, rotate_secret_key
from tenancy.secret_keys import secret_box
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


def test_where_the_key_comes_from(tmp_path: Path) -> None:
    sealed = SecretBox(OLD).seal(b"x", "p")
    path = tmp_path / "key"
    path.write_text(f"{NEW.hex()}\n{OLD.hex()}\n")
    for environ in (
        {"REWIND_SECRET_KEY": f"{NEW.hex()} {OLD.hex()}"}, {"REWIND_SECRET_KEY_FILE": str(path)},
    ):  # fmt: skip
        box = secret_box(secret_keys(environ))
        assert box.open(sealed, "p") == b"x"
        assert SecretBox(NEW).open(box.seal(b"y", "p"), "p") == b"y"
    assert OLD.hex() not in repr(secret_keys({"REWIND_SECRET_KEY": OLD.hex()}))
    with pytest.raises(SettingsError, match="both"):
        secret_keys({"REWIND_SECRET_KEY": "x", "REWIND_SECRET_KEY_FILE": "y"})
    with pytest.raises(SettingsError, match="REWIND_SECRET_KEY must hold") as caught:
        secret_box(secret_keys({"REWIND_SECRET_KEY": "hidden-nonsense"}))
    assert "hidden" not in str(caught.value)
