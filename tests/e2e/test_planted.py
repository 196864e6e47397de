"""Secrets of every kind are planted in a whole deployment, whose servers say them back in every way they can: then
every place is searched where one could have been left. Each place also has something that must be found there.
"""

import asyncio
import base64
import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pyotp
import pytest

from infra.object_store import EmbeddedObjectStore
from sandbox.config import DATA_KEY_FILE
from tests.e2e.searched import IN_MEMORY, below, family, given, hits, memory, written
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_sealed import dumped
from tests.fixtures.database import REPOSITORY
from tests.fixtures.echo_server import EchoServer
from tests.fixtures.web_server import WebServer

pytestmark = pytest.mark.e2e

SCRIPT = """
import { waitForSignal, progress } from "rewind";
import * as tools from "rewind:tools";
export default async function main(input: { calls: [string, string, any][], fail: boolean }) {
  const seen: any[] = [];
  for (const [group, tool, args] of input.calls) {
    try { seen.push(await (tools as any)[group][tool](args)); }
    catch (error: any) { seen.push([error.name, error.code, error.message, error.data, error.stack]); }
  }
  console.log(seen);
  for (const one of seen) console.log(one);
  progress(seen.slice(0, 2));
  try { if (!input.fail) await (tools as any).desk.ask({ about: seen.slice(0, 2) }); }
  catch (error: any) { seen.push(error.message); }
  await waitForSignal("go");
  if (input.fail) throw Object.assign(new Error(JSON.stringify(seen)), { cause: seen });
  return seen;
}
"""
CSRF = re.compile(r'name="csrf" value="([^"]+)"')
LINK = re.compile(r'<pre>[^<]*<a href="https?://[^/"]+(/[^"]+)"')
WEB = ("json", "headers", "redirect", "elsewhere", "binary", "failed", "cut")
ASK = {"name": "desk.ask", "description": "", "input_schema": {"type": "object"}, "approval": True}
SHOWS_ONCE = re.compile(r"^(POST|PUT) /v1/(keys|tokens|webhooks)\b")
"""What is made there is in the answer, once: those answers are not searched for it."""


class Caller:
    """Calls the API and keeps everything that it says."""

    def __init__(self, stack: Stack, secret: str) -> None:
        headers = {"Authorization": f"Bearer {secret}"}
        self.http = httpx2.AsyncClient(base_url=stack.url, headers=headers, trust_env=False, timeout=60)
        self.said: dict[str, bytes] = {}
        """The last answer of each kind of call."""

    async def __call__(self, method: str, path: str, *statuses: int, body: Any = None) -> Any:
        answer = await self.http.request(method, path, **({} if body is None else {"json": body}))
        called = f"{method} {path}"
        assert answer.status_code in (statuses or (200, 201, 202, 204)), f"{called}: {answer.text[:2000]}"
        if not SHOWS_ONCE.match(called):
            self.said[called] = repr(answer.headers.multi_items()).encode() + answer.content
        is_json = answer.headers.get("content-type", "").startswith(
            ("application/json", "application/problem")
        )
        return answer.json() if is_json and answer.content else answer.text


def plant() -> dict[str, str]:
    """Secrets that are told to Rewind; each in a form of its own."""
    kinds = ("bearer", "own", "header", "client", "access", "web")
    planted = {kind: f"planted-{kind}-{secrets.token_hex(12)}" for kind in kinds}
    planted["header"] += '-"quoted"/+%=\\'
    return planted | {"password": f"planted password {secrets.token_hex(8)}"}


async def register(call: Caller, server: WebServer, planted: dict[str, str]) -> None:
    for name, kind in {"bearer": "bearer", "header": "header", "client": "client", "web": "web"}.items():
        await call("PUT", f"/v1/secrets/{name}", body={"value": planted[kind]})
    await call("PUT", "/v1/secrets/bearer", body={"value": planted["own"], "namespace": "acme"})
    bearer = {"auth": {"secret": "bearer"}, "headers": {"X-Key": {"secret": "header"}}}
    oauth = {"client_id": "c", "client_secret": {"secret": "client"}}
    granted = {"auth": {"oauth": {**oauth, "token_url": f"{server.url}/token"}}}
    refused = {"auth": {"oauth": {**oauth, "token_url": f"{server.url}/token/refused"}}}
    pinned = {
        "name": "t",
        "tools": [ASK],
        "mcp": [
            {"name": "bearer", "url": f"{server.url}/mcp", **bearer},
            {"name": "oauth", "url": f"{server.url}/mcp", **granted},
        ],
        "http": {"allow": [server.host], "headers": {server.host: {"Authorization": {"secret": "web"}}}},
    }
    await call("POST", "/v1/toolsets", body=pinned)
    for path, how in (("closed", bearer), ("closed", granted), ("mcp", refused)):
        wrong = {"name": "w", "mcp": [{"name": "m", "url": f"{server.url}/{path}", **how}]}
        answer = await call("POST", "/v1/toolsets", 422, body=wrong)
        assert "[secret" in json.dumps(answer), "the server's own words are in the answer"


