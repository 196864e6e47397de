"""Two serve processes: what one revokes, the other refuses within a second."""

import asyncio
import socket
import time
from pathlib import Path

import httpx2
import pytest

from tests.e2e.stack import Process, Stack, eventually

pytestmark = pytest.mark.e2e

BELIEVED_S = 1.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.timeout(180)
async def test_what_one_process_revokes_another_refuses_within_a_second(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with Stack(database_url, s3_url, tmp_path) as stack:
        port = free_port()
        environ = {name: value for name, value in stack._environ.items() if name != "REWIND_LISTEN_FD"}
        other = Process("serve", {**environ, "REWIND_PORT": str(port)}, tmp_path / "other.log")
        stack.workers.append(other)  # it is ended with the rest
        admin = httpx2.AsyncClient(
            base_url=stack.url,
            headers={"authorization": f"Bearer {stack.api_key}"},
            trust_env=False,
            timeout=30,
        )
        async with (
            admin,
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as there,
        ):

            async def listening() -> bool:
                try:
                    return (await there.get("/healthz")).status_code == 200
                except httpx2.HTTPError:
                    return False

            await eventually(listening, what="the other process")
            key = (await admin.post("/v1/keys", json={"name": "spare"})).json()
            token = (await admin.post("/v1/tokens", json={"namespace": "acme"})).json()
            for made, secret in ((key, key["key"]), (token, token["token"])):
                kind = "keys" if "key" in made else "tokens"
                accepted: list[float] = []
                refused = asyncio.Event()

                async def use(
                    secret: str = secret, accepted: list[float] = accepted, refused: asyncio.Event = refused
                ) -> None:
                    while not refused.is_set():
                        sent = time.monotonic()
                        answer = await there.get("/v1/me", headers={"authorization": f"Bearer {secret}"})
                        if answer.status_code == 401:
                            refused.set()
                        else:
                            assert answer.status_code == 200, answer.text
                            accepted.append(sent)

                using = asyncio.create_task(use())
                await eventually(lambda accepted=accepted: _done(accepted), what="a use")
                assert (await admin.delete(f"/v1/{kind}/{made['id']}")).status_code == 204
                revoked_at = time.monotonic()
                async with asyncio.timeout(30):
                    await using
                assert max(accepted) - revoked_at < BELIEVED_S, f"{kind}: believed for longer"


async def _done(accepted: list[float]) -> bool:
    return bool(accepted)
