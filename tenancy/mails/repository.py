"""Queued mails: which are due, and what became of them. They belong to people, not to organizations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.journal.ids import TimeMs

LEASE_MS = 60_000
KEPT_MS = 7 * 86_400_000
_COLUMNS = "id, recipient, subject, body, created_at, attempt"


@dataclass(frozen=True, slots=True)
class QueuedMail:
    id: str
    recipient: str
    subject: str
    body: str
    created_at: TimeMs
    attempt: int


async def claim_mails(connection: Any, limit: int) -> list[QueuedMail]:
    """Lease what is due; a mail that nobody reports on is due again when its lease has ended."""
    return _mails(
        await connection.fetch(
            "update mails set attempt = attempt + 1, next_at = now_ms() + $2 where id in "
            "(select id from mails where next_at <= now_ms() order by next_at limit $1 for update skip locked) "
            f"returning {_COLUMNS}",
            limit,
            LEASE_MS,
        )
    )


async def mail_sent(connection: Any, mail: QueuedMail) -> None:
    await connection.execute(
        "update mails set sent_at = now_ms(), next_at = null, error = null where id = $1", mail.id
    )


async def mail_failed(connection: Any, mail: QueuedMail, error: str, retry_ms: int | None) -> None:
    """`retry_ms` None: it is not tried again."""
    await connection.execute(
        "update mails set error = $2, next_at = now_ms() + $3 where id = $1", mail.id, error[:500], retry_ms
    )


async def delete_old_mails(connection: Any) -> None:
    await connection.execute("delete from mails where created_at < now_ms() - $1", KEPT_MS)


async def latest_mails(connection: Any, limit: int) -> list[QueuedMail]:
    return _mails(
        await connection.fetch(
            f"select {_COLUMNS} from mails order by created_at desc, id desc limit $1", limit
        )
    )


def _mails(rows: Sequence[Any]) -> list[QueuedMail]:
    return [
        QueuedMail(
            str(row["id"]),
            row["recipient"],
            row["subject"],
            row["body"],
            TimeMs(row["created_at"]),
            row["attempt"],
        )
        for row in rows
    ]
