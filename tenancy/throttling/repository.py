"""Queries of tries that failed: by account, by address, by what else is limited."""

from typing import Any


async def blocked_ms(connection: Any, subjects: list[str]) -> int:
    """How long sign-ins of these accounts and addresses are refused; 0: they are not."""
    until = await connection.fetchval(
        "select max(blocked_until) - now_ms() from login_failures where subject = any ($1::text[])", subjects
    )
    return max(0, int(until or 0))


async def note_failure(
    connection: Any, subject: str, *, free: int, first_ms: int, most_ms: int, forget_ms: int
) -> bool:
    """One more, unless it is blocked (False); beyond `free` each doubles the wait. Forgotten after `forget_ms` alone."""
    noted: bool | None = await connection.fetchval(
        "insert into login_failures as f (subject, failures, since, blocked_until) values ($1, 1, now_ms(), 0) "
        "on conflict (subject) do update set since = now_ms(), "
        "failures = case when f.since < now_ms() - $5 then 1 else least(f.failures + 1, 1000) end, "
        "blocked_until = case when f.since < now_ms() - $5 or f.failures < $2 then 0 "
        "else now_ms() + least($4::bigint, $3::bigint * (1 << least(f.failures - $2, 20))) end "
        "where f.blocked_until <= now_ms() returning true",
        subject,
        free,
        first_ms,
        most_ms,
        forget_ms,
    )
    return noted is True


async def take_back_failure(connection: Any, subject: str, *, free: int) -> None:
    """It was none. What others did wrong still counts."""
    await connection.execute(
        "update login_failures set failures = greatest(failures - 1, 0), "
        "blocked_until = case when failures - 1 <= $2 then 0 else blocked_until end where subject = $1",
        subject,
        free,
    )


async def forget_failures(connection: Any, subject: str) -> None:
    await connection.execute("delete from login_failures where subject = $1", subject)
