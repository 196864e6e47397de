"""Keys of namespaces: one for each whoever asks first, destroyed for good, wrapped anew; and what they seal."""

import asyncio
import os
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from sandbox.config import SettingsError
from sandbox.journal.canonical import value_of
from sandbox.journal.entries import EntryType, ScheduleToolCall, ToolPolicy
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, Seq
from sandbox.store.blobs import BlobStore
from sandbox.store.interface import RunStatus, TaskFilter
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.keys import KEPT_MAX, KEPT_S, DataErased, NamespaceKeys
from sandbox.store.postgres.values import BlobChanged, RecordedBlobs
from sandbox.store.sealing import KEY_BYTES, DataKey, SealBroken, entry_place
from tests.fixtures.blobs import digest
from tests.fixtures.keys import DATA_KEY
from tests.fixtures.stores import ORGANIZATION, Bench, complete, draft, log, open_bench

PLACE = entry_place(EntryType.LOG)


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    async with asyncpg.create_pool(database_url, min_size=1, max_size=8) as made:
        yield made


@pytest.fixture
async def bench(database_url: str) -> AsyncIterator[Bench]:
    async with open_bench(database_url) as made:
        yield made


def namespace() -> NamespaceId:
    return NamespaceId(str(uuid4()))


async def test_processes_that_need_a_key_at_the_same_time_get_the_same(pool: asyncpg.Pool) -> None:
    wanted = [namespace() for _ in range(20)]
    made = await asyncio.gather(*(NamespaceKeys(pool, DATA_KEY).known(wanted) for _ in range(6)))
    for one in wanted:
        sealed = made[0][one].of("run").seal(b"x", PLACE)
        assert {keys[one].of("run").open(sealed, PLACE) for keys in made} == {b"x"}
    with pytest.raises(SealBroken):
        made[0][wanted[0]].of("run").open(made[0][wanted[1]].of("run").seal(b"x", PLACE), PLACE)


async def test_what_is_sealed_opens_only_for_its_run_and_type(pool: asyncpg.Pool) -> None:
    key = await NamespaceKeys(pool, DATA_KEY).of(namespace())
    sealed = key.of("run").seal(b"x" * 100, PLACE)
    assert sealed != key.of("run").seal(b"x" * 100, PLACE)
    assert key.of("run").open(sealed, PLACE) == b"x" * 100
    for sealer, data, place in (
        (key.of("other"), sealed, PLACE),
        (key.of("run"), sealed, entry_place(EntryType.COMPLETE_RUN)),
        (key.of("run"), sealed[:-1] + bytes([sealed[-1] ^ 1]), PLACE),
        (key.of("run"), sealed[:5], PLACE),
        (key.of("run"), b"{}", PLACE),
        (key.of("run"), b"", PLACE),
    ):
        with pytest.raises(SealBroken):
            sealer.open(data, place)


async def test_a_destroyed_key_is_not_made_again_and_used_no_longer_than_it_is_kept(
    pool: asyncpg.Pool,
) -> None:
    time = 0.0
    keys, other = NamespaceKeys(pool, DATA_KEY), NamespaceKeys(pool, DATA_KEY, clock=lambda: time)
    one, two = namespace(), namespace()
    await other.known([one, two])
    await keys.destroy(one)
    with pytest.raises(DataErased, match="was erased"):
        await keys.of(one)
    assert await other.of(one), "another process has not heard of it"
    time = KEPT_S + 1
    with pytest.raises(DataErased):
        await other.of(one)
    assert set(await other.known([one, two])) == {two}
    third = NamespaceKeys(pool, DATA_KEY)
    await third.of(two)
    await keys.destroy(two)
    third.on_hint({"k": "erased", "namespace": two})
    with pytest.raises(DataErased):
        await third.of(two)
    assert await keys.destroy(two) == 0, "again, and it is as before"


async def test_memory_holds_so_many_keys(pool: asyncpg.Pool) -> None:
    keys = NamespaceKeys(pool, DATA_KEY)
    wanted = [namespace() for _ in range(KEPT_MAX + 10)]
    await keys.known(wanted)
    assert len(keys._kept) == KEPT_MAX


