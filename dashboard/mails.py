"""`/dev/mails`: in development, what would have been sent. There is no mail server then."""

from dataclasses import dataclass

import asyncpg
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard.web import Site, shown_time
from sandbox.store.postgres.connection import acquired
from tenancy.mails.repository import latest_mails

SHOWN = 50


@dataclass(frozen=True, slots=True)
class DevMails:
    site: Site
    pool: asyncpg.Pool

    def routes(self) -> list[Route]:
        return [self.site.page("/dev/mails", self.mails)]

    async def mails(self, request: Request) -> Response:
        async with acquired(self.pool) as connection:
            mails = await latest_mails(connection, SHOWN)
        shown = [
            {
                "to": mail.recipient,
                "subject": mail.subject,
                "body": mail.body,
                "at": shown_time(mail.created_at),
            }
            for mail in mails
        ]
        return await self.site.render(request, "mails.html", mails=shown)
