"""The verbs of `rewind admin`, done: at the database that the settings mean, shown as a table or as JSON."""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg
import orjson

from app import dev
from app.admin import repository
from app.admin.operator import MINUTES_DEFAULT, Operator, checked_reason
from app.admin.rotating import until_none
from app.config import secret_keys
from app.quarantine.service import Quarantine
from app.responses import iso
from app.verbs import WrongUsage, confirm, table
from app.verbs import show as shown
from infra.migrate import upgrade
from sandbox.config import data_dir, data_key_file
from sandbox.journal.ids import OrganizationId
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.sealing import REPORT_PLACE, DataKey
from tenancy.audit import Act
from tenancy.rotation import rotate_secret_key as reseal
from tenancy.secret_keys import secret_box
from tenancy.service import create_organization

READS_BY = "reader"
"""Who reads is named nowhere; whoever acts gives a name (`--by`)."""
T = TypeVar("T")


def organizations(arguments: argparse.Namespace) -> int:
    page, following = _done(
        arguments, lambda operator: operator.organizations(arguments.search, arguments.after, arguments.limit)
    )
    rows = [
        (
            one["id"],
            one["name"][:40],
            one["plan"],
            one["status"],
            one["members"],
            one["namespaces"],
            one["active_runs"],
            _minute(one["created_at"]),
        )
        for one in page
    ]
    headers = ("ID", "NAME", "PLAN", "STATUS", "MEMBERS", "NAMESPACES", "ACTIVE RUNS", "CREATED")
    return shown(
        arguments,
        {"data": page, "next": following},
        _paged(table(headers, rows, none="no organizations"), following),
    )


def show(arguments: argparse.Namespace) -> int:
    return _organization(arguments, lambda operator: operator.show(arguments.organization))


def create(arguments: argparse.Namespace) -> int:
    with dev.database_of(data_dir(), os.environ) as url:
        asyncio.run(upgrade(url))

        async def made() -> tuple[str, str]:
            async with Operator.at(url, arguments.by) as operator:
                organization, key = await create_organization(operator.connection, arguments.name)
                return str(organization.id), key

        organization, key = asyncio.run(made())
    text = f"organization {organization}\nAPI key      {key}   (shown only now)"
    return shown(arguments, {"organization": organization, "api_key": key}, text)


def suspend(arguments: argparse.Namespace) -> int:
    checked_reason(arguments.reason)
    found = _done(arguments, lambda operator: operator.show(arguments.organization))
    confirm(
        arguments,
        f"{found['name']} ({found['id']}) freezes, with all that is in it. "
        f"Members: {found['members']}, active runs: {found['active_runs']}.",
    )
    return _organization(arguments, lambda operator: operator.suspend(found["id"], arguments.reason))


def resume(arguments: argparse.Namespace) -> int:
    return _organization(arguments, lambda operator: operator.resume(arguments.organization))


def set_plan(arguments: argparse.Namespace) -> int:
    return _organization(
        arguments, lambda operator: operator.set_plan(arguments.organization, arguments.plan)
    )


def namespaces(arguments: argparse.Namespace) -> int:
    page, following = _done(
        arguments,
        lambda operator: operator.namespaces(arguments.organization, arguments.after, arguments.limit),
    )
    rows = [
        (
            one["name"],
            one["status"] + (" with its organization" if one["with_organization"] else ""),
            _minute(one["suspended_at"]),
            _minute(one["created_at"]),
        )
        for one in page
    ]
    text = table(("NAMESPACE", "STATUS", "SUSPENDED", "CREATED"), rows, none="no namespaces")
    return shown(arguments, {"data": page, "next": following}, _paged(text, following))


def suspend_namespace(arguments: argparse.Namespace) -> int:
    checked_reason(arguments.reason)
    confirm(arguments, f"The namespace {arguments.namespace} of {arguments.organization} freezes.")
    done = _done(
        arguments,
        lambda operator: operator.suspend_namespace(
            arguments.organization, arguments.namespace, arguments.reason
        ),
    )
    return shown(arguments, done, f"namespace {arguments.namespace} is suspended")


def resume_namespace(arguments: argparse.Namespace) -> int:
    done = _done(
        arguments, lambda operator: operator.resume_namespace(arguments.organization, arguments.namespace)
    )
    return shown(arguments, done, f"namespace {arguments.namespace} is active")


