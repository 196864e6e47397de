"""The tasks protocol of the server in memory, as the contract says it, with faults where a test wants them.

A call is offered, leased to a claim, and settled once. A claim that comes again under its id is answered with
what is leased to it before anything new. An item repeated with the same content is ok.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from tests.sdk_python.http_server import LocalServer, Reply, Request

LEASE_MS = 30_000
Outcome = tuple[str, Any]


@dataclass
class Offer:
    """One call of a run and all that happened to it."""

    call: int
    tool: str
    args: Any
    run: str = "run-1"
    attempt: int = 1
    token: str | None = None
    claim_id: str | None = None
    outcome: Outcome | None = None
    deferred: bool = False
    settled_by: str | None = None
    stop: bool = False
    lost: bool = False


@dataclass
class Fault:
    """What happens to one request: `lose` drops it before, `lose_answer` after it took effect; `refuse` answers."""

    kind: str
    status: int = 503
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


class FakeTasks:
    """`async with FakeTasks() as tasks:`; `fault(request)` may return a Fault for each request."""

    def __init__(self) -> None:
        self.server = LocalServer(self._handle)
        self.offers: list[Offer] = []
        self.claims: list[dict[str, Any]] = []
        self.heartbeats: list[list[str]] = []
        self.fault: Callable[[Request], Fault | None] = lambda _: None
        self.on_settled: Callable[[Offer], None] = lambda _: None
        self.hold_answers: Callable[[dict[str, Any]], bool] = lambda _: False
        """Requests (by body) that take effect but are never answered."""
        self.lease_ms = LEASE_MS
        self.most_leased = 0
        self.most_promised = 0
        """Leased calls and slots of the claims that wait, together: what the worker must have room for."""
        self.refuse_once: list[str] = []
        """Codes with which results are refused, one each, before they are taken."""
        self.redeliver = False
        """Give calls again that are leased to another claim, as no server should."""
        self._parked: dict[int, tuple[Request, int]] = {}
        self._changed = asyncio.Condition()
        self._numbers = 0

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.__aexit__()

    @property
    def url(self) -> str:
        return self.server.url

    async def offer(self, tool: str, args: Any = None, run: str = "run-1") -> Offer:
        offer = Offer(len(self.offers) + 1, tool, {} if args is None else args, run)
        self.offers.append(offer)
        await self._notify()
        return offer

    async def until(self, holds: Callable[[], bool]) -> None:
        async with self._changed, asyncio.timeout(20):
            await self._changed.wait_for(holds)

    async def settled(self, count: int) -> None:
        await self.until(lambda: sum(o.outcome is not None for o in self.offers) >= count)

    def token_of(self, token: str) -> Offer | None:
        return next((o for o in self.offers if o.token == token), None)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _handle(self, request: Request) -> Reply:
        fault = self.fault(request)
        if fault is not None and fault.kind == "lose":
            return Reply(drop=True)
        if fault is not None and fault.kind == "refuse":
            return Reply(fault.status, fault.body, fault.headers)
        assert request.headers["authorization"] == "Bearer rwk_test"
        verb = request.path.removeprefix("/v1/tasks/")
        body = request.json()
        answer: dict[str, Any] = {}
        claim = body if verb == "claim" else body.get("claim")
        if verb != "claim":
            answer["results"] = [self._settle(verb, item) for item in body["items"]]
            if verb == "heartbeat":
                self.heartbeats.append([item["token"] for item in body["items"]])
            await self._notify()
        if claim is not None:
            answer["tasks"] = await self._claim(claim, request)
        await self._notify()
        if self.hold_answers(body):
            await asyncio.Event().wait()
        if fault is not None and fault.kind == "lose_answer":
            return Reply(drop=True)
        return Reply(body=answer)

    async def _claim(self, claim: dict[str, Any], request: Request) -> list[dict[str, Any]]:
        assert set(claim) <= {"claim_id", "max", "wait", "tools", "toolset", "namespace", "linger_ms"}
        self.claims.append(claim)
        await self._notify()
        ends = asyncio.get_running_loop().time() + claim["wait"] / 1000
        self._parked[id(request)] = (request, claim["max"])
        try:
            while not request.gone():
                self._count()
                if leased := self._lease(claim):
                    return leased
                left = ends - asyncio.get_running_loop().time()
                if left <= 0:
                    return []
                await self._wait(left)
            return []
        finally:
            del self._parked[id(request)]

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return

    def _lease(self, claim: dict[str, Any]) -> list[dict[str, Any]]:
        given = [o for o in self.offers if o.claim_id == claim["claim_id"] and _open(o)]
        if self.redeliver:
            given = [o for o in self.offers if o.claim_id is not None and _open(o)]
        for offer in self.offers:
            if len(given) >= claim["max"]:
                break
            if offer.claim_id is None and _open(offer) and offer.tool in claim["tools"]:
                self._numbers += 1
                offer.claim_id, offer.token = claim["claim_id"], f"t{self._numbers}"
                given.append(offer)
        self.most_leased = max(
            self.most_leased, sum(o.claim_id is not None and _open(o) for o in self.offers)
        )
        return [self._task(o) for o in given]

    def _count(self) -> None:
        leased = sum(o.claim_id is not None and _open(o) for o in self.offers)
        parked = sum(slots for request, slots in self._parked.values() if not request.gone())
        self.most_promised = max(self.most_promised, leased + parked)

    def _task(self, offer: Offer) -> dict[str, Any]:
        return {
            "token": offer.token,
            "run": offer.run,
            "namespace": "alice",
            "call": offer.call,
            "tool": offer.tool,
            "args": offer.args,
            "attempt": offer.attempt,
            "idempotency_key": f"key-{offer.call}",
            "lease_ms": self.lease_ms,
            "labels": {"team": "blue"},
            "something_new": True,
        }

    def _settle(self, verb: str, item: dict[str, Any]) -> dict[str, Any]:
        token = item["token"]
        offer = self.token_of(token)
        if offer is None or offer.lost:
            return {"token": token, "ok": False, "code": "unknown_token", "detail": "no such task"}
        if verb == "heartbeat":
            return {"token": token, "ok": True, "lease_ms": self.lease_ms, "cancel": offer.stop}
        content = f"{verb} {hashlib.sha256(orjson.dumps(item)).hexdigest()}"
        if offer.settled_by is not None:
            same = offer.settled_by == content
            return (
                {"token": token, "ok": True}
                if same
                else {"token": token, "ok": False, "code": "task_settled"}
            )
        if verb == "release":
            offer.claim_id = offer.token = None
            return {"token": token, "ok": True}
        if self.refuse_once and verb == "complete":
            return {"token": token, "ok": False, "code": self.refuse_once.pop(), "detail": "try again"}
        if verb == "defer":
            offer.deferred = True
            return {"token": token, "ok": True}
        if len(orjson.dumps(item)) > 1_000_000:
            offer.outcome, offer.settled_by = ("fail", {"code": "too_large"}), content
            return {"token": token, "ok": False, "code": "too_large", "detail": "larger than 1 MB"}
        offer.outcome = (verb, item["result"] if verb == "complete" else item["error"])
        offer.settled_by = content
        self.on_settled(offer)
        return {"token": token, "ok": True}


def _open(offer: Offer) -> bool:
    return offer.outcome is None and not offer.deferred
