"""`rewind doctor`: what this installation runs with, what it can reach, what is missing and how to get it."""

import asyncio
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from app.dev import DevFolder, with_our_code
from app.listening import DEFAULT_PORT
from app.rates import PER_MINUTE
from infra.migrate import DatabaseUnreachable, MigrationFailed, status
from sandbox.config import (
    DATA_KEY_FILE,
    WARM_RUNS,
    S3Location,
    SettingsError,
    data_dir,
    default_children,
    flag,
)
from sandbox.epochs.registry import CURRENT, served_epochs
from sandbox.journal.errors import Unavailable
from sandbox.store.blobs import BlobStore
from sandbox.store.postgres.connection import LOST
from sandbox.store.postgres.health import Deployment, read_deployment
from sandbox.store.sealing import DataKey
from tenancy.secrets import SecretBox

CHILD_TIMEOUT_S = 60
REPORT_MODULE = "sandbox.isolate.report"
PACKAGES = ("rewind-server", "rewind-sdk", "mini-racer", "asyncpg", "fastapi", "boto3", "mcp")
ON = "on"

DEFAULTS: dict[str, Callable[[], str]] = {
    "REWIND_DATA": lambda: str(data_dir({})),
    "REWIND_DATABASE_URL": lambda: "the embedded Postgres of `rewind dev`",
    "REWIND_DATABASE_ROLE": lambda: "rewind_api, rewind_worker",
    "REWIND_S3_URL": lambda: "the embedded object store of `rewind dev`",
    "REWIND_HOST": lambda: "127.0.0.1",
    "REWIND_PORT": lambda: str(DEFAULT_PORT),
    "REWIND_LISTEN_FD": lambda: "a new socket",
    "REWIND_WORKER_CHILDREN": lambda: f"{default_children()}, at most 2 in `rewind dev`",
    "REWIND_WARM_RUNS": lambda: str(WARM_RUNS),
    "REWIND_REQUIRE_CONFINEMENT": lambda: "0",
    "REWIND_EGRESS_ALLOW": lambda: "nothing that is not public; loopback in `rewind dev`",
    "REWIND_SECRET_KEY": lambda: "what REWIND_SECRET_KEY_FILE holds",
    "REWIND_SECRET_KEY_COMMAND": lambda: "none: the key is not asked of a KMS",
    "REWIND_SECRET_KEY_FILE": lambda: "secret.key in the data folder",
    "REWIND_DATA_KEY_FILE": lambda: f"{DATA_KEY_FILE} in the data folder",
    "REWIND_PUBLIC_URL": lambda: "this machine's port, over http",
    "REWIND_BEHIND_TLS": lambda: "0",
    "REWIND_TRUSTED_PROXIES": lambda: "none: X-Forwarded-For is not read",
    "REWIND_SECURITY_CONTACT": lambda: "mailto:security@ and the host of REWIND_PUBLIC_URL",
    "REWIND_SMTP_URL": lambda: "none: mails are not sent; `rewind dev` shows them at /dev/mails",
    "REWIND_MAIL_FROM": lambda: "none",
    "REWIND_OIDC_URL": lambda: "none: people sign in by password, passkey or their organization",
    "REWIND_OIDC_CLIENT_ID": lambda: "none",
    "REWIND_OIDC_CLIENT_SECRET_FILE": lambda: "none: a public client",
    "REWIND_OIDC_NAME": lambda: "the host of REWIND_OIDC_URL",
    "REWIND_OPERATOR": lambda: "the login of who types `rewind admin`",
    "REWIND_RATE_LIMIT": lambda: f"{PER_MINUTE:,} requests of a key in a minute",
    "REWIND_DEV_MAILS": lambda: "0; 1 in `rewind dev`",
    "REWIND_URL": lambda: "the server of this folder",
    "REWIND_API_KEY": lambda: "that of the server of this folder",
    "REWIND_TOKEN": lambda: "none",
    "REWIND_LOG": lambda: "off",
}
"""Every setting, with what holds when the environment does not name it."""
SECRET = frozenset({"REWIND_API_KEY", "REWIND_TOKEN", "REWIND_SMTP_URL"})


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: str
    source: str
    """`environment`, `running server` (the one on the data folder) or `default`."""


