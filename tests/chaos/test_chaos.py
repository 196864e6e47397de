"""Mixed runs while something is killed, cut or stopped every second: every run ends right, every effect is counted.

CI plays a sample; `make soak` plays 200 runs for three minutes. REWIND_SEED repeats the plans and what is broken in
which order (not the exact moments: these are real processes).
"""

import asyncio
import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest
import rewind

from infra.embedded_postgres import EmbeddedPostgres
from infra.migrate import upgrade
from sandbox.config import DATA_KEY_FILE
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.sealing import DataKey
from tests.chaos.audit import Audit, Effects
from tests.chaos.cluster import Cluster
from tests.chaos.crowd import Crowd
from tests.chaos.host_tools import CHORES, TOOLSET, host_tools
from tests.chaos.plans import CHORE, Plan, Planner
from tests.chaos.proxy import Proxy
from tests.chaos.storm import Storm
from tests.e2e.stack import eventually, pause

pytestmark = pytest.mark.e2e

SOAK = os.environ.get("REWIND_SOAK") == "1"
RUNS = int(os.environ.get("REWIND_CHAOS_RUNS", "200" if SOAK else "16"))
STORM_S = float(os.environ.get("REWIND_CHAOS_S", "180" if SOAK else "15"))
SERVES, WORKERS, HOSTS = (2, 3, 2) if SOAK else (2, 2, 1)
SETTLE_S = 240
STEP_MS, STEP_S = 5_000, 0.8
"""After the storm time runs faster, so that the leases of the dead end; a live tool answers long before its own."""


def _cluster(postgres: EmbeddedPostgres, proxy: Proxy, s3_url: str, folder: Path) -> Cluster:
    return Cluster(postgres, proxy, s3_url, folder, serves=SERVES, workers=WORKERS, hosts=HOSTS)


async def play(cluster: Cluster, storm: Storm, plans: list[Plan]) -> Crowd:
    """Storm and crowd at once; then calm, until every run has ended and is sealed."""
    starts = random.Random(len(plans))
    async with rewind.AsyncRewind(api_key=cluster.api_key, base_url=cluster.url, max_retries=40) as client:
        world = {"name": "world", "url": f"{cluster.world.base}/mcp"}
        tools = host_tools(cluster.world.base)
        await client.toolsets.register(CHORES, tools=tools)
        await client.workflows.put("chore", CHORE, toolset=CHORES)
        await client.toolsets.register(TOOLSET, mcp=[world], tools=tools, workflows=["chore"])
        crowd = Crowd(client)
        playing = [asyncio.create_task(crowd.play(plan, starts.uniform(0, STORM_S * 0.7))) for plan in plans]
        try:
            with cluster.timed("storm"):
                await storm.blow(STORM_S)
            with cluster.timed("to the last end"):
                await eventually(lambda: _settled(cluster, len(plans)), within_s=SETTLE_S, what="calm")
                await asyncio.gather(*playing)
        finally:
            for task in playing:
                task.cancel()
    return crowd


async def _settled(cluster: Cluster, runs: int) -> bool:
    """Let time pass; True when all runs have ended and are sealed. Quarantined ones are released, as an operator would."""
    await cluster.database.advance(STEP_MS)
    await pause(STEP_S)
    for row in await cluster.database.rows(
        "select r.run_id, n.name from runs r join namespaces n on n.id = r.namespace_id where r.status = 5"
    ):
        await cluster.release(str(row["run_id"]), row["name"])
    row = await cluster.database.row(
        "select count(*) as started, count(*) filter (where sealed) as sealed,"
        " count(*) filter (where parent is null) as asked from run_facts"
    )
    return bool(row["asked"] == runs and row["started"] == row["sealed"])


def _report(storm: Storm, audit: Audit, cluster: Cluster) -> str:
    broken = ", ".join(f"{count} × {name}" for name, count in sorted(storm.done.items()))
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(audit.outcomes.items()))
    faults = Counter(
        match
        for log in cluster.folder.glob("*.log")
        for match in re.findall(
            r"^(?:\w+\.)*(\w*(?:Error|Exception|Fault|Entry)\b.{0,90})", log.read_text(), re.M
        )
    )
    return (
        f"broken: {broken}\nendings: {dict(audit.endings)}, {audit.entries} entries, "
        f"{len(cluster.released)} released from quarantine\ncalls: {outcomes}\n"
        + "".join(f"in a log, {count} times: {fault}\n" for fault, count in faults.most_common(15))
    )


@pytest.mark.timeout(1800)
async def test_whatever_is_killed_every_run_ends_right_and_no_effect_is_lost_or_repeated(
    s3_url: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("REWIND_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print(f"\nseed {seed}: {RUNS} runs, {STORM_S:g} s")
    rng = random.Random(seed)
    plans = [Planner(rng, serial, seconds=STORM_S / 3).draw() for serial in range(RUNS)]
    with EmbeddedPostgres(tmp_path / "postgres") as postgres:
        await upgrade(postgres.url())
        with Proxy(tmp_path / "proxy", postgres.socket_dir) as proxy:
            async with _cluster(postgres, proxy, s3_url, tmp_path) as cluster:
                storm = Storm(cluster, rng)
                try:
                    crowd = await play(cluster, storm, plans)
                    with cluster.timed("audit"):
                        audit = await _audit(cluster, crowd)
                finally:
                    print("\n".join(storm.history))
                print(_report(storm, audit, cluster))
                print(f"seconds: {', '.join(f'{what} {took:.0f}' for what, took in cluster.took.items())}")
                assert audit.problems == []
                assert storm.failures == []
                assert cluster.ended_by_themselves() == {}
                assert audit.outcomes["effects"] > RUNS, "next to nothing happened"


async def _audit(cluster: Cluster, crowd: Crowd) -> Audit:
    key = DataKey.from_file(cluster.folder / DATA_KEY_FILE)
    store = await PostgresEdge.open(cluster.database.url, data_key=key, size=2)
    try:
        async with rewind.AsyncRewind(api_key=cluster.api_key, base_url=cluster.url) as client:
            audit = Audit(store, client, Effects.of(cluster.world.calls()))
            for played in crowd.runs:
                await audit.check(played)
            await audit.finish()
    finally:
        await store.close()
    return audit