async def play(call: Caller, namespace: str, server: WebServer, echo: EchoServer, *, fail: bool) -> str:
    """A run that has called everything and waits."""
    calls: list[Any] = [[group, tool, {}] for group in ("bearer", "oauth") for tool in echo.mcp]
    calls += [["bearer", "structured", {"a": "strict"}]]
    calls += [["http", "request", {"url": f"{server.url}/web/{path}"}] for path in WEB]
    body = {"script": SCRIPT, "toolset": "t", "input": {"calls": calls, "fail": fail}, "namespace": namespace}
    run = (await call("POST", "/v1/runs", body={**body, "labels": {"control": echo.control}}))["id"]

    async def waits() -> bool:
        found = await call("GET", f"/v1/runs/{run}?namespace={namespace}")
        assert found["status"] == "active", found["error"]
        return any(one["kind"] in ({"signal"} if fail else {"approval"}) for one in found["waiting_for"])

    await eventually(waits, within_s=120, what="the wait", every_s=0.1)
    return str(run)


async def go_on(call: Caller, runs: dict[tuple[str, bool], str]) -> None:
    for (namespace, fail), run in runs.items():
        for approval in (await call("GET", f"/v1/runs/{run}/approvals?namespace={namespace}"))["data"]:
            path = f"/v1/runs/{run}/approvals/{approval['call']}?namespace={namespace}"
            await call("POST", path, body={"decision": "denied", "reason": "no"})
        await call("POST", f"/v1/runs/{run}/signals?namespace={namespace}", body={"name": "go"})
        ended = await call("GET", f"/v1/runs/{run}?namespace={namespace}&wait=30s")
        assert ended["status"] == ("failed" if fail else "completed"), ended


