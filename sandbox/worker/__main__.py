"""`python -m sandbox.worker`: one worker, configured by its environment; what `rewind worker` becomes."""

import asyncio
import sys

import uvloop

from sandbox.config import DataPlaneSettings, SettingsError
from sandbox.telemetry import configure_logs
from sandbox.worker.process import run

EXIT_USAGE = 2
SWITCH_INTERVAL_S = 0.0005
"""How long a thread that explains a long script's mistakes may keep the loop, and all runs on it, from going on. With
Python's own 5 ms, taken at every turn of the loop, another tenant's check waited half a second beside it."""


def main() -> int:
    configure_logs()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
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
