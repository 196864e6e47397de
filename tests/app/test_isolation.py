"""With every filter by namespace and organization taken out of its queries, the API still shows nothing of others."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import asyncpg
import pytest

from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.reach import NOTHING, reaching
from tests.app.callers import ROWS
from tests.fixtures.api import Api
from tests.fixtures.world import World, world

__all__ = ["world"]

FILTER = re.compile(r"(?:\b\w+\.)?\b(?:namespace_id|organization_id) = (\$\d+)(?:::uuid)?")
"""`namespace_id = $1`, as our queries write it."""
OTHER_FORM = re.compile(
    r"\b(?:namespace_id|organization_id)\s*(?:=\s*(?:any\b|\$)|in\b|is not distinct)", re.I
)
"""A filter that is written otherwise would be left in: write it as the others are."""
NUMBER_MAX = 8
"""What is shorter is a number within a run, or a name."""
SAME_FOR_ALL = {"support", "acme", "onboard"}
"""Names that both tenants use."""


class Unfiltered(asyncpg.Connection):
    """A connection on which the programmer has forgotten whose rows are meant."""

    forgotten = 0
    left: ClassVar[set[str]] = set()

    def _without(self, sql: str) -> str:
        found, count = FILTER.subn(r"(\1::uuid is not null)", sql)
        Unfiltered.forgotten += count
        if OTHER_FORM.search(found):
            Unfiltered.left.add(sql)
        return found

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        return await super().fetch(self._without(query), *args, **options)

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        return await super().fetchrow(self._without(query), *args, **options)

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        return await super().fetchval(self._without(query), *args, **options)

    async def execute(self, query: str, *args: Any, **options: Any) -> Any:
        return await super().execute(self._without(query) if args else query, *args, **options)


@asynccontextmanager
async def forgetful(api: Api, role: str) -> AsyncIterator[None]:
    """What requests do is done under this role, without filters."""
    pool = api.store.pool
    assert not isinstance(pool, asyncpg.Pool)
    kept = pool.scoped
    async with asyncpg.create_pool(
        api.url, min_size=1, max_size=4, connection_class=Unfiltered, server_settings={"role": role}
    ) as made:
        pool.scoped = made
        try:
            yield
        finally:
            pool.scoped = kept


STREAM = "/v1/runs/{run}/events"
"""Goes on for as long as the run: a stranger who is let in would keep the test waiting."""


SEALED = "/v1/toolsets/{name}"
"""Its servers are sealed to their organization: of a stranger's row not even the product can open them."""


async def seen(
    world: World, stranger: str, methods: tuple[str, ...], without: frozenset[str] = frozenset()
) -> list[str]:
    """Calls whose answer to a stranger has an id of ours in it, or says that something of ours was done."""
    digest = world.places["{digest}"]
    """Of a script that the stranger has too, as a workflow."""
    ours = {value for value in world.places.values() if value not in SAME_FOR_ALL and len(value) > NUMBER_MAX}
    found = []
    for row in ROWS:
        method, path, body = row.method, row.path, row.body
        if method not in methods or path in without:
            continue
        answer = await world.call(method, path, body, secret=stranger)
        assert answer.status_code < 500, f"{method} {path}: {answer.text}"
        named = {place for place in world.places if place in path and world.places[place] in ours}
        sent = f"{answer.url} {answer.request.content!r}"
        shown = {value for value in ours - {digest} if value in answer.text and value not in sent}
        if (named and answer.is_success) or (shown and answer.is_success):
            found.append(f"{method} {path}")
    return found


@pytest.fixture
async def stranger(world: World) -> str:
    """A key of somebody else, whose namespace has the name of ours."""
    key = await world.api.other_organization()
    assert (await world.api.call("PUT", "/v1/namespaces/acme", secret=key, json={})).status_code == 200
    return key


async def test_without_any_filter_a_stranger_still_sees_and_does_nothing(world: World, stranger: str) -> None:
    Unfiltered.forgotten = 0
    async with forgetful(world.api, "rewind_request"):
        assert await seen(world, stranger, ("GET", "POST", "PUT", "PATCH", "DELETE")) == []
    assert Unfiltered.forgotten > 50, "the queries do not look as this test expects"
    assert not Unfiltered.left, "their filters are written in a form that this test does not take out"
    run = await world.api.call("GET", f"/v1/runs/{world.places['{run}']}?namespace=acme")
    assert (run.status_code, run.json()["cancelling"]) == (200, False)
    for name in ("webhook", "token", "key"):
        kept = await world.api.call("GET", f"/v1/{name}s/{world.places['{' + name + '}']}?namespace=acme")
        assert kept.status_code == 200, name


async def test_the_same_without_row_level_security_shows_a_lot(world: World, stranger: str) -> None:
    async with forgetful(world.api, "rewind_api"):
        found = await seen(world, stranger, ("GET",), frozenset({STREAM, SEALED}))
    assert {"GET /v1/runs", "GET /v1/runs/{run}", "GET /v1/webhooks/{webhook}", "GET /v1/keys"} <= set(found)


async def test_a_task_of_which_nobody_has_said_what_it_may_reach_is_refused(api: Api) -> None:
    with reaching(NOTHING), pytest.raises(RuntimeError, match="what this task may reach"):
        async with acquired(api.store.pool):
            pytest.fail("it has a connection")
