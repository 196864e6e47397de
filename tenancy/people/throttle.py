"""Whoever tries too often has to wait: by account and by address, doubling up to a quarter of an hour."""

import hashlib
from typing import Any

from tenancy.errors import TooManyAttempts
from tenancy.people import repository

ACCOUNT_FREE, ACCOUNT_FIRST_MS, ACCOUNT_MOST_MS = 5, 1_000, 900_000
"""Wrong passwords of one account that are free; then each doubles a wait, up to a quarter of an hour."""
ADDRESS_FREE, ADDRESS_FIRST_MS, ADDRESS_MOST_MS = 50, 1_000, 900_000
FORGET_MS = 3_600_000


async def refuse_blocked(connection: Any, subjects: list[str]) -> None:
    wait_ms = await repository.blocked_ms(connection, subjects)
    if wait_ms:
        seconds = -(-wait_ms // 1000)
        raise TooManyAttempts(f"Too many attempts: try again in {seconds} s.", retry_after_s=seconds)


async def note_failed(connection: Any, account: str, address: str) -> None:
    await repository.note_failure(
        connection,
        account,
        free=ACCOUNT_FREE,
        first_ms=ACCOUNT_FIRST_MS,
        most_ms=ACCOUNT_MOST_MS,
        forget_ms=FORGET_MS,
    )
    await repository.note_failure(
        connection,
        address,
        free=ADDRESS_FREE,
        first_ms=ADDRESS_FIRST_MS,
        most_ms=ADDRESS_MOST_MS,
        forget_ms=FORGET_MS,
    )


def account_subject(email: str) -> str:
    return f"account:{hashlib.sha256(email.encode('utf-8', 'replace')).hexdigest()}"


def address_subject(ip: str) -> str:
    return f"address:{hashlib.sha256(ip.encode()).hexdigest()}"
