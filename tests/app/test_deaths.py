"""A process dies after any step of what takes several: it is done or not begun, and doing it again completes it.

Each act is done again and again, and its process dies at the first thing that it asks of the database, at the second,
and so on until it gets through: behind a relay that lets the ask take effect and tells nobody of it. Another process,
which lives, says what there is then.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox.journal.errors import Unavailable
from sandbox.store.blobs import BlobStore
from tests.app import deaths, deaths_of_people
from tests.app.deaths import Act, Made, World
from tests.fixtures.api import running_api
from tests.fixtures.cut_proxy import CutProxy
from tests.fixtures.database import Clock

STEPS_MAX = 100


@pytest.fixture
async def world(database_url: str, blobs: BlobStore, tmp_path: Path, clock: Clock) -> AsyncIterator[World]:
    async with (
        CutProxy(tmp_path / "p", database_url) as proxy,
        running_api(database_url, blobs, tmp_path / "h1") as api,
        running_api(proxy.url, blobs, tmp_path / "h2") as dying,
    ):
        yield World(api, dying, proxy, clock)


ACTS = {
    "rotation of an API key": Act(
        deaths.a_key, deaths.rotate_key, deaths.rotated_key, (True, False), (True, True)
    ),
    "revocation of an API key": Act(
        deaths.a_key, deaths.revoke_key, deaths.rotated_key, (True, False), (False, False)
    ),
    "rotation of a webhook's secret": Act(
        deaths.a_webhook, deaths.rotate_webhook, deaths.rotated_webhook, (False, False), (True, True)
    ),
    "closing": Act(deaths.a_closing, deaths.close, deaths.closed, (False, False, False), (True, True, True)),
    "restoring": Act(deaths.a_closed, deaths.restore, deaths.restored, (False, False), (True, True)),
    "purging": Act(deaths.an_overdue, deaths.purge, deaths.purged, "whole", "gone"),
    "deletion of a namespace": Act(
        deaths.a_namespace, deaths.delete_namespace, deaths.deleted_namespace, (False,) * 4, (True,) * 4
    ),
    "erasure of a namespace": Act(
        deaths.a_deleted_namespace, deaths.erase, deaths.erased, False, (True, False, False)
    ),
    "redaction": Act(deaths.an_ended, deaths.redact, deaths.redacted, (False, False), (True, True)),
    "retention": Act(
        deaths.an_expired, deaths.retain, deaths.retained, (True,) * 4, (False, False, False, True)
    ),
    "registration of a toolset": Act(
        deaths.a_toolset, deaths.put_toolset, deaths.pinned_toolset, ["one"], ["two"]
    ),
    "registration of a workflow": Act(
        deaths.a_workflow, deaths.put_workflow, deaths.workflow_versions, (1, True), (2, True)
    ),
    "start of a run": Act(deaths.nothing_yet, deaths.start_run, deaths.started_runs, (0, 0, 0), (1, 1, 1)),
    "sign-up": Act(
        deaths_of_people.a_sign_up, deaths_of_people.confirm, deaths_of_people.confirmed, (0, 1, 0), (1, 0, 1)
    ),
    "invitation": Act(
        deaths_of_people.an_invitation, deaths_of_people.join, deaths_of_people.joined, (0, 1, 0), (1, 0, 1)
    ),
    "transfer": Act(
        deaths_of_people.a_transfer,
        deaths_of_people.transfer,
        deaths_of_people.transferred,
        ("admin", "owner"),
        ("owner", "admin"),
    ),
    "new password": Act(
        deaths_of_people.a_reset,
        deaths_of_people.reset,
        deaths_of_people.was_reset,
        (1, True, False, False),
        (0, False, True, True),
    ),
}


@pytest.mark.parametrize("name", ACTS)
async def test_it_is_done_or_not_begun(world: World, name: str) -> None:
    act = ACTS[name]
    made: Made = {}
    await act.begin(world, made)
    assert await act.seen(world, made) == act.before
    seen = []
    for step in range(1, STEPS_MAX):
        made = {}
        await act.begin(world, made)
        world.proxy.die_at(step)
        with contextlib.suppress(Unavailable):
            await act.do(world, world.dying, made)
        died = world.proxy.dead
        world.proxy.die_at(None)
        found = await act.seen(world, made)
        assert found in (act.before, act.after), f"after step {step}"
        seen.append(found)
        if not died:
            break
        await (act.again or act.do)(world, world.api, made)
        assert await act.seen(world, made) == act.after, f"done again after step {step}"
    assert not died, "it takes more steps than STEPS_MAX"
    assert seen[0] == act.before
    assert seen[-1] == act.after