async def person(stack: Stack, planted: dict[str, str]) -> tuple[list[tuple[str, bytes]], dict[str, str]]:
    """Somebody signs up and turns an app on: the pages that were shown, and what nobody else may learn."""
    said: list[tuple[str, bytes]] = []
    async with httpx2.AsyncClient(base_url=stack.url, trust_env=False, timeout=60) as http:

        async def send(path: str, **fields: str) -> httpx2.Response:
            found = CSRF.search((await http.get(path)).text)
            csrf = {} if found is None else {"csrf": found[1]}
            return await http.post(path, data={**csrf, **fields})

        about = {"email": "ann@example.com", "password": planted["password"]}
        await send("/signup", **about, organization="Acme")

        async def mailed() -> str | None:
            found = LINK.search((await http.get("/dev/mails")).text)
            return None if found is None else found[1].replace("&amp;", "&")

        await send(await eventually(mailed, what="the mail"), password=planted["password"])
        begun = await send("/security", do="totp_begin", password=planted["password"])
        seed = re.search(r'class="secret">([A-Z2-7]{32})<', begun.text)
        assert seed is not None, begun.text
        now = await stack.database.now()
        code = pyotp.TOTP(seed[1]).generate_otp(now // 30_000)
        confirmed = await send("/security", do="totp_confirm", code=code)
        recovery = re.findall(r"<li><code>([A-Z2-7-]{19})</code>", confirmed.text)
        assert len(recovery) == 10, confirmed.text
        cookies = {f"cookie {cookie.name}": str(cookie.value) for cookie in http.cookies.jar}
        assert cookies
        for path in ("/organizations", "/sessions", "/security"):
            page = await http.get(path)
            assert page.status_code == 200
            said.append((path, page.content))
    return said, {"totp seed": seed[1], "recovery code": recovery[0], **cookies}


def filled(stack: Stack, paths: dict[str, Any], known: dict[str, str]) -> list[str]:
    """Every path of the API that is read, with something that there is in place of each parameter."""
    found = []
    for path, methods in paths.items():
        if "get" not in methods:
            continue
        kind = path.split("/")[2] if path.startswith("/v1/") else ""
        found.append(
            re.sub(r"{(\w+)}", lambda name, kind=kind: known.get(f"{kind}.{name[1]}") or known[name[1]], path)
        )
    return found


async def read_everything(call: Caller, stack: Stack, known: dict[str, str], control: str) -> None:
    paths = (await call("GET", "/openapi.json"))["paths"]
    for path in filled(stack, paths, known):
        missing = "/replays/" in path
        query = "?namespace=acme" if path.startswith("/v1/") and "/namespaces" not in path else ""
        query = {"/v1/me": "", "/v1/toolsets/t/search": f"{query}&q=planted"}.get(path, query)
        await call("GET", path + query, *((404,) if missing else (200,)))
    run = f"/v1/runs/{known['run']}"
    for path in ("/journal?as=cassette&", "/journal?limit=1000&", "?"):
        await call("GET", f"{run}{path}namespace=acme")
    for form in ("dts", "prompt"):
        await call("GET", f"/v1/toolsets/t/declarations?format={form}")
    await call("POST", "/v1/toolsets/t/refresh", body={})
    await call("POST", f"{run}/replay?namespace=acme", body={})
    await call("POST", f"{run}/fork?namespace=acme", body={"dry_run": True})
    await call("POST", "/v1/namespaces/acme/export", body={})
    said = b"\n".join(call.said.values())
    assert said.count(control.encode()) > 100


def commands(stack: Stack, environ: dict[str, str], run: str) -> bytes:
    """What the command prints, with its log as loud as it gets."""
    environ = {**environ, "REWIND_URL": stack.url, "REWIND_API_KEY": stack.api_key, "REWIND_LOG": "debug"}
    said = []
    for words in (["runs", "get", run, "--namespace", "acme", "--json"], ["doctor"]):
        done = subprocess.run(
            [sys.executable, "-m", "rewind.cli", *words],
            env=environ,
            cwd=REPOSITORY,
            capture_output=True,
            check=False,
        )
        said += [done.stdout, done.stderr]
    return b"\n".join(said)


def test_the_search_finds_every_way_of_writing() -> None:
    value = f"planted-{secrets.token_hex(8)}"
    for how, needle in written(value).items():
        assert hits(b"\0before " + needle + b" after", {"it": value}), how
    for around in ("", "a", "ab", "abc"):
        coded = base64.b64encode(f"{around}{value}{around}".encode())
        assert hits(coded, {"it": value}), around
    assert hits(b"nothing here", {"it": value}) == []


@pytest.mark.timeout(600)
async def test_no_planted_secret_is_left_anywhere(database_url: str, tmp_path: Path) -> None:
    planted, control = plant(), f"control-{secrets.token_hex(12)}"
    echo = EchoServer(control, planted["access"])
    environ = {"REWIND_EGRESS_ALLOW": "127.0.0.0/8", "REWIND_DEV_MAILS": "1"}
    objects_folder, data = tmp_path / "objects", tmp_path / "data"
    data.mkdir()
    with EmbeddedObjectStore(objects_folder) as objects:
        async with (
            WebServer(echo) as server,
            Stack(database_url, objects.url, data, environ=environ) as stack,
        ):
            call = Caller(stack, stack.api_key)
            pages, personal = await person(stack, planted)
            hook = await call("POST", "/v1/webhooks", body={"url": f"{server.url}/hook"})
            turned = await call("POST", f"/v1/webhooks/{hook['id']}/rotate", body={})
            key = await call("POST", "/v1/keys", body={"name": "k"})
            token = await call("POST", "/v1/tokens", body={"namespace": "acme"})
            made = {"api key": stack.api_key, "key": key["key"], "token": token["token"]}
            made |= {"hook": hook["secret"], "turned hook": turned["secret"]}
            await register(call, server, planted)
            version = {"script": "export default async (input: { a: string }) => input.a"}
            await call("PUT", "/v1/workflows/w?namespace=acme", body=version)

            kinds = [(name, fail) for name in ("acme", "other") for fail in (False, True)]
            begun = await asyncio.gather(*(play(call, name, server, echo, fail=fail) for name, fail in kinds))
            runs = dict(zip(kinds, begun, strict=True))
            shown = " ".join(echo.seen)
            told = {name: value for name, value in planted.items() if name != "password"}
            assert [name for name, value in told.items() if value not in shown and name != "client"] == []
            assert base64.b64encode(f"c:{planted['client']}".encode()).decode() in shown

            everything = {**planted, **made, **personal, **keys_of(stack)}
            look_inside(stack, everything, control, planted)
            await go_on(call, runs)

            async def delivered() -> bool:
                return all(f"run.{end}".encode() in b"".join(echo.hooks) for end in ("failed", "completed"))

            await eventually(delivered, what="webhooks")
            known = await names_of(call, runs["acme", False], hook["id"], key["id"], token["id"])
            await read_everything(call, stack, known, control)
            objects_control = f"object-{control}"
            (objects_folder / "control").write_text(objects_control)
            printed = commands(stack, stack._environ, known["run"])
            places = {
                "database": (dumped(database_url), control),
                "objects": (below(objects_folder), objects_control),
                "webhooks": (b"\n".join(echo.hooks), control),
                "pages": (b"\n".join(text for _, text in pages), "ann@example.com"),
                "commands": (printed, known["run"]),
                **{f"log {path.stem}": (path.read_bytes(), " INFO ") for path in stack.folder.glob("*.log")},
                **{called: (text, "") for called, text in call.said.items()},
            }
            assert {name for name in places if name.startswith("log ")} >= {"log serve", "log worker-0"}
            found = {name: hits(text, everything) for name, (text, _) in places.items()}
            assert {name: what for name, what in found.items() if what} == {}
            for name, (text, sure) in places.items():
                assert sure.encode() in text, f"the search sees nothing in {name}"
            await call.http.aclose()


def keys_of(stack: Stack) -> dict[str, str]:
    """The deployment's own keys, as their files have them."""
    names = {"data key": DATA_KEY_FILE, "secret key": "secret.key"}
    return {name: (stack.folder / file).read_text().strip() for name, file in names.items()}


def look_inside(stack: Stack, everything: dict[str, str], control: str, planted: dict[str, str]) -> None:
    """The data plane while its runs are warm: workers, sandbox children, checkers; what they were started with."""
    pids = family(stack.workers[0].pid)
    assert len(pids) >= 3, "a worker, a child for scripts, a type-checker"
    for pid in pids:
        assert hits(given(pid), everything) == []
    assert b"REWIND_DATA" in given(pids[0])
    if os.geteuid() != 0:  # pragma: no cover - the memory of confined children is closed to all others
        print("not root: the memory of the children was not searched")
        return
    assert hits(memory(stack.serve.pid), planted, IN_MEMORY), (
        "secrets are found in the memory of who has them"
    )
    held = {name: value for name, value in everything.items() if name != "data key"}
    inside = [memory(pid) for pid in pids]
    assert any(control.encode() in text for text in inside[1:]), "the script's values are found in its child"
    assert {
        pid: found for pid, text in zip(pids, inside, strict=True) if (found := hits(text, held, IN_MEMORY))
    } == {}


async def names_of(call: Caller, run: str, hook: str, key: str, token: str) -> dict[str, str]:
    """A name for every parameter of a path."""
    journal = (await call("GET", f"/v1/runs/{run}/journal?namespace=acme&limit=1000"))["data"]
    big = next(
        entry["result"]["sha256"] for entry in journal if entry.get("result", {}).get("bytes", 0) > 65_536
    )
    gated = next(entry["call"] for entry in journal if entry["type"] == "approval_decided")
    script = (await call("GET", f"/v1/runs/{run}?namespace=acme"))["script"]
    deliveries = (await call("GET", f"/v1/webhooks/{hook}/deliveries"))["data"]

    async def sealed() -> bool:
        await call.http.get("/healthz")
        return (await call.http.get(f"/v1/runs/{run}/seal?namespace=acme")).status_code == 200

    await eventually(sealed, what="the seal", every_s=0.1)
    return {
        "run": run, "sha256": big, "call": str(gated), "digest": script, "key": key, "token": token,
        "webhook": hook, "delivery": deliveries[0]["id"], "workflow": "w", "replay": run,
        "toolsets.name": "t", "namespaces.name": "acme", "secrets.name": "bearer",
    }  # fmt: skip
