"""Write infra/schema.sql: what the migrations and grants make, so that a change shows its whole effect in review.

`make db` writes it; a test compares it with the migrations.
"""

import asyncio
import re
import subprocess
import tempfile
from pathlib import Path

from infra.embedded_postgres import EmbeddedPostgres
from infra.migrate import upgrade
from infra.postgres_programs import environment, installed
from infra.processes import InfraError

SNAPSHOT = Path(__file__).with_name("schema.sql")

_HEADER = "-- Written by `make db` from infra/migrations and infra/grants.sql; not to be edited.\n"
_NOISE = re.compile(r"--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(?:un)?restrict .*|CREATE SCHEMA public;")


def dump_schema(url: str) -> str:
    """Return tables, functions, comments and grants as SQL, without what differs between two machines."""
    done = subprocess.run(
        [installed() / "bin" / "pg_dump", "--schema-only", "--no-owner", "--schema=public", url],
        capture_output=True,
        env=environment(),
        check=False,
    )
    if done.returncode != 0:
        raise InfraError(done.stderr.decode(errors="replace").strip())
    lines = [line.rstrip() for line in done.stdout.decode().splitlines() if not _NOISE.fullmatch(line)]
    return _HEADER + re.sub(r"\n{2,}", "\n\n", "\n".join(lines)).strip() + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rw-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with EmbeddedPostgres(folder, settings={"fsync": "off"}) as server:
            asyncio.run(upgrade(server.url()))
            SNAPSHOT.write_text(dump_schema(server.url()))


if __name__ == "__main__":
    main()
