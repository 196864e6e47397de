"""`python -m sandbox.isolate.report`: start one child, and print what it could take from itself as a line of JSON."""

import asyncio
import json
import sys

from sandbox.epochs.registry import CURRENT
from sandbox.isolate.pool import ChildPool
from sandbox.journal.errors import RewindFault


async def confinement() -> dict[str, str]:
    async with ChildPool(children=1, epochs=[CURRENT], blanks=0) as pool:
        return pool.confinement


def main() -> int:
    try:
        print(json.dumps({"confinement": asyncio.run(confinement())}))
    except (RewindFault, OSError) as error:
        print(json.dumps({"failure": f"{type(error).__name__}: {error}"}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
