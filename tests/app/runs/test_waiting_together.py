"""Who waits at the same moment is answered from one look: of several tenants, each sees its own."""

import asyncio

from tests.fixtures.api import SCRIPT, Api

NAMESPACES = 4


async def test_waiters_of_several_tenants(api: Api) -> None:
    """A look made for the first of them must not be limited to what the first may see."""
    keys = [api.key, *[await api.other_organization() for _ in range(2)]]
    runs: list[tuple[str, str, str]] = []
    for key in keys:
        for number in range(NAMESPACES):
            body = {"script": SCRIPT, "namespace": f"n{number}"}
            made = await api.call("POST", "/v1/runs", secret=key, json=body)
            runs.append((key, f"n{number}", made.json()["id"]))

    async def waited(key: str, namespace: str, run: str) -> str:
        answer = await api.call("GET", f"/v1/runs/{run}?namespace={namespace}&wait=20s", secret=key)
        return str(answer.json()["status"])

    async def told(key: str, namespace: str, run: str) -> str:
        answer = await api.call("GET", f"/v1/runs/{run}/events?namespace={namespace}", secret=key)
        return answer.text.rstrip().rpartition("\n")[2]

    waits = [asyncio.create_task(waited(*run)) for run in runs]
    follows = [asyncio.create_task(told(*run)) for run in runs]
    for _, _, run in runs:
        puppet = await api.puppet(run)
        await puppet.complete(1)
        await api.puppets.pop().close()
    assert await asyncio.gather(*waits) == ["completed"] * len(runs)
    assert await asyncio.gather(*follows) == ['data: {"status":"completed"}'] * len(runs)
