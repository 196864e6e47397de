"""The parts of webhooks, made for one process."""

import asyncio
import logging
from dataclasses import dataclass

import asyncpg

from app.dispatcher.egress import Egress
from app.webhooks.outbox import Projector, Sealing
from app.webhooks.repository import WebhookRepository
from app.webhooks.sender import Sender
from app.webhooks.service import RunEvents, Webhooks
from sandbox.journal.ids import OrganizationId
from sandbox.store.postgres.outbox import DeliveryQueue, EventLog
from tenancy.secrets import SecretBox

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hooks:
    webhooks: Webhooks
    projector: Projector
    sender: Sender

    async def run(self, stop: asyncio.Event) -> None:
        """Tell endpoints what happens, until `stop` is set."""
        await asyncio.gather(self.projector.run(stop), self.sender.run(stop))


def hooks_of(
    pool: asyncpg.Pool, *, told: RunEvents, egress: Egress, box: SecretBox, sealing: Sealing
) -> Hooks:
    sender = Sender(DeliveryQueue(pool), egress=egress, box=box, sealing=sealing, switched_off=_switched_off)
    return Hooks(
        Webhooks(WebhookRepository(pool), egress=egress, box=box, sealing=sealing),
        Projector(EventLog(pool), told, sealing, wake=sender.wake),
        sender,
    )


async def _switched_off(organization: OrganizationId, endpoint: str) -> None:
    logger.warning(
        "webhook endpoint %s of organization %s failed for five days and is switched off",
        endpoint,
        organization,
    )
