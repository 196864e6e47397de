"""What dies between two steps: acts of the control plane, each with what there is before and after it.

`tests/app/test_deaths.py` does them at a process that dies, and asks another one that lives.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from app.scheduler.retention import sweep
from app.scheduler.seals import Sealer
from sandbox.store.postgres.connection import acquired
from tests.app.test_people import PASSWORD, Browser
from tests.fixtures.api import Api
from tests.fixtures.cut_proxy import CutProxy
from tests.fixtures.database import Clock

NEW_PASSWORD = "eleven yellow submarines"
DAY_MS = 86_400_000
LATE_STARTS_MS = 130_000
"""After a namespace was deleted: by then no process begins anything in it."""
SWEEPS = 2
"""The first one takes its runs, the second one the rest."""
Made = dict[str, Any]


@dataclass
class World:
    """`dying` is the process that dies, `api` the one that lives; both serve one database."""

    api: Api
    dying: Api
    proxy: CutProxy
    clock: Clock

    async def ask(self, at: Api, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """None of its requests may be answered as if we had a bug."""
        async with at.client(self.api.key) as client:
            answer = await client.request(method, path, json=body, headers=headers)
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
        return answer

    async def form(self, at: Api, browser: Browser, path: str, **fields: str) -> None:
        """The browser's form, sent to this process."""
        other = somebody(at)
        other.client.cookies = browser.client.cookies
        answer = await other.client.post(path, data=fields)
        assert answer.status_code < 500 or answer.status_code == 503, answer.text

    async def row(self, sql: str, *values: Any) -> Any:
        async with acquired(self.api.store.pool) as connection:
            found = await connection.fetchrow(sql, *values)
        return None if found is None else tuple(found)


Do = Callable[[World, Api, Made], Awaitable[Any]]


@dataclass(frozen=True)
class Act:
    """What there is before it, what it does at a process, and what is seen of it: `before` or `after`."""

    begin: Callable[[World, Made], Awaitable[Any]]
    do: Do
    seen: Callable[[World, Made], Awaitable[Any]]
    before: Any
    after: Any
    again: Do | None = None
    """What goes on elsewhere, or is done by who was told nothing; `do` if absent."""


def somebody(at: Api) -> Browser:
    """A browser at an address of its own: who does much from one has to wait."""
    return Browser(at, f"2001:db8::{secrets.token_hex(2)}:{secrets.token_hex(2)}")


# -- Keys and webhooks


async def a_key(world: World, made: Made) -> None:
    made.update((await world.ask(world.api, "POST", "/v1/keys", {"name": "prod"})).json())


async def rotate_key(world: World, at: Api, made: Made) -> None:
    await world.ask(at, "POST", f"/v1/keys/{made['id']}/rotate", {"overlap": "1h"})


async def rotated_key(world: World, made: Made) -> Any:
    """(whether the first secret works still, whether there is another one)."""
    world.api.services.authenticator.forget()
    works = (await world.api.call("GET", "/v1/me", secret=made["key"])).status_code == 200
    [other] = await world.row("select prefix <> $2 from api_keys where id = $1", made["id"], made["prefix"])
    return works, other


async def revoke_key(world: World, at: Api, made: Made) -> None:
    await world.ask(at, "DELETE", f"/v1/keys/{made['id']}")


async def a_webhook(world: World, made: Made) -> None:
    body = {"url": "https://hooks.example/x"}
    made.update((await world.ask(world.api, "POST", "/v1/webhooks", body)).json())


async def rotate_webhook(world: World, at: Api, made: Made) -> None:
    await world.ask(at, "POST", f"/v1/webhooks/{made['id']}/rotate", {})


async def rotated_webhook(world: World, made: Made) -> Any:
    sql = (
        "select previous_secret is not null, previous_until is not null from webhook_endpoints where id = $1"
    )
    return await world.row(sql, made["id"])


# -- What ends


async def a_closing(world: World, made: Made) -> None:
    made["name"] = f"o{uuid4().hex[:12]}"
    made["owner"] = somebody(world.api)
    made["organization"] = await made["owner"].sign_up(f"{made['name']}@example.com", made["name"])
    made["csrf"] = await made["owner"].csrf()
    found = await made["owner"].post(
        f"/keys?organization={made['organization']}", {"do": "create", "name": "prod"}
    )
    key = "rwk_" + found.text.partition("rwk_")[2].partition("<")[0]
    for name in ("a", "b"):
        body = {"script": "export function main() {}", "namespace": name, "input": {"x": 1}}
        started = await world.api.call("POST", "/v1/runs", secret=key, json=body)
        assert started.status_code == 201, started.text