def quarantine(arguments: argparse.Namespace) -> int:
    """`what` is a verb, or the run to put into quarantine."""
    if arguments.what == "list":
        return _quarantined(arguments)
    verb = arguments.what if arguments.what in {"release", "abandon"} else "quarantine"
    run = arguments.what if verb == "quarantine" else arguments.run
    if run is None or (verb == "quarantine" and arguments.run is not None):
        raise WrongUsage("usage: rewind admin quarantine RUN | list | release RUN | abandon RUN")
    if arguments.reason is None:
        raise WrongUsage("--reason is needed: it stands in the run and in the customer's audit log")
    checked_reason(arguments.reason)
    if verb == "abandon":
        confirm(arguments, f"Run {run} ends as aborted; its script does not go on.")

    async def decide(operator: Operator, store: PostgresEdge) -> None:
        runs = Quarantine(store)
        if verb == "release":
            await runs.release_by(operator.actor, run, arguments.reason)
        elif verb == "abandon":
            await runs.abandon_by(operator.actor, run, arguments.reason)
        else:
            await runs.quarantine(run, arguments.reason, by=operator.actor)

    _done_with_store(arguments, decide)
    status, text = {
        "quarantine": ("quarantined", "is quarantined"),
        "release": ("active", "is active again"),
        "abandon": ("quarantined", "is given up: it ends as aborted when its calls are settled"),
    }[verb]
    return shown(arguments, {"run": run, "status": status}, f"run {run} {text}")


def _quarantined(arguments: argparse.Namespace) -> int:
    async def listed(operator: Operator, store: PostgresEdge) -> list[dict[str, Any]]:
        organization = None
        if arguments.organization is not None:
            organization = OrganizationId((await operator.show(arguments.organization))["id"])
        found = await repository.list_quarantined(operator.connection, organization, arguments.limit)
        shown_ = []
        for namespace, run, row in found:
            key = await store.keys.of(namespace)
            report = orjson.loads(key.of(run).open(row["report"], REPORT_PLACE))
            shown_.append(
                {
                    "run": str(run),
                    "organization": str(row["organization_id"]),
                    "organization_name": row["organization_name"],
                    "namespace": row["namespace_name"],
                    "since": iso(row["at"]),
                    "code": report.get("code"),
                    "reason": report.get("reason") or report.get("message"),
                    "abandoning": row["abandoning"],
                }
            )
        return shown_

    found = _done_with_store(arguments, listed)
    rows = [
        (
            one["run"],
            one["organization_name"][:30],
            one["namespace"][:30],
            _minute(one["since"]),
            one["code"],
            ("(being abandoned) " if one["abandoning"] else "") + str(one["reason"] or "")[:80],
        )
        for one in found
    ]
    headers = ("RUN", "ORGANIZATION", "NAMESPACE", "SINCE", "CODE", "REASON")
    return shown(arguments, {"data": found}, table(headers, rows, none="no run is quarantined"))


def workers(arguments: argparse.Namespace) -> int:
    found = _done(arguments, lambda operator: operator.workers())
    rows = [
        (
            one["id"],
            one["host"],
            str(one["pid"]),
            one["version"],
            ", ".join(map(str, one["epochs"])),
            one["status"],
            _minute(one["since"]),
            one["runs"],
            one["runs_behind"],
            one["questions"],
        )
        for one in found
    ]
    headers = (
        "ID", "HOST", "PID", "VERSION", "EPOCHS", "STATUS", "SINCE", "RUNS", "BEHIND", "QUESTIONS",
    )  # fmt: skip
    return shown(arguments, {"data": found}, table(headers, rows, none="no worker is registered"))


def drain(arguments: argparse.Namespace) -> int:
    done = _done(arguments, lambda operator: operator.drain(arguments.worker))
    return shown(
        arguments,
        done,
        f"worker {done['id']} (pid {done['pid']} on {done['host']}) drains {done['runs']} runs and leaves",
    )


def impersonate(arguments: argparse.Namespace) -> int:
    minutes = MINUTES_DEFAULT if arguments.minutes is None else arguments.minutes
    made = _done(
        arguments, lambda operator: operator.impersonate(arguments.organization, arguments.reason, minutes)
    )
    text = (
        f"API key      {made['key']}   (shown only now; reads only)\n"
        f"until        {made['until']}\n"
        "The customer sees this in its audit log, with your name and reason, and each request made with the key."
    )
    return shown(arguments, made, text)


