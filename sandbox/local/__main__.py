"""`python -m sandbox.local`: requests on stdin, answers on stdout, one line of JSON each, until stdin ends."""

import asyncio
import os
import sys

from sandbox.config import SettingsError, flag
from sandbox.isolate.api import SandboxFault
from sandbox.isolate.pool import ChildPool
from sandbox.local.requests import answer_line

EXIT_USAGE, EXIT_FAILED = 2, 1


async def serve(*, require_confinement: bool) -> None:
    async with ChildPool(children=1, require_confinement=require_confinement, blanks=1) as pool:
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            sys.stdout.buffer.write(await answer_line(pool, line) + b"\n")
            sys.stdout.buffer.flush()


def main() -> int:
    try:
        asyncio.run(serve(require_confinement=flag(os.environ, "REWIND_REQUIRE_CONFINEMENT")))
    except SettingsError as error:
        print(f"sandbox.local: {error}", file=sys.stderr)
        return EXIT_USAGE
    except SandboxFault as error:
        print(f"sandbox.local: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
