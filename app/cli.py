"""The verbs that the server adds to the command `rewind`: dev, serve, worker, db, doctor, admin.

Exit codes: 0 ok, 1 failed, 2 wrong usage or settings, 3 refused, 4 a service is unreachable.
"""

import argparse
import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import uvloop

from app import dev
from app.admin.verbs import register_admin
from app.listening import port
from app.verbs import FAILED, OK, REFUSED, UNREACHABLE, Parsers, add_group, add_verb, complain, with_json
from infra.migrate import SchemaStatus, status, upgrade
from infra.processes import AlreadyRunning, InfraError
from sandbox.config import DataPlaneSettings, data_dir
from sandbox.epochs.registry import served_epochs
from sandbox.store.postgres.health import lacking_epochs
from sandbox.telemetry import configure_logs


def register(verbs: Parsers) -> None:
    """Add the server's verbs to the command; each sets `handler(arguments) -> exit code`."""
    _register_dev(verbs)
    add_verb(verbs, "serve", _serve, "Run the API and the scheduler.")
    add_verb(verbs, "worker", _worker, "Run a worker, which executes scripts.")
    with_json(add_verb(verbs, "doctor", _doctor, "Show settings and services, and what is missing."))
    database = add_group(verbs, "db", "look at and upgrade the database")
    for name, handler, text in (
        ("upgrade", _db_upgrade, "Apply the migrations that are missing."),
        ("status", _db_status, "Show which migrations were applied; exit code 1 when some wait."),
    ):
        with_json(add_verb(database, name, handler, text))
    register_admin(add_group(verbs, "admin", "act as the operator"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb without the SDK's command around it: what the supervisor does."""
    parser = argparse.ArgumentParser(prog="python -m app.cli")
    register(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))
    parsed = parser.parse_args(arguments)
    handler: Callable[[argparse.Namespace], int] = parsed.handler
    return handler(parsed)


def _register_dev(verbs: Parsers) -> None:
    parser = add_verb(verbs, "dev", _dev, "Run everything on this machine, with data in one folder.")
    parser.add_argument("--port", type=int, help="0 takes any free port (default: REWIND_PORT, then 8484)")
    parser.add_argument("--data", type=Path, help="the data folder (default: REWIND_DATA, then .rewind)")
    with_json(parser)


def _dev(arguments: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    data = arguments.data or data_dir()
    chosen = port() if arguments.port is None else arguments.port

    def ready(server: dev.DevServer) -> None:
        print(server.to_json() if arguments.json else _summary(server, data), flush=True)

    def restarted(name: str) -> None:
        print(f"rewind: {name} had ended and was started again", file=sys.stderr, flush=True)

    try:
        dev.run_dev(data, chosen, os.environ, on_ready=ready, on_restart=restarted)
    except AlreadyRunning as error:
        other = dev.DevFolder(data).server()
        where = f" and answers at {other.url}" if other else ""
        return complain(InfraError(f"already running: {error}{where}"), REFUSED)
    return OK


def _summary(server: dev.DevServer, data: Path) -> str:
    return "\n".join(
        (
            "Rewind is ready.",
            "",
            f"  address   {server.url}",
            f"  API docs  {server.url}/docs",
            f"  API key   {server.api_key}",
            f"  data      {data} (logs in {data / 'logs'})",
            "",
            "Commands in this folder find it by themselves: try `rewind runs list`. Ctrl-C stops it.",
        )
    )


def _serve(_: argparse.Namespace) -> int:
    gc.disable()
    # Imported here: the web framework takes a second to load, and no other verb needs it. What is imported
    # stays for ever, so the collector need not look at it, neither now nor later.
    from app import serve
    from app.config import Settings

    gc.freeze()
    gc.enable()
    settings = Settings.from_env(dev.with_dev_services(os.environ, data_dir()))
    configure_logs()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve.run(settings))
    return OK


def _worker(_: argparse.Namespace) -> int:
    """Become the worker: the data plane's code is none of the control plane's."""
    environ = dev.with_dev_services(os.environ, data_dir())
    DataPlaneSettings.from_env(environ)
    os.execve(  # noqa: S606 - our own interpreter and module
        sys.executable, [sys.executable, "-m", dev.WORKER_MODULE], dev.with_our_code(environ)
    )


def _doctor(arguments: argparse.Namespace) -> int:
    # Imported here: it needs all that serve and worker are made of, and no other verb does.
    from app import doctor

    report = doctor.examine(os.environ, data_dir())
    print(report.to_json() if arguments.json else doctor.text_of(report))
    return UNREACHABLE if report.problems else OK


def _db_upgrade(arguments: argparse.Namespace) -> int:
    with dev.database_of(data_dir(), os.environ) as url:
        if lacking := asyncio.run(lacking_epochs(url, served_epochs())):
            listed = ", ".join(map(str, lacking))
            print(
                f"rewind db upgrade: runs of epoch {listed} are not over, and this build cannot execute them: "
                "upgrade with a build that has it, or wait until they have ended",
                file=sys.stderr,
            )
            return REFUSED
        applied = asyncio.run(upgrade(url))
    if arguments.json:
        print(json.dumps({"applied": applied}))
    else:
        print("\n".join(f"applied {file}" for file in applied) or "nothing to apply")
    return OK


def _db_status(arguments: argparse.Namespace) -> int:
    with dev.database_of(data_dir(), os.environ) as url:
        found = asyncio.run(status(url))
    print(
        json.dumps({"applied": found.applied, "waiting": found.waiting}) if arguments.json else _table(found)
    )
    return FAILED if found.waiting else OK


def _table(found: SchemaStatus) -> str:
    lines = [f"{file}  applied" for file in found.applied] + [f"{file}  waiting" for file in found.waiting]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
