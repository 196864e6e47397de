"""Settings of the data plane, read once from the environment when a process starts."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from sandbox.journal.errors import RewindFault

SOCKET_PATH_BYTES_MAX = 107 if os.uname().sysname == "Linux" else 103
"""The kernel's limit for the path of a Unix socket."""

WORKER_CHILDREN_MAX = 64
WARM_RUNS = 400
DATA_KEY_FILE = "data.key"
KEY_SETTINGS = ("REWIND_SECRET_KEY", "REWIND_SECRET_KEY_FILE", "REWIND_SECRET_KEY_COMMAND")
"""Of the key that opens customers' secrets: a worker is given none of them."""
"""In the data folder, when no other file is named."""


class SettingsError(RewindFault):
    """A setting is missing or malformed; the message names the variable and what it should look like."""

    code = "invalid_settings"


@dataclass(frozen=True, slots=True)
class S3Location:
    """Where values live. Without keys, boto3 looks for credentials by its own rules (role, profile)."""

    bucket: str
    endpoint: str | None
    access_key: str | None
    secret_key: str | None
    region: str

    def __repr__(self) -> str:
        return f"S3Location(bucket={self.bucket!r}, endpoint={self.endpoint!r}, region={self.region!r})"

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `s3+http://KEY:SECRET@host:port/bucket` (or s3+https), or `s3://bucket` for AWS; `?region=`."""
        shape = "s3+http://KEY:SECRET@host:port/bucket or s3://bucket?region=eu-central-1"
        parts = urlsplit(url)
        region = parse_qs(parts.query).get("region", ["us-east-1"])[0]
        if parts.scheme == "s3" and parts.hostname and not parts.path.strip("/"):
            keys = _credentials(parts.username, parts.password)
            return cls(parts.hostname, None, *keys, region)
        bucket = parts.path.strip("/")
        if parts.scheme not in {"s3+http", "s3+https"} or not parts.hostname or not bucket or "/" in bucket:
            raise SettingsError(f"REWIND_S3_URL must look like {shape}")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        port = "" if parts.port is None else f":{parts.port}"
        endpoint = f"{parts.scheme.removeprefix('s3+')}://{host}{port}"
        return cls(bucket, endpoint, *_credentials(parts.username, parts.password), region)


@dataclass(frozen=True, slots=True)
class DataPlaneSettings:
    """What a worker needs: its database role, an object store, a folder, and how it confines scripts."""

    database_url: str = field(repr=False)
    database_role: str
    s3: S3Location
    data: Path
    require_confinement: bool
    worker_children: int
    warm_runs: int
    """Isolates kept between activations; 0: every run is replayed for each event."""
    data_key_file: Path
    make_data_key: bool
    """No file was named: the one in the data folder is made at the first start."""

    @property
    def hints_dir(self) -> Path:
        """Folder of the hint sockets, made on first use and shared by all processes on the same data."""
        return hints_dir(self.data)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        return cls(
            database_url=required(environ, "REWIND_DATABASE_URL", "postgresql://USER:PASSWORD@HOST/DATABASE"),
            database_role=environ.get("REWIND_DATABASE_ROLE") or "rewind_worker",
            s3=S3Location.parse(
                required(environ, "REWIND_S3_URL", "s3+http://KEY:SECRET@HOST:PORT/BUCKET"),
            ),
            data=data_dir(environ),
            require_confinement=flag(environ, "REWIND_REQUIRE_CONFINEMENT"),
            worker_children=integer(
                environ, "REWIND_WORKER_CHILDREN", default=default_children(), low=1, high=WORKER_CHILDREN_MAX
            ),
            warm_runs=integer(environ, "REWIND_WARM_RUNS", default=WARM_RUNS, low=0, high=100_000),
            data_key_file=data_key_file(environ),
            make_data_key=not environ.get("REWIND_DATA_KEY_FILE"),
        )


def hints_dir(data: Path) -> Path:
    return socket_dir(data / "hints", name_bytes=40)


def default_children() -> int:
    """One confined child per core."""
    return min(os.cpu_count() or 1, WORKER_CHILDREN_MAX)


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    return Path(environ.get("REWIND_DATA") or ".rewind").absolute()


def data_key_file(environ: Mapping[str, str] = os.environ) -> Path:
    named = environ.get("REWIND_DATA_KEY_FILE", "")
    return Path(named) if named else data_dir(environ) / DATA_KEY_FILE


def required(environ: Mapping[str, str], name: str, shape: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise SettingsError(f"{name} is not set; it looks like {shape}. `rewind dev` starts its own.")
    return value


def integer(environ: Mapping[str, str], name: str, *, default: int, low: int, high: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or not low <= int(text) <= high:
        raise SettingsError(f"{name} must be a whole number from {low} to {high}, not {text!r}")
    return int(text)


def flag(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name, "").lower()
    if text in {"", "0", "false", "no"}:
        return False
    if text in {"1", "true", "yes"}:
        return True
    raise SettingsError(f"{name} must be 1 or 0, not {text!r}")


def socket_dir(preferred: Path, *, name_bytes: int) -> Path:
    """Return a private folder whose sockets have paths that the kernel accepts.

    That is `preferred` when it is short enough, else a folder under the system's temporary folder whose
    name follows from `preferred`, so that every process on the same data finds the same one.
    """
    path = preferred.absolute()
    if len(os.fsencode(path)) + 1 + name_bytes > SOCKET_PATH_BYTES_MAX:
        key = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        path = Path(tempfile.gettempdir()) / f"rewind-{os.geteuid()}-{key}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    # Root may meet a folder that it gave to its database server; anyone else only one of its own.
    foreign = os.geteuid() not in {0, found.st_uid}
    if not stat.S_ISDIR(found.st_mode) or foreign or stat.S_IMODE(found.st_mode) & 0o077:
        raise SettingsError(f"{path} is not a private folder of this user: remove it and start again")
    return path


def _credentials(key: str | None, secret: str | None) -> tuple[str | None, str | None]:
    return (unquote(key) if key else None, unquote(secret) if secret else None)


def build_version() -> str:
    """Of the server's distribution; a copy of the code without one has none."""
    try:
        return version("rewind-server")
    except PackageNotFoundError:
        return "0"
