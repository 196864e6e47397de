"""Sends queued mails over SMTP. Without a server set they stay in the queue, which `rewind dev` shows."""

import asyncio
import logging
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import make_msgid
from typing import Self
from urllib.parse import unquote, urlsplit

import aiosmtplib
import asyncpg

from app.background import repeat
from sandbox.config import SettingsError
from sandbox.store.postgres.connection import acquired
from tenancy.mails.repository import QueuedMail, claim_mails, delete_old_mails, mail_failed, mail_sent

logger = logging.getLogger(__name__)

EVERY_S = 1.0
AT_ONCE = 20
TIMEOUT_S = 30.0
BACKOFF_S = (10, 60, 600, 3_600, 21_600, 86_400)
PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """REWIND_SMTP_URL: `smtp://USER:PASSWORD@HOST:587` (STARTTLS where the server has it), or `smtps://…:465`."""

    host: str
    port: int
    user: str | None
    password: str | None
    tls: bool
    sender: str

    def __repr__(self) -> str:
        return f"SmtpServer({self.host}:{self.port})"

    @classmethod
    def from_url(cls, url: str, sender: str) -> Self:
        """Errors: SettingsError."""
        try:
            parts = urlsplit(url)
            port = parts.port or PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise SettingsError(f"REWIND_SMTP_URL: {error}") from error
        if parts.scheme not in PORTS or not parts.hostname:
            raise SettingsError(
                "REWIND_SMTP_URL must look like smtp://USER:PASSWORD@HOST:587 or smtps://…:465"
            )
        if "@" not in sender:
            raise SettingsError(
                "REWIND_MAIL_FROM must be the address that mails come from, such as Rewind <no-reply@example.com>"
            )
        return cls(
            parts.hostname,
            port,
            None if parts.username is None else unquote(parts.username),
            None if parts.password is None else unquote(parts.password),
            parts.scheme == "smtps",
            sender,
        )

    async def send(self, mail: QueuedMail) -> None:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = self.sender, mail.recipient, mail.subject
        message["Message-ID"] = make_msgid(idstring=mail.id)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(mail.body)
        await aiosmtplib.send(
            message,
            hostname=self.host,
            port=self.port,
            username=self.user,
            password=self.password,
            use_tls=self.tls,
            timeout=TIMEOUT_S,
        )


async def run_mailer(pool: asyncpg.Pool, server: SmtpServer | None, stop: asyncio.Event) -> None:
    """Send what is queued until `stop` is set. Without a server: only delete what is old."""

    async def send() -> bool:
        if server is not None and await send_due(pool, server):
            return True
        async with acquired(pool) as connection:
            await delete_old_mails(connection)
        return False

    await repeat("mails", send, stop, every_s=EVERY_S)


async def send_due(pool: asyncpg.Pool, server: SmtpServer) -> int:
    """Send some of what is due; how many mails that were."""
    async with acquired(pool) as connection:
        mails = await claim_mails(connection, AT_ONCE)
    for mail in mails:
        error = await _failure(server, mail)
        async with acquired(pool) as connection:
            if error is None:
                await mail_sent(connection, mail)
                continue
            retry_ms = BACKOFF_S[mail.attempt - 1] * 1000 if mail.attempt <= len(BACKOFF_S) else None
            await mail_failed(connection, mail, error, retry_ms)
            logger.warning("mail %s was not sent (attempt %d): %s", mail.id, mail.attempt, error)
    return len(mails)


async def _failure(server: SmtpServer, mail: QueuedMail) -> str | None:
    try:
        await server.send(mail)
    except (aiosmtplib.SMTPException, OSError, TimeoutError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None
