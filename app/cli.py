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
from typing import TYPE_CHECKING

import asyncpg
import uvloop

from app import dev
from app.listening import port
from infra.migrate import DatabaseUnreachable, SchemaStatus, status, upgrade
from infra.processes import AlreadyRunning, InfraError
from sandbox.config import DataPlaneSettings, SettingsError, data_dir, data_key_file
from sandbox.epochs.registry import served_epochs
from sandbox.journal.errors import ApiError, Unavailable
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.health import lacking_epochs
from sandbox.store.sealing import DataKey

if TYPE_CHECKING:
    from tenancy.secrets import SecretBox

OK, FAILED, USAGE, REFUSED, UNREACHABLE = range(5)
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the server's verbs to the command; each sets `handler(arguments) -> exit code`."""
    _register_dev(verbs)
    _verb(verbs, "serve", _serve, "Run the API and the scheduler.")
    _verb(verbs, "worker", _worker, "Run a worker, which executes scripts.")
    _with_json(_verb(verbs, "doctor", _doctor, "Show settings and services, and what is missing."))
    database = verbs.add_parser("db", help="look at and upgrade the database").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    for name, handler, text in (
        ("upgrade", _db_upgrade, "Apply the migrations that are missing."),
        ("status", _db_status, "Show which migrations were applied; exit code 1 when some wait."),
    ):
        _with_json(_verb(database, name, handler, text))
    admin = verbs.add_parser("admin", help="act as the operator").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    organizations = admin.add_parser("organizations", help="the customers").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    create = _verb(
        organizations, "create", _organizations_create, "Create an organization and its first key."
    )
    create.add_argument("name")
    _with_json(create)
    rotate = _verb(
        admin,
        "rotate-data-key",
        _rotate_data_key,
        "Wrap the namespaces' keys with the first key of the file.",
    )
    _with_json(rotate)
    rotate_secrets = _verb(
        admin,
        "rotate-secret-key",
        _rotate_secret_key,
        "Seal customers' secrets anew with the first secret key.",
    )
    _with_json(rotate_secrets)
    drill = _verb(admin, "quarantine", _quarantine, "Put an active run into quarantine, for a drill.")
    drill.add_argument("run")
    drill.add_argument("--reason", required=True, help="stands in the run and in the audit log")
    _with_json(drill)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb without the SDK's command around it: what the supervisor does."""
    parser = argparse.ArgumentParser(prog="python -m app.cli")
    register(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))
    parsed = parser.parse_args(arguments)
    handler: Callable[[argparse.Namespace], int] = parsed.handler
    return handler(parsed)


def _register_dev(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _verb(verbs, "dev", _dev, "Run everything on this machine, with data in one folder.")
    parser.add_argument("--port", type=int, help="0 takes any free port (default: REWIND_PORT, then 8484)")
    parser.add_argument("--data", type=Path, help="the data folder (default: REWIND_DATA, then .rewind)")
    _with_json(parser)


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    handler: Callable[[argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text[0].lower() + text[1:].rstrip("."), description=text)
    parser.set_defaults(handler=lambda arguments: _guarded(handler, arguments))
    return parser


def _with_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def _guarded(handler: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Say what went wrong in one line, with the exit code of its kind."""
    try:
        return handler(arguments)
    except SettingsError as error:
        return _complain(error, USAGE)
    except (ApiError, AlreadyRunning) as error:
        return _complain(error, REFUSED)
    except (DatabaseUnreachable, Unavailable) as error:
        return _complain(error, UNREACHABLE)
    except InfraError as error:
        return _complain(error, FAILED)


def _complain(error: Exception, code: int) -> int:
    print(f"rewind: {error}", file=sys.stderr)
    return code


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
        return _complain(InfraError(f"already running: {error}{where}"), REFUSED)
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
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
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


def _organizations_create(arguments: argparse.Namespace) -> int:
    with dev.database_of(data_dir(), os.environ) as url:
        asyncio.run(upgrade(url))
        organization, api_key = asyncio.run(dev.new_organization(url, arguments.name))
    if arguments.json:
        print(json.dumps({"organization": organization, "api_key": api_key}))
    else:
        print(f"organization {organization}\nAPI key      {api_key}   (shown only now)")
    return OK


def _rotate_data_key(arguments: argparse.Namespace) -> int:
    environ = dev.with_dev_services(os.environ, data_dir())
    key = DataKey.from_file(data_key_file(environ))
    with dev.database_of(data_dir(), os.environ) as url:
        count = asyncio.run(_rotate(url, key))
    if arguments.json:
        print(json.dumps({"rewrapped": count}))
    else:
        print(
            f"{count} keys of namespaces were wrapped anew; former lines of the file are not needed any more"
        )
    return OK


def _rotate_secret_key(arguments: argparse.Namespace) -> int:
    # Imported here: most verbs need nothing of the tenancy, and each start would pay for it.
    from app.config import secret_keys
    from tenancy.secret_keys import secret_box

    environ = dev.with_dev_services(os.environ, data_dir())
    box = secret_box(secret_keys(environ))
    with dev.database_of(data_dir(), os.environ) as url:
        count = asyncio.run(_reseal(url, box))
    if arguments.json:
        print(json.dumps({"resealed": count}))
    else:
        print(f"{count} secrets were sealed anew; the former keys are not needed any more")
    return OK


async def _reseal(url: str, box: "SecretBox") -> int:
    # Imported here: see _rotate_secret_key.
    from tenancy.rotation import rotate_secret_key

    connection = await asyncpg.connect(url)
    try:
        return await rotate_secret_key(connection, box)
    finally:
        await connection.close()


async def _rotate(url: str, key: DataKey) -> int:
    store = await PostgresEdge.open(url, data_key=key, size=1)
    try:
        return await store.keys.rotate()
    finally:
        await store.close()


def _quarantine(arguments: argparse.Namespace) -> int:
    environ = dev.with_dev_services(os.environ, data_dir())
    key = DataKey.from_file(data_key_file(environ))
    with dev.database_of(data_dir(), os.environ) as url:
        asyncio.run(_put_into_quarantine(url, key, arguments.run, arguments.reason))
    shown = {"run": arguments.run, "status": "quarantined"}
    print(json.dumps(shown) if arguments.json else f"run {arguments.run} is quarantined")
    return OK


async def _put_into_quarantine(url: str, key: DataKey, run: str, reason: str) -> None:
    # Imported here: most verbs need nothing of the control plane.
    from app.quarantine.service import Quarantine

    store = await PostgresEdge.open(url, data_key=key, size=1)
    try:
        await Quarantine(store).quarantine(run, reason)
    finally:
        await store.close()


if __name__ == "__main__":
    raise SystemExit(main())