@dataclass(frozen=True, slots=True)
class Problem:
    what: str
    help: str


@dataclass(slots=True)
class Report:
    settings: list[Setting] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    confinement: dict[str, str] = field(default_factory=dict)
    """Layer -> `on`, or why it is off."""
    epochs: dict[str, Any] = field(default_factory=dict)
    database: Deployment | None = None
    migrations: dict[str, list[str]] = field(default_factory=dict)
    object_store: bool = False
    problems: list[Problem] = field(default_factory=list)

    def miss(self, what: str, how: str) -> None:
        self.problems.append(Problem(what, how))

    def to_json(self) -> str:
        return json.dumps({"ok": not self.problems, **asdict(self)})


def examine(environ: Mapping[str, str], data: Path) -> Report:
    """Look at everything; what cannot be reached is a problem of the report, never an exception."""
    report = Report(versions=_versions())
    running = DevFolder(data).addresses()
    found = {
        "REWIND_DATABASE_URL": running.get("database_url", ""),
        "REWIND_S3_URL": running.get("s3_url", ""),
    }
    report.settings = [_setting(name, environ, found) for name in DEFAULTS]
    values = {name: environ.get(name) or found[name] for name in found}
    _examine_keys(report, environ)
    _examine_sandbox(report, environ)
    _examine_database(
        report,
        values["REWIND_DATABASE_URL"],
        _help("REWIND_DATABASE_URL", environ, "check it, and that Postgres runs"),
    )
    _examine_objects(
        report, values["REWIND_S3_URL"], _help("REWIND_S3_URL", environ, "check it, and that the store runs")
    )
    return report


def text_of(report: Report) -> str:
    """For a person, by subject; problems last, each with what to do."""
    lines = ["Settings"]
    lines += [f"  {setting.name:<30} {setting.value}  ({setting.source})" for setting in report.settings]
    lines += ["", "Versions"]
    lines += [f"  {name:<30} {found}" for name, found in report.versions.items()]
    lines += ["", "Confinement of scripts"]
    lines += [f"  {layer:<30} {found}" for layer, found in report.confinement.items()] or ["  not known"]
    lines += ["", "Services"]
    lines.append(f"  {'database':<30} {_database_text(report)}")
    lines.append(f"  {'object store':<30} {'reachable' if report.object_store else 'not reachable'}")
    served = ", ".join(map(str, report.epochs["served"]))
    lines.append(f"  {'epochs':<30} {served}; new runs get {report.epochs['current']}")
    for worker in report.database.workers if report.database else ():
        epochs = ", ".join(map(str, worker.epochs))
        lines.append(
            f"  {'worker':<30} {worker.host} pid {worker.pid}, epochs {epochs}, heard of {worker.silent_ms} ms ago"
        )
    lines += ["", "Nothing is missing." if not report.problems else "Missing"]
    for problem in report.problems:
        lines += [f"  {problem.what}", f"    {problem.help}"]
    return "\n".join(lines)


def _setting(name: str, environ: Mapping[str, str], running: Mapping[str, str]) -> Setting:
    if environ.get(name):
        return Setting(name, _masked(name, environ[name]), "environment")
    if running.get(name):
        return Setting(name, _masked(name, running[name]), "running server")
    return Setting(name, DEFAULTS[name](), "default")


def _masked(name: str, value: str) -> str:
    """A value that may be shown: no password, no key."""
    if name == "REWIND_SECRET_KEY":
        return "…"
    if name in SECRET:
        return value[:8] + "…"
    if not name.endswith("_URL"):
        return value
    try:
        parts = urlsplit(value)
    except ValueError:
        return "…"
    if parts.password is None and parts.username is None:
        return value
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:…@{host}"))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