async def close(world: World, at: Api, made: Made) -> None:
    await world.form(
        at, made["owner"], f"/organization?organization={made['organization']}",
        csrf=made["csrf"], named=made["name"], password=PASSWORD,
    )  # fmt: skip


async def closed(world: World, made: Made) -> Any:
    """(closed, audited, told)."""
    return await world.row(
        "select deleted_at is not null,"
        " exists (select from audit_log a where a.organization_id = o.id and action = 'organization.close'),"
        " exists (select from mails where recipient = $2 and subject like '%was closed')"
        " from organizations o where id = $1",
        made["organization"],
        f"{made['name']}@example.com",
    )


async def a_closed(world: World, made: Made) -> None:
    await a_closing(world, made)
    await close(world, world.api, made)


async def restore(world: World, at: Api, made: Made) -> None:
    await world.form(
        at, made["owner"], "/organization/restore", csrf=made["csrf"], organization=made["organization"]
    )


async def restored(world: World, made: Made) -> Any:
    return await world.row(
        "select deleted_at is null,"
        " exists (select from audit_log a where a.organization_id = o.id and action = 'organization.restore')"
        " from organizations o where id = $1",
        made["organization"],
    )


async def an_overdue(world: World, made: Made) -> None:
    await a_closed(world, made)
    world.clock.advance(31 * DAY_MS)
    await made["owner"].log_in(f"{made['name']}@example.com")
    made["csrf"] = await made["owner"].csrf()


async def purge(world: World, at: Api, made: Made) -> None:
    await at.services.pages.closing.purge_due(at.store.erase_namespace)


async def purged(world: World, made: Made) -> Any:
    """Whether it is whole or cannot come back; what of it is readable then is erased by the next who looks."""
    await restore(world, world.api, made)
    [came_back] = await world.row(
        "select deleted_at is null from organizations where id = $1", made["organization"]
    )
    [readable] = await world.row(
        "select count(*) from namespaces n join namespace_keys k on k.namespace_id = n.id"
        " where n.organization_id = $1 and k.wrapped is not null",
        made["organization"],
    )
    if came_back:
        await close(world, world.api, made)
        world.clock.advance(31 * DAY_MS)
        await made["owner"].log_in(f"{made['name']}@example.com")
        made["csrf"] = await made["owner"].csrf()
        return "whole" if readable == 2 else "came back without what it had"
    await purge(world, world.api, made)
    [readable, members] = await world.row(
        "select (select count(*) from namespaces n join namespace_keys k on k.namespace_id = n.id"
        " where n.organization_id = $1 and k.wrapped is not null),"
        " (select count(*) from members where organization_id = $1)",
        made["organization"],
    )
    return "gone" if (readable, members) == (0, 0) else f"{readable} readable, {members} members"


async def a_namespace(world: World, made: Made) -> None:
    made["namespace"] = uuid4().hex
    made["run"] = (await world.api.start(made["namespace"], input={"a": 1}))["id"]
    [made["id"]] = await world.row("select id from namespaces where name = $1", made["namespace"])


async def delete_namespace(world: World, at: Api, made: Made) -> None:
    await world.ask(at, "DELETE", f"/v1/namespaces/{made['namespace']}")


async def deleted_namespace(world: World, made: Made) -> Any:
    """(deleted, its key is destroyed, its run has stopped, audited)."""
    return await world.row(
        "select n.deleted_at is not null, k.wrapped is null, r.status <> 0,"
        " exists (select from audit_log where target = $2 and action = 'namespace.delete')"
        " from namespaces n join namespace_keys k on k.namespace_id = n.id join runs r on r.namespace_id = n.id"
        " where n.id = $1",
        made["id"],
        f"namespace:{made['namespace']}",
    )


async def a_deleted_namespace(world: World, made: Made) -> None:
    await a_namespace(world, made)
    await delete_namespace(world, world.api, made)
    world.clock.advance(LATE_STARTS_MS)


async def erase(world: World, at: Api, made: Made) -> None:
    for _ in range(SWEEPS):
        await at.retention.erase_some()


