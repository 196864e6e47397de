"""What an epoch's scripts see is tried in real child processes, as in tests/sandbox/isolate."""

from tests.sandbox.isolate.conftest import pool, run

__all__ = ["pool", "run"]