def audited(arguments: argparse.Namespace) -> int:
    found = _done(arguments, lambda operator: operator.audited(arguments.organization, arguments.limit))
    rows = [
        (
            one["at"],
            f"{one['actor']['kind']} {one['actor']['id']}",
            one["action"],
            one["target"],
            one["organization"],
            "" if one["after"] is None else orjson.dumps(one["after"]).decode()[:100],
        )
        for one in found
    ]
    headers = ("AT", "WHO", "ACTION", "TARGET", "ORGANIZATION", "AFTER")
    return shown(arguments, {"data": found}, table(headers, rows, none="nothing was done"))


def rotate_data_key(arguments: argparse.Namespace) -> int:
    async def rotated(operator: Operator, store: PostgresEdge) -> int:
        count = await until_none(store.keys.rotate)
        await operator.note(Act("deployment.rotate_data_key", "deployment:keys", None, {"rewrapped": count}))
        return count

    count = _done_with_store(arguments, rotated)
    text = f"{count} keys of namespaces were wrapped anew; former lines of the file are not needed any more"
    return shown(arguments, {"rewrapped": count}, text)


def rotate_secret_key(arguments: argparse.Namespace) -> int:
    box = secret_box(secret_keys(dev.with_dev_services(os.environ, data_dir())))

    async def resealed(operator: Operator, url: str) -> int:
        # The system's role may not change pinned toolsets: this takes the role that the URL has.
        connection = await asyncpg.connect(url)
        try:
            count = await until_none(lambda: reseal(connection, box))
        finally:
            await connection.close()
        await operator.note(
            Act("deployment.rotate_secret_key", "deployment:secrets", None, {"resealed": count})
        )
        return count

    with dev.database_of(data_dir(), os.environ) as url:

        async def run() -> int:
            async with Operator.at(url, arguments.by) as operator:
                return await resealed(operator, url)

        count = asyncio.run(run())
    text = f"{count} secrets were sealed anew; the former keys are not needed any more"
    return shown(arguments, {"resealed": count}, text)


# -- How


def _done(arguments: argparse.Namespace, what: Callable[[Operator], Awaitable[T]]) -> T:
    with dev.database_of(data_dir(), os.environ) as url:

        async def run() -> T:
            async with Operator.at(url, getattr(arguments, "by", READS_BY)) as operator:
                return await what(operator)

        return asyncio.run(run())


def _done_with_store(
    arguments: argparse.Namespace, what: Callable[[Operator, PostgresEdge], Awaitable[T]]
) -> T:
    """For what is sealed under the namespaces' keys."""
    key = DataKey.from_file(data_key_file(dev.with_dev_services(os.environ, data_dir())))
    with dev.database_of(data_dir(), os.environ) as url:

        async def run() -> T:
            store = await PostgresEdge.open(url, data_key=key, size=1)
            try:
                async with Operator.at(url, getattr(arguments, "by", READS_BY)) as operator:
                    return await what(operator, store)
            finally:
                await store.close()

        return asyncio.run(run())


def _organization(
    arguments: argparse.Namespace, what: Callable[[Operator], Awaitable[dict[str, Any]]]
) -> int:
    one = _done(arguments, what)
    month = one["this_month"]
    lines = [
        ("id", one["id"]),
        ("name", one["name"]),
        ("status", one["status"]),
        ("suspended", _minute(one["suspended_at"])),
        ("because", one["suspended_reason"]),
        ("closed", _minute(one["closed_at"])),
        ("plan", one["plan"]),
        ("limits", ", ".join(f"{name} {limit:,}" for name, limit in one["limits"].items()) or "the engine's"),
        ("owners", ", ".join(one["owners"]) or "none"),
        ("members", one["members"]),
        ("API keys", one["keys"]),
        ("webhooks", f"{one['webhooks']}, {one['webhooks_switched_off']} switched off"),
        ("namespaces", one["namespaces"]),
        ("active runs", one["active_runs"]),
        ("quarantined", one["quarantined_runs"]),
        ("this month", f"{month['runs']:,} runs, {month['cpu_ms']:,} ms of CPU"),
        ("created", _minute(one["created_at"])),
    ]
    text = "\n".join(f"{name:<12} {value}" for name, value in lines if value is not None)
    return shown(arguments, one, text)


def _paged(text: str, following: str | None) -> str:
    return text if following is None else f"{text}\nmore: --after {following}"


def _minute(at: str | None) -> str | None:
    return None if at is None else f"{at[:10]} {at[11:16]}"