async def erased(world: World, made: Made) -> Any:
    """(marked as erased, has runs, has entries). What is not marked may have lost some: the next sweep goes on."""
    done, *left = await world.row(
        "select erased_at is not null, exists (select from runs where namespace_id = $1),"
        " exists (select from entries where namespace_id = $1) from namespaces where id = $1",
        made["id"],
    )
    return (done, *left) if done else False


async def an_ended(world: World, made: Made) -> None:
    made["namespace"] = uuid4().hex
    made["run"] = (await world.api.start(made["namespace"], input={"card": "4111"}))["id"]
    puppet = await world.api.puppet(made["run"])
    await puppet.complete("done")
    await world.api.puppets.pop().close()


async def redact(world: World, at: Api, made: Made) -> None:
    path = f"/v1/runs/{made['run']}/redact?namespace={made['namespace']}"
    await world.ask(at, "POST", path, {"seq": 0, "field": "input", "reason": "asked for"})


async def redacted(world: World, made: Made) -> Any:
    """(redacted, audited)."""
    path = f"/v1/runs/{made['run']}/journal?namespace={made['namespace']}"
    first = (await world.ask(world.api, "GET", path)).json()["data"][0]
    [audited] = await world.row(
        "select exists (select from audit_log where target = $1 and action = 'run.redact')",
        f"run:{made['run']}",
    )
    return first["input"].get("redacted", False), audited


async def an_expired(world: World, made: Made) -> None:
    await an_ended(world, made)
    await Sealer(world.api.store).seal_ended()
    world.clock.advance(31 * DAY_MS)


async def retain(world: World, at: Api, made: Made) -> None:
    await sweep(at.retention, asyncio.Event())


async def retained(world: World, made: Made) -> Any:
    return await world.row(
        "select exists (select from runs where run_id = $1), exists (select from run_facts where run_id = $1),"
        " exists (select from entries where run_id = $1), exists (select from seals where run_id = $1)",
        made["run"],
    )


# -- Pinned things


async def a_toolset(world: World, made: Made) -> None:
    made["toolset"] = f"t{uuid4().hex[:12]}"
    await world.api.toolset(made["toolset"], "one")


async def put_toolset(world: World, at: Api, made: Made) -> None:
    tools = [{"name": "two", "description": "", "input_schema": {"type": "object"}}]
    body = {"name": made["toolset"], "tools": tools}
    await world.ask(at, "POST", "/v1/toolsets", body, **{"Idempotency-Key": made["toolset"]})


async def pinned_toolset(world: World, made: Made) -> Any:
    shown = (await world.ask(world.api, "GET", f"/v1/toolsets/{made['toolset']}")).json()
    return [tool["name"] for tool in shown["tools"]]


async def a_workflow(world: World, made: Made) -> None:
    made["name"] = f"w{uuid4().hex[:12]}"
    made["script"] = "export function main() { return 1; }"
    await put_workflow(world, world.api, made)
    made["script"] = "export function main() { return 2; }"


async def put_workflow(world: World, at: Api, made: Made) -> None:
    await world.ask(at, "PUT", f"/v1/workflows/{made['name']}", {"script": made["script"]})


async def workflow_versions(world: World, made: Made) -> Any:
    shown = (await world.ask(world.api, "GET", f"/v1/workflows/{made['name']}/versions")).json()["data"]
    latest = (await world.ask(world.api, "GET", f"/v1/workflows/{made['name']}")).json()
    return len(shown), latest["digest"] == shown[0]["digest"]


async def nothing_yet(world: World, made: Made) -> None:
    made["key"] = uuid4().hex


async def start_run(world: World, at: Api, made: Made) -> None:
    body = {"script": f"export function main() {{ return '{made['key']}'; }}", "namespace": made["key"]}
    await world.ask(at, "POST", "/v1/runs", body, **{"Idempotency-Key": made["key"]})


async def started_runs(world: World, made: Made) -> Any:
    """(runs, first entries, answers kept for the key)."""
    return await world.row(
        "select (select count(*) from runs r join namespaces n on n.id = r.namespace_id where n.name = $1),"
        " (select count(*) from entries e join namespaces n on n.id = e.namespace_id where n.name = $1),"
        " (select count(*) from idempotency where key = $1)",
        made["key"],
    )
