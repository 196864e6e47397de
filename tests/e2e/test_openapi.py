"""Everything that the OpenAPI document describes, tried by schemathesis on real processes: no answer is a server's
error, and none is other than the document says.

CI tries a few examples of each operation, `make soak` many. Every run is another one: REWIND_SEED repeats it.
"""

import json
import os
import random
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.stack import REPOSITORY, Stack, eventually

pytestmark = pytest.mark.e2e
SOAK = bool(os.environ.get("REWIND_SOAK"))
EXAMPLES = 300 if SOAK else 12
TIMEOUT_S = 3_000 if SOAK else 400
CPU_S_MAX = 90
PASSWORD = "seven purple tractors"
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance"
)
ENDS = "export default function main(input: any) { return input ?? null; }"
WAITS = """import { waitForSignal, sleep } from "rewind";
import { echo, gated } from "rewind:tools";
export default async function main(input: any) {
  await Promise.race([waitForSignal("go"), sleep("1h"), echo({ x: 1 }), gated({ x: 2 })]);
}"""
SPARE = 40
"""Objects of each kind that calls may destroy."""
SETTINGS = {"REWIND_DEV_MAILS": "1", "REWIND_RATE_LIMIT": "0"}
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Furnisher:
    """Makes objects of every kind, as the caller whose calls are tried then."""

    def __init__(self, client: httpx2.AsyncClient, query: dict[str, str]) -> None:
        self.client = client
        self.query = query

    async def call(self, method: str, path: str, body: Any = None, secret: str = "") -> Any:
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        answer = await self.client.request(method, path, params=self.query, json=body, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json()

    async def start(self, script: str, **fields: Any) -> Any:
        return await self.call("POST", "/v1/runs", {"script": script, **fields})

    async def make(self) -> dict[str, Any]:
        schema = {"type": "object"}
        tools = [
            {"name": name, "description": "", "input_schema": schema, "approval": name == "gated" or None}
            for name in ("echo", "gated")
        ]
        for name in ("support", *(f"spare-{n}" for n in range(SPARE))):
            await self.call("POST", "/v1/toolsets", {"name": name, "tools": tools})
        waiting = [await self.start(WAITS, toolset="support") for _ in range(3)]
        ended = [await self.start(ENDS, input={"n": n}, wait="30s") for n in range(3)]
        spare = [await self.start(ENDS, input={"spare": n}) for n in range(SPARE)]
        await self.call("PUT", "/v1/workflows/onboard", {"script": ENDS})
        for n in range(SPARE):
            await self.call("PUT", f"/v1/workflows/spare{n}", {"script": ENDS})
            await self.call("PUT", f"/v1/secrets/spare-{n}", {"value": "x"})
            await self.call("PUT", f"/v1/namespaces/spare-{n}", {})
        await self.call("PUT", "/v1/secrets/shown", {"value": "x"})
        tokens = [(await self.call("POST", "/v1/tokens", {"namespace": "acme"}))["id"] for _ in range(SPARE)]
        keys = [await self.call("POST", "/v1/keys", {"name": "k"}) for _ in range(SPARE)]
        hooks = [
            (await self.call("POST", "/v1/webhooks", {"url": "https://example.invalid/"}))["id"]
            for _ in range(4)
        ]
        for hook in hooks:
            await self.call("POST", f"/v1/webhooks/{hook}/ping")
        return await self.told(waiting, ended, spare, tokens=tokens, keys=keys, hooks=hooks)

    async def told(
        self,
        waiting: list[Any],
        ended: list[Any],
        spare: list[Any],
        *,
        tokens: list[str],
        keys: list[Any],
        hooks: list[str],
    ) -> dict[str, Any]:
        """What the hooks of schemathesis put into calls."""
        wanted = {"max": 3, "wait": "20s", "namespace": "acme"}
        claimed = await self.call("POST", "/v1/tasks/claim", wanted, keys[0]["key"])
        replayed = await self.call("POST", f"/v1/runs/{ended[0]['id']}/replay", {})
        delivery = await eventually(lambda: self.delivery(hooks[0]), what="a delivery")
        journal = await self.call("GET", f"/v1/runs/{ended[0]['id']}/journal")
        runs = [run["id"] for run in (*waiting, *ended)]
        assert replayed["matches"]
        return {
            "places": {
                "run": runs,
                "call": ["1", "2"],
                "sha256": [journal["data"][0]["input"]["sha256"]],
                "digest": [ended[0]["script"]],
                "toolsets.name": ["support"],
                "workflows.name": ["onboard"],
                "namespaces.name": ["acme"],
                "secrets.name": ["shown"],
                "toolsets.reference": ["support"],
                "workflow": ["onboard"],
                "toolset": ["support"],
                "namespace": ["acme"],
                "key": [keys[0]["id"]],
                "webhook": hooks[:1],
                "delivery": [delivery],
                "script": [ENDS, WAITS],
                "body.token": [task["token"] for task in claimed["tasks"]] or ["x"],
                "body.url": ["https://example.invalid/hook"],
                "token": tokens[:1],
            },
            "spare": {
                "run": [run["id"] for run in spare],
                "toolsets.name": [f"spare-{n}" for n in range(SPARE)],
                "toolsets.reference": [f"spare-{n}" for n in range(SPARE)],
                "workflow": [f"spare{n}" for n in range(SPARE)],
                "workflows.name": [f"spare{n}" for n in range(SPARE)],
                "namespaces.name": [f"spare-{n}" for n in range(SPARE)],
                "secrets.name": [f"spare-{n}" for n in range(SPARE)],
                "token": tokens[1:],
                "key": [key["id"] for key in keys[1:]],
                "webhook": hooks[1:],
            },
            "ended": [run["id"] for run in ended],
            "query": self.query,
        }

    async def delivery(self, hook: str) -> str | None:
        found = await self.call("GET", f"/v1/webhooks/{hook}/deliveries")
        return found["data"][0]["id"] if found["data"] else None


async def member(stack: Stack, client: httpx2.AsyncClient) -> tuple[dict[str, str], str]:
    """Sign up as a person does: the headers of the session, and the organization of which it is the owner."""
    fields = {"email": "owner@example.com", "password": PASSWORD, "organization": "Acme"}
    assert (await client.post("/signup", data=fields)).is_success
    mails = (await client.get("/dev/mails")).text
    link = re.search(r"http://[^/\s]+(/signup/[A-Za-z0-9_-]+)", mails)
    assert link is not None, mails
    page = await client.get(link[1])
    found = CSRF.search(page.text)
    csrf = {} if found is None else {"csrf": found[1]}
    confirmed = await client.post(link[1], data={"password": PASSWORD, **csrf})
    assert confirmed.status_code == 303, confirmed.text
    shown = (await client.get("/organizations")).text
    organization = re.search(r"organization=([0-9a-f-]{36})", shown)
    token = CSRF.search(shown)
    assert organization is not None
    assert token is not None
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    return {"Cookie": cookie, "X-CSRF-Token": token[1]}, organization[1]


async def explore(stack: Stack, places: dict[str, Any], headers: dict[str, str], folder: Path) -> None:
    seed = int(os.environ.get("REWIND_SEED") or random.randrange(2**32))
    print(f"REWIND_SEED={seed}")
    kept = folder / "places.json"
    kept.write_text(json.dumps(places))
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", f"{stack.url}/openapi.json",
        "--seed", str(seed), "--max-examples", str(EXAMPLES), "--checks", CHECKS, "--workers", "1",
        "--phases", "examples,coverage,fuzzing,stateful", "--continue-on-failure", "--warnings", "off",
        "--generation-database", "none", "--no-color", "--request-timeout", "90",
    ]  # fmt: skip
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    environ = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.e2e.openapi_hooks",
        "REWIND_PLACES": str(kept),
        "PYTHONPATH": str(REPOSITORY),
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (folder / "schemathesis.txt").write_text(done.stdout)
    print(f"{done.stdout[-600:]}\nCPU of the prober: {cpu_s:.1f} s")
    assert done.returncode == 0, f"REWIND_SEED={seed}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in stack.logs(), stack.logs()
    assert SOAK or cpu_s < CPU_S_MAX
    stack.check_alive()


@pytest.mark.timeout(TIMEOUT_S + 120)
async def test_a_key_of_all_scopes(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with Stack(database_url, s3_url, tmp_path, environ=SETTINGS) as stack:
        headers = {"Authorization": f"Bearer {stack.api_key}"}
        async with client_of(stack, headers) as client:
            places = await Furnisher(client, {"namespace": "acme"}).make()
        await explore(stack, places, headers, tmp_path)


@pytest.mark.timeout(TIMEOUT_S + 120)
async def test_a_member_by_cookie(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with Stack(database_url, s3_url, tmp_path, environ=SETTINGS) as stack:
        async with client_of(stack, {}) as browser:
            headers, organization = await member(stack, browser)
        async with client_of(stack, headers) as client:
            query = {"namespace": "acme", "organization": organization}
            places = await Furnisher(client, query).make()
        await explore(stack, places, headers, tmp_path)


def client_of(stack: Stack, headers: dict[str, str]) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=stack.url, headers=headers, timeout=60, trust_env=False)
