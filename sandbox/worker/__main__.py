"""`python -m sandbox.worker`: one worker, configured by its environment; what `rewind worker` becomes."""

import asyncio
import logging
import sys

import uvloop

from sandbox.config import DataPlaneSettings, SettingsError
from sandbox.worker.process import run

EXIT_USAGE = 2


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = DataPlaneSettings.from_env()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(settings))
    except SettingsError as error:
        print(f"rewind worker: {error}", file=sys.stderr)
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
