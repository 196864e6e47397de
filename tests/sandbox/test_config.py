"""Settings are read from the environment, and a wrong one is refused by its name."""

import stat
from pathlib import Path

import pytest

from sandbox.config import SOCKET_PATH_BYTES_MAX, DataPlaneSettings, S3Location, SettingsError, socket_dir

ENVIRONMENT = {
    "REWIND_DATABASE_URL": "postgresql://u:secret@db/rewind",
    "REWIND_S3_URL": "s3+http://K:S@127.0.0.1:9000/values",
}


@pytest.mark.parametrize(
    ("url", "location"),
    [
        (
            "s3+http://KEY:SE%2FCRET@127.0.0.1:9000/values",
            S3Location("values", "http://127.0.0.1:9000", "KEY", "SE/CRET", "us-east-1"),
        ),
        (
            "s3+https://K:S@store.example/values?region=eu-1",
            S3Location("values", "https://store.example", "K", "S", "eu-1"),
        ),
        ("s3+http://K:S@[::1]:9000/values", S3Location("values", "http://[::1]:9000", "K", "S", "us-east-1")),
        ("s3://values?region=eu-central-1", S3Location("values", None, None, None, "eu-central-1")),
    ],
)
def test_object_store_urls(url: str, location: S3Location) -> None:
    assert S3Location.parse(url) == location


@pytest.mark.parametrize(
    "url", ["", "http://h/values", "s3+http://K:S@h:9", "s3+http://K:S@h:9/a/b", "s3://values/key", "values"]
)
def test_other_urls_are_refused_by_name(url: str) -> None:
    with pytest.raises(SettingsError, match="REWIND_S3_URL must look like"):
        S3Location.parse(url)


def test_defaults_of_the_data_plane() -> None:
    settings = DataPlaneSettings.from_env(ENVIRONMENT)
    assert settings.database_role == "rewind_worker"
    assert settings.data == Path(".rewind").absolute()
    assert not settings.require_confinement
    assert settings.worker_children >= 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("REWIND_DATABASE_URL", "", "REWIND_DATABASE_URL is not set"),
        ("REWIND_S3_URL", "", "REWIND_S3_URL is not set"),
        ("REWIND_WORKER_CHILDREN", "0", "REWIND_WORKER_CHILDREN must be a whole number from 1 to 64"),
        ("REWIND_WORKER_CHILDREN", "two", "not 'two'"),
        ("REWIND_REQUIRE_CONFINEMENT", "maybe", "REWIND_REQUIRE_CONFINEMENT must be 1 or 0"),
    ],
)
def test_wrong_settings_are_named(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        DataPlaneSettings.from_env({**ENVIRONMENT, name: value})


def test_settings_do_not_print_secrets() -> None:
    shown = repr(DataPlaneSettings.from_env(ENVIRONMENT))
    assert "secret" not in shown
    assert "'S'" not in shown


def test_short_socket_folder_is_used_as_it_is(tmp_path: Path) -> None:
    found = socket_dir(tmp_path / "hints", name_bytes=20)
    assert found == tmp_path / "hints"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


def test_long_socket_folder_is_replaced_by_the_same_short_one(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    found = socket_dir(long, name_bytes=20)
    assert len(str(found)) + 21 <= SOCKET_PATH_BYTES_MAX
    assert socket_dir(long, name_bytes=20) == found
    assert socket_dir(tmp_path / ("y" * 90), name_bytes=20) != found
    found.rmdir()
    socket_dir(tmp_path / ("y" * 90), name_bytes=20).rmdir()


def test_socket_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hints").mkdir()
    (tmp_path / "hints").chmod(0o755)
    with pytest.raises(SettingsError, match="is not a private folder"):
        socket_dir(tmp_path / "hints", name_bytes=20)
