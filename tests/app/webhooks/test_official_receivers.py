"""Receivers written with the official libraries, of PyPI and of npm, behind a proxy that breaks what it can:
each event arrives at least once, and nothing that we did not send is taken."""

import datetime as dt
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from app.webhooks import sender
from app.webhooks.signature import signed_headers
from infra.node import node_path
from sandbox.journal.ids import TimeMs
from sandbox.store.postgres.connection import acquired
from tests.app.webhooks.test_webhooks import completed, deliveries, hook, project
from tests.fixtures.api import Api
from tests.fixtures.fault_proxy import FAULTS, fault_proxy

TESTS = Path(__file__).parents[2]
MODULES = TESTS / "npm" / "node_modules"
CASES = TESTS / "cases" / "webhooks"
SIGN = json.loads((CASES / "sign-vectors.json").read_text())
VERIFY = json.loads((CASES / "verify-vectors.json").read_text())
EVENTS = 12
TIMEOUT_S = 0.5
"""Of a delivery here; 15 s in the product."""


@dataclass
class Official:
    """A receiver in a process of its own."""

    port: int

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", trust_env=False) as client:
            answer = await client.request(method, path, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

    async def trust(self, *secrets: str) -> None:
        await self.ask("POST", "/control", {"secrets": list(secrets)})

    async def send(self, headers: dict[str, str], body: bytes) -> int:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", trust_env=False) as client:
            return (await client.post("/", headers=headers, content=body)).status_code


def _started(command: list[str | Path]) -> Iterator[Official]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Official(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def pypi() -> Iterator[Official]:
    yield from _started([sys.executable, TESTS / "fixtures" / "webhook_receiver.py"])


@pytest.fixture
def npm() -> Iterator[Official]:
    if not (MODULES / "standardwebhooks").exists():
        assert os.environ.get("CI") != "true", "`make test` installs it"
        pytest.skip("the library of npm is not installed: `make test` does that")
    yield from _started([node_path(), TESTS / "fixtures" / "webhook_receiver.mjs", MODULES])


async def deliver_everything(api: Api) -> None:
    """As if the pauses between attempts were over, without moving the clock that receivers compare with theirs."""
    for _ in range(len(sender.BACKOFF_S)):
        while await api.services.hooks.sender.deliver_due():
            await api.services.hooks.sender.drain()
        async with acquired(api.store.pool) as connection:
            if not await connection.fetchval(
                "update deliveries set next_at = now_ms() where status = 'pending' returning true"
            ):
                return
    raise AssertionError("deliveries are pending after the last attempt")


async def test_each_event_arrives_and_none_is_forged(
    own_api: Api, pypi: Official, npm: Official, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One receiver knows the secret from before a rotation, the other the one after it."""
    seed = int(os.environ.get("REWIND_SEED") or random.randrange(2**32))
    print(f"REWIND_SEED={seed}")
    api = own_api
    monkeypatch.setattr(sender, "TIMEOUT_S", TIMEOUT_S)
    async with fault_proxy(pypi.port, seed) as before, fault_proxy(npm.port, seed + 1) as after:
        met: Counter[str] = Counter()
        for proxy, receiver, knows_new in ((before, pypi, False), (after, npm, True)):
            made = await hook(api, proxy.url)
            path = f"/v1/webhooks/{made['id']}/rotate"
            rotated = (await api.call("POST", path, json={"overlap": "1h"})).json()
            await receiver.trust(rotated["secret"] if knows_new else made["secret"])
            proxy.endpoint = made["id"]
        runs = {await completed(api, number) for number in range(EVENTS)}
        await project(api)
        await deliver_everything(api)
        for proxy, receiver in ((before, pypi), (after, npm)):
            got = await receiver.ask("GET", "/control")
            assert {message["run"] for message in got["accepted"]} == runs, f"seed {seed}"
            assert {message["type"] for message in got["accepted"]} == {"run.completed"}
            assert {message["id"] for message in got["refused"]} <= proxy.altered, f"seed {seed}: {got}"
            assert len(got["refused"]) == proxy.faults["altered"], f"seed {seed}: {got}"
            told = await deliveries(api, proxy.endpoint)
            assert {delivery["status"] for delivery in told} == {"delivered"}
            attempts = sum(delivery["attempt"] for delivery in told)
            assert attempts == len(proxy.seen), f"seed {seed}"
            met += proxy.faults
        assert len(met) > len(FAULTS) // 2, f"seed {seed}: {met}"


async def test_forged_replayed_and_altered_deliveries_are_refused(
    own_api: Api, pypi: Official, npm: Official
) -> None:
    api = own_api
    seen = []
    for receiver in (pypi, npm):
        async with fault_proxy(receiver.port, 0) as proxy:
            proxy.chance.random = lambda: 1.0  # type: ignore[method-assign] # it breaks nothing
            made = await hook(api, proxy.url)
            await receiver.trust(made["secret"])
            await completed(api)
            await project(api)
            await deliver_everything(api)
            [(head, body)] = proxy.seen
        headers = {
            name.decode(): value.decode()
            for name, value in (line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            if name.lower().startswith(b"webhook-")
        }
        await api.call("DELETE", f"/v1/webhooks/{made['id']}")
        lower = {name.lower(): value for name, value in headers.items()}
        assert await receiver.send(lower, body) == 200, "the delivery itself, once more"
        old = int(lower["webhook-timestamp"]) - 601
        text = body.decode()
        resigned = Webhook(made["secret"]).sign(
            lower["webhook-id"], dt.datetime.fromtimestamp(old, dt.UTC), text
        )
        other = Webhook("whsec_" + "A" * 32).sign(
            lower["webhook-id"], dt.datetime.fromtimestamp(old + 601, dt.UTC), text
        )
        forged = {
            "another body": (lower, body.replace(b"run.completed", b"run.failed")),
            "another id": ({**lower, "webhook-id": "evt_other"}, body),
            "another time": ({**lower, "webhook-timestamp": str(old + 600)}, body),
            "an old one, signed": (
                {**lower, "webhook-timestamp": str(old), "webhook-signature": resigned},
                body,
            ),
            "another secret": ({**lower, "webhook-signature": other}, body),
            "no signature": ({**lower, "webhook-signature": "v1,"}, body),
        }
        for what, (given, content) in forged.items():
            assert await receiver.send(given, content) == 400, what
        got = await receiver.ask("GET", "/control")
        assert (len(got["accepted"]), len(got["refused"])) == (2, len(forged))
        seen.append(lower["webhook-id"])
    assert seen[0] != seen[1]


@pytest.mark.parametrize("case", SIGN, ids=[case["name"] for case in SIGN])
def test_our_signer(case: dict[str, Any]) -> None:
    payload = case["payload"]
    if case["payload_how"]:
        head, times, tail = '{"s":"', 65_536, '"}'
        payload = head + "x" * times + tail
    at = TimeMs(case["timestamp"] * 1000)
    headers = signed_headers(case["webhook_id"], at, payload, [case["secret"]])
    assert headers == {
        "webhook-id": case["webhook_id"],
        "webhook-timestamp": str(case["timestamp"]),
        "webhook-signature": case["signature"],
    }


async def test_both_receivers_agree_with_the_vectors(pypi: Official, npm: Official) -> None:
    """`policy_choice`: a rule on which libraries may differ."""
    wrong = []
    for case in VERIFY:
        for receiver in (pypi, npm):
            asked = {name: case[name] for name in ("secret", "headers", "payload", "now")}
            accepted = (await receiver.ask("POST", "/check", asked))["accepted"]
            if accepted != (case["expect"] == "accept") and not case.get("policy_choice"):
                wrong.append((case["name"], "pypi" if receiver is pypi else "npm"))
    assert wrong == [("timestamp-trailing-text", "npm")], "it reads the number that the text begins with"