async def test_the_master_key_is_replaced_while_processes_go_on(
    pool: asyncpg.Pool, database_url: str
) -> None:
    old, new = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
    one, erased = namespace(), namespace()
    before = NamespaceKeys(pool, DataKey(old))
    sealed = (await before.of(one)).of("run").seal(b"x", PLACE)
    await before.of(erased)
    await before.destroy(erased)
    both = NamespaceKeys(pool, DataKey(new, old))
    assert (await both.of(one)).of("run").open(sealed, PLACE) == b"x"
    assert [await both.rotate(), await both.rotate()] == [1, 0]
    after = NamespaceKeys(pool, DataKey(new))
    await after.check()
    assert (await after.of(one)).of("run").open(sealed, PLACE) == b"x"
    with pytest.raises(DataErased):
        await after.of(erased)
    stale = NamespaceKeys(pool, DataKey(old))
    with pytest.raises(Unavailable, match="REWIND_DATA_KEY_FILE"):
        await stale.of(one)
    with pytest.raises(SettingsError, match="REWIND_DATA_KEY_FILE is not the key"):
        await PostgresEdge.open(database_url, data_key=DataKey(old))


async def test_an_altered_value_is_not_returned(pool: asyncpg.Pool, blobs: BlobStore) -> None:
    one, data, wanted = namespace(), os.urandom(100_000), digest(b"another")
    recorded = RecordedBlobs(pool, blobs, NamespaceKeys(pool, DATA_KEY))
    await recorded.put(one, digest(data), data)
    assert await recorded.get(one, digest(data)) == data
    assert data[:50] not in await blobs.get(one, digest(data))
    await blobs.put(one, wanted, await blobs.get(one, digest(data)))
    with pytest.raises(SealBroken):
        await recorded.get(one, wanted)
    await recorded.put(one, wanted, data)
    with pytest.raises(BlobChanged, match="another digest"):
        await recorded.get(one, wanted)


async def test_an_entry_of_another_run_is_refused(bench: Bench) -> None:
    assert bench.admin is not None
    first, second = await bench.own(), await bench.own()
    for owned in (first, second):
        await owned.append(draft(log(owned.claimed.run), 0, 1))
    await bench.admin.execute(
        "update entries e set body = o.body from entries o where e.run_id = $1 and o.run_id = $2"
        " and e.seq = 1 and o.seq = 1",
        first.claimed.run,
        second.claimed.run,
    )
    with pytest.raises(SealBroken, match="another run"):
        await bench.entries(first.claimed.run)
    assert len(await bench.entries(second.claimed.run)) == 2


async def test_an_erased_namespace_stops_its_runs_and_disturbs_no_other(bench: Bench) -> None:
    other = await bench.new_namespace()
    store = await bench.worker()
    owned = []
    for within in (bench.namespace, other):
        run = await bench.start(within)
        owned.append(await bench.own(run, store))
        call = ScheduleToolCall(1, "t", value_of({"of": within}), ToolPolicy())
        await owned[-1].append(draft(call, 0, 1))
    assert isinstance(bench.edge, PostgresEdge)
    assert await bench.edge.erase_namespace(bench.namespace) == 1
    with pytest.raises(DataErased):
        await bench.edge.read_entries(bench.namespace, owned[0].claimed.run)
    assert (await bench.record(owned[0].claimed.run)).status is RunStatus.QUARANTINED
    # Its owner has the key in memory yet, and may not go on with it.
    verdict = await owned[0].append(draft(complete("x"), 0, 1))
    assert not verdict.appended
    tasks = await bench.edge.claim_tasks(TaskFilter(ORGANIZATION), str(uuid4()), 10, 1000)
    assert [(task.namespace, task.call) for task in tasks] == [(other, 1)]
    assert (await bench.edge.read_entries(other, owned[1].claimed.run, after=Seq(0)))[0].type is (
        EntryType.SCHEDULE_TOOL_CALL
    )
    with pytest.raises(DataErased):
        await bench.start(bench.namespace)
    await bench.start(other)
