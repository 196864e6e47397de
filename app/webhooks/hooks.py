"""The parts of webhooks, made for one process."""

import asyncio
from dataclasses import dataclass

import asyncpg

from app.dispatcher.egress import Egress
from app.webhooks.outbox import Projector, Sealing
from app.webhooks.repository import WebhookRepository, find_endpoint
from app.webhooks.sender import Sender
from app.webhooks.service import RunEvents, Webhooks
from sandbox.journal.ids import OrganizationId
from sandbox.store.postgres.outbox import DeliveryQueue, EventLog
from tenancy.closing.repository import owners
from tenancy.people import mail
from tenancy.people.service import send
from tenancy.secrets import SecretBox


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
    deliveries = DeliveryQueue(pool, _tell_owners)
    sender = Sender(deliveries, egress=egress, box=box, sealing=sealing)
    return Hooks(
        Webhooks(WebhookRepository(pool), egress=egress, box=box, sealing=sealing),
        Projector(EventLog(pool), told, sealing, wake=sender.wake),
        sender,
    )


async def _tell_owners(connection: asyncpg.Connection, organization: OrganizationId, endpoint: str) -> None:
    """Mail every owner, in the transaction that switches the endpoint off: once, and not if that is undone."""
    row = await find_endpoint(connection, organization, endpoint)
    if row is None:
        return
    text = mail.webhook_switched_off(row["organization_name"], endpoint, row["url"])
    for owner in await owners(connection, organization):
        await send(connection, owner, text)
