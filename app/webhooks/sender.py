"""Delivers messages: signed, at least once, with back-off over three days, to addresses that egress permits."""

import asyncio
import contextlib
import logging
import random

import httpx2

from app.background import repeat
from app.dispatcher.egress import Egress
from app.webhooks.outbox import Sealing, place_of
from app.webhooks.signature import signed_headers
from sandbox.journal.errors import RewindFault
from sandbox.journal.ids import OrganizationId, TimeMs
from sandbox.store.postgres.outbox import Attempt, DeliveryQueue, Leased
from tenancy.secrets import SecretBox

logger = logging.getLogger(__name__)

TIMEOUT_S = 15.0
LEASE_MS = 30_000
"""Beyond the timeout: an attempt that nobody reports is made again then."""
EVERY_S = 0.5
AT_ONCE = 256
PER_ENDPOINT = 4
"""Deliveries to one endpoint under way at the same time, on all hosts together."""
PER_ORGANIZATION = 16
"""Likewise, to all endpoints of one organization: receivers that hang cost their owner's places."""
ANSWER_BYTES_MAX = 4_096
"""Of an answer's body so much is kept; the rest is not read."""
BACKOFF_S = (5, 30, 120, 600, 1_800, 7_200, 18_000, 36_000, 50_400, 64_800, 79_200)
"""Before the second attempt, the third, …: three days in all, each 10 % sooner or later by chance."""
JITTER = 0.1
USER_AGENT = "Rewind-Webhooks/1"


class Sender:
    def __init__(
        self,
        deliveries: DeliveryQueue,
        *,
        egress: Egress,
        box: SecretBox,
        sealing: Sealing,
    ) -> None:
        self._deliveries = deliveries
        self._box = box
        self._sealing = sealing
        self._client = httpx2.AsyncClient(
            transport=egress.transport(connections_max=AT_ONCE), timeout=TIMEOUT_S, follow_redirects=False
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._look = asyncio.Event()

    def wake(self) -> None:
        """There may be something to deliver."""
        self._look.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set; what is under way then is finished."""
        try:
            await repeat("deliveries", self._begin, stop, every_s=EVERY_S, wake=self._look)
        finally:
            await self.close()

    async def _begin(self) -> bool:
        return await self.deliver_due() > 0

    async def deliver_due(self) -> int:
        """Begin to deliver what is due and has room; how many deliveries that are."""
        room = AT_ONCE - len(self._tasks)
        if room <= 0:
            return 0
        now, leased = await self._deliveries.claim(
            room, per_endpoint=PER_ENDPOINT, per_organization=PER_ORGANIZATION, lease_ms=LEASE_MS
        )
        for one in leased:
            task = asyncio.create_task(self._deliver(one, now))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        return len(leased)

    async def close(self) -> None:
        await self.drain()
        await self._client.aclose()

    async def drain(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._look.set()

    async def _deliver(self, leased: Leased, now: TimeMs) -> None:
        try:
            attempt = await self._attempt(leased, now)
            if await self._deliveries.settle(leased, attempt):
                logger.warning(
                    "webhook endpoint %s failed for five days and is switched off", leased.endpoint
                )
        except RewindFault as error:  # not recorded: the lease ends, and it is tried again
            logger.warning("a delivery of webhook %s is not recorded: %s", leased.endpoint, error)
        except Exception:
            logger.exception("a delivery of webhook %s failed", leased.endpoint)

    async def _attempt(self, leased: Leased, now: TimeMs) -> Attempt:
        body = (await self._sealing.open(leased.namespace, leased.body, place_of(leased.event))).decode()
        secrets = [self._opened(leased, leased.secret)]
        if leased.previous_secret is not None:
            secrets.append(self._opened(leased, leased.previous_secret))
        headers = {
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            **signed_headers(leased.event, now, body, secrets),
        }
        clock = asyncio.get_running_loop().time
        begun = clock()
        code, answer, error = await self._post(leased.url, body.encode(), headers)
        duration_ms = round((clock() - begun) * 1000)
        delivered = code is not None and 200 <= code < 300
        retry_at = None
        if not delivered and leased.failures < len(BACKOFF_S):
            wait_ms = BACKOFF_S[leased.failures] * 1000 * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
            retry_at = TimeMs(now + duration_ms + round(wait_ms))
        sealed = None
        if answer is not None:
            sealed = await self._sealing.seal(leased.namespace, answer.encode(), answer_place(leased.id))
        return Attempt(delivered, code, sealed, error, duration_ms, retry_at)

    def _opened(self, leased: Leased, sealed: bytes) -> str:
        return self._box.open(sealed, secret_place(leased.organization, leased.endpoint)).decode()

    async def _post(
        self, url: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int | None, str | None, str | None]:
        """(status, beginning of the answer, None), or (None, None, why there was no answer)."""
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                self._client.stream("POST", url, content=body, headers=headers) as response,
            ):
                return response.status_code, await _beginning(response), None
        except (TimeoutError, httpx2.TimeoutException):
            return None, None, f"no answer within {TIMEOUT_S:.0f} s"
        except httpx2.HTTPError as error:
            return None, None, str(error)[:500] or type(error).__name__
        except (httpx2.InvalidURL, ValueError) as error:
            return None, None, f"the URL cannot be used: {error}"[:500]


async def _beginning(response: httpx2.Response) -> str:
    """The first bytes of an answer, as text that Postgres can hold; a body that breaks off is no failure."""
    kept = bytearray()
    with contextlib.suppress(httpx2.HTTPError):
        async for chunk in response.aiter_raw():
            kept += chunk
            if len(kept) >= ANSWER_BYTES_MAX:
                break
    return bytes(kept[:ANSWER_BYTES_MAX]).decode("utf-8", "replace").replace("\0", "�")


def answer_place(delivery: str) -> str:
    """What a sealed answer is bound to."""
    return f"answer/{delivery}"


def secret_place(organization: OrganizationId, endpoint: str) -> str:
    """What a sealed secret is bound to."""
    return f"webhook/{organization}/{endpoint}"
