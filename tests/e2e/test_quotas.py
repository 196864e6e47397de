"""Quotas where several processes start runs at once: the counter's row is the only place where they meet."""

import asyncio
import re
from pathlib import Path

import httpx2
import pytest

from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e
SCRIPT = 'import { waitForSignal } from "rewind";\nexport default () => waitForSignal("go");'
QUOTA, STARTS = 10, 100


@pytest.mark.timeout(180)
async def test_a_hundred_starts_at_once_at_two_processes(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with Stack(database_url, s3_url, tmp_path) as stack:
        second = stack.process("serve")
        log = tmp_path / "refused-serve.log"

        async def port() -> str | None:
            assert second.alive, log.read_text()
            found = re.search(r"serving on port (\d+)", log.read_text())
            return None if found is None else found[1]

        other = f"http://127.0.0.1:{await eventually(port, what='the second process')}"
        headers = {"authorization": f"Bearer {stack.api_key}"}
        try:
            async with (
                httpx2.AsyncClient(base_url=stack.url, headers=headers, timeout=60, trust_env=False) as one,
                httpx2.AsyncClient(base_url=other, headers=headers, timeout=60, trust_env=False) as two,
            ):
                body = {"script": SCRIPT, "namespace": "acme"}
                assert (await one.post("/v1/scripts/check", json=body)).json()["ok"]
                limit = await one.patch("/v1/namespaces/acme/quotas", json={"active_runs": QUOTA})
                assert limit.status_code == 200, limit.text
                answers = await asyncio.gather(
                    *((one, two)[number % 2].post("/v1/runs", json=body) for number in range(STARTS))
                )
                statuses = [answer.status_code for answer in answers]
                assert sorted(statuses) == [201] * QUOTA + [429] * (STARTS - QUOTA)
                for mine in (statuses[::2], statuses[1::2]):
                    assert 429 in mine, "both processes have been asked"
                for client in (one, two):
                    shown = (await client.get("/v1/namespaces/acme/quotas")).json()["active_runs"]
                    assert (shown["used"], shown["limit"]) == (QUOTA, QUOTA)
                    listed = (await client.get("/v1/runs?namespace=acme&limit=200")).json()["data"]
                    assert len(listed) == QUOTA
        finally:
            second.kill()
