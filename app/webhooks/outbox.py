"""The projector: gives each recorded event its message, and a delivery to every endpoint that wants it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import orjson

from app.background import repeat
from app.responses import iso
from sandbox.journal.ids import NamespaceId
from sandbox.store.postgres.keys import DataErased, NamespaceKeys
from sandbox.store.postgres.outbox import Event, EventLog, Filter
from sandbox.store.sealing import EVENT_PLACE
from tenancy.errors import NotFound

logger = logging.getLogger(__name__)

EVERY_S = 0.5
EVENTS_AT_ONCE = 100


class Told(Protocol):
    """What messages are made of: the objects as the API shows them."""

    async def data(self, event: Event) -> tuple[dict[str, Any], str, dict[str, str]]:
        """(the message's `data`, name of the namespace, labels of the run).

        Errors: NotFound when what it tells of is gone; Unavailable.
        """
        ...


class Sealing(Protocol):
    """Bodies are stored under the key of their namespace."""

    async def seal(self, namespace: NamespaceId, data: bytes, place: str) -> bytes: ...
    async def open(self, namespace: NamespaceId, sealed: bytes, place: str) -> bytes: ...


class Projector:
    def __init__(self, log: EventLog, told: Told, sealing: Sealing, *, wake: Callable[[], None]) -> None:
        """`wake` is called when there may be something to deliver."""
        self._log = log
        self._told = told
        self._sealing = sealing
        self._wake = wake

    async def run(self, stop: asyncio.Event) -> None:
        """Project until `stop` is set."""

        async def project() -> bool:
            done = await self.project_recorded()
            if not done:
                await self._log.delete_old()
            return done == EVENTS_AT_ONCE

        await repeat("the projector of webhooks", project, stop, every_s=EVERY_S)

    async def project_recorded(self) -> int:
        """Project some events; how many there were."""
        events = await self._log.unprojected(EVENTS_AT_ONCE)
        filters: dict[str, list[Filter]] = {}
        for event in events:
            if event.organization not in filters:
                filters[event.organization] = await self._log.filters(event.organization)
            await self._project(event, filters[event.organization])
        if events:
            self._wake()
        return len(events)

    async def _project(self, event: Event, filters: list[Filter]) -> None:
        if event.endpoint is not None:
            data: dict[str, Any] = {"endpoint": event.endpoint}
            endpoints = [event.endpoint]
        else:
            try:
                data, namespace, labels = await self._told.data(event)
            except (NotFound, DataErased):
                await self._log.drop(event)
                return
            endpoints = [f.endpoint for f in filters if f.wants(event, namespace, labels)]
        body = await self._sealing.seal(event.namespace, message(event, data), place_of(event.id))
        await self._log.project(event, body, endpoints)


def message(event: Event, data: dict[str, Any]) -> bytes:
    return orjson.dumps(
        {
            "id": event.id,
            "type": event.type,
            "timestamp": iso(event.at),
            "sequence": event.sequence,
            "data": data,
        }
    )


def place_of(event: str) -> str:
    """What a sealed body is bound to."""
    return f"event/{event}"


class KeySealing:
    """Under the namespace's key, with which it is erased. Errors: DataErased, SealBroken, Unavailable."""

    def __init__(self, keys: NamespaceKeys) -> None:
        self._keys = keys

    async def seal(self, namespace: NamespaceId, data: bytes, place: str) -> bytes:
        return (await self._keys.of(namespace)).of(place).seal(data, EVENT_PLACE)

    async def open(self, namespace: NamespaceId, sealed: bytes, place: str) -> bytes:
        return (await self._keys.of(namespace)).of(place).open(sealed, EVENT_PLACE)