# -- Subjects


def child_report(environ: Mapping[str, str]) -> dict[str, Any]:
    """What a child of the sandbox says of itself: its `confinement`, or the `failure` to start."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", REPORT_MODULE],
            env=with_our_code(environ),
            capture_output=True,
            text=True,
            timeout=CHILD_TIMEOUT_S,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"failure": str(error)}
    return answer


def _examine_keys(report: Report, environ: Mapping[str, str]) -> None:
    """Only files that are named: those of the data folder are made by whoever needs them first."""
    for box in (SecretBox, DataKey):
        named = environ.get(box.setting)
        try:
            if named:
                box.from_file(Path(named))
        except SettingsError as error:
            report.miss(str(error), "correct the file, or write a new one if nothing is sealed with it yet")


def _examine_sandbox(report: Report, environ: Mapping[str, str]) -> None:
    report.epochs = {"served": list(served_epochs()), "current": CURRENT}
    answer = child_report(environ)
    report.confinement = answer.get("confinement", {})
    if "failure" in answer:
        report.miss(f"the sandbox does not start: {answer['failure']}", "run `make setup` again")
        return
    off = {layer: why for layer, why in report.confinement.items() if why != ON}
    try:
        required = flag(environ, "REWIND_REQUIRE_CONFINEMENT")
    except SettingsError as error:
        report.miss(str(error), "set it to 1 or 0")
        return
    if off and required:
        report.miss(
            f"confinement is required, and these layers are off: {', '.join(off)}",
            "; ".join(f"{layer}: {why}" for layer, why in off.items()),
        )


def _help(name: str, environ: Mapping[str, str], named: str) -> str:
    """What to do when the service at `name` does not answer."""
    if environ.get(name):
        return f"{name} names it: {named}"
    return "the `rewind dev` of this folder has ended without stopping its services: start it again"


def _examine_database(report: Report, url: str, advice: str) -> None:
    if not url:
        report.miss("there is no database", "start `rewind dev`, or set REWIND_DATABASE_URL")
        return
    try:
        schema = asyncio.run(status(url))
        report.migrations = {"applied": list(schema.applied), "waiting": list(schema.waiting)}
        if schema.waiting:
            report.miss(f"{len(schema.waiting)} migrations wait", "run `rewind db upgrade`")
            return
        report.database = asyncio.run(read_deployment(url))
    except MigrationFailed as error:
        report.miss(f"the database is not of this build: {error}", "use the build that upgraded it")
        return
    except (DatabaseUnreachable, asyncpg.PostgresError, *LOST) as error:
        report.miss(f"the database does not answer: {error}", advice)
        return
    if not any(CURRENT in worker.epochs for worker in report.database.workers):
        report.miss(f"no live worker serves epoch {CURRENT}", "start `rewind worker`")
    for epoch in sorted(set(report.database.live_epochs) - set(served_epochs())):
        report.miss(
            f"runs of epoch {epoch} are not over, and this build does not have it", "keep a build that does"
        )


def _examine_objects(report: Report, url: str, advice: str) -> None:
    if not url:
        report.miss("there is no object store", "start `rewind dev`, or set REWIND_S3_URL")
        return
    try:
        store = BlobStore(S3Location.parse(url))
    except SettingsError as error:
        report.miss(str(error), "correct REWIND_S3_URL")
        return
    try:
        report.object_store = store.has_bucket()
        if not report.object_store:
            report.miss("the bucket of REWIND_S3_URL does not exist", "create it")
    except Unavailable as error:
        report.miss(str(error), advice)
    finally:
        store.close()


def _database_text(report: Report) -> str:
    if report.database is None:
        return "not usable" if report.migrations else "not reachable"
    return f"reachable, Postgres {report.database.postgres}, {len(report.migrations['applied'])} migrations applied"
