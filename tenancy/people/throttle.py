"""Whoever tries too often has to wait: by account and by address, doubling up to a quarter of an hour."""

import hashlib
from typing import Any

from tenancy.errors import TooManyAttempts
from tenancy.throttling import repository

ACCOUNT_FREE, ACCOUNT_FIRST_MS, ACCOUNT_MOST_MS = 5, 1_000, 900_000
"""Wrong passwords of one account that are free; then each doubles a wait, up to a quarter of an hour."""
ADDRESS_FREE, ADDRESS_FIRST_MS, ADDRESS_MOST_MS = 50, 1_000, 900_000
FORGET_MS = 3_600_000
_OF_ACCOUNT = {"free": ACCOUNT_FREE, "first_ms": ACCOUNT_FIRST_MS, "most_ms": ACCOUNT_MOST_MS}
_OF_ADDRESS = {"free": ADDRESS_FREE, "first_ms": ADDRESS_FIRST_MS, "most_ms": ADDRESS_MOST_MS}


async def refuse_blocked(connection: Any, subjects: list[str]) -> None:
    wait_ms = await repository.blocked_ms(connection, subjects)
    if wait_ms:
        seconds = -(-wait_ms // 1000)
        raise TooManyAttempts(f"Too many attempts: try again in {seconds} s.", retry_after_s=seconds)


async def count_attempt(connection: Any, account: str, address: str) -> None:
    """Count it as a failure before it is known to be one: of a thousand at the same time no more are tried than of a
    thousand one after the other. `succeeded` takes it back. Errors: TooManyAttempts.
    """
    async with connection.transaction():
        await count_or_refuse(connection, account, **_OF_ACCOUNT)
        await count_at_address(connection, address)


async def count_at_address(connection: Any, address: str) -> None:
    await count_or_refuse(connection, address, **_OF_ADDRESS)


async def count_or_refuse(connection: Any, subject: str, *, free: int, first_ms: int, most_ms: int) -> None:
    """Errors: TooManyAttempts, which undoes what was counted in the caller's transaction."""
    limits = {"free": free, "first_ms": first_ms, "most_ms": most_ms, "forget_ms": FORGET_MS}
    if not await repository.note_failure(connection, subject, **limits):
        await refuse_blocked(connection, [subject])


async def not_made(connection: Any, account: str, address: str) -> None:
    """The attempt that was counted could not be made."""
    await repository.take_back_failure(connection, account, free=ACCOUNT_FREE)
    await succeeded_at_address(connection, address)


async def forgive(connection: Any, account: str) -> None:
    """The account's owner has shown up otherwise."""
    await repository.forget_failures(connection, account)


async def succeeded(connection: Any, account: str, address: str) -> None:
    """The attempt that was counted was right: all of the account's are forgotten, and this one of the address."""
    await repository.forget_failures(connection, account)
    await succeeded_at_address(connection, address)


async def succeeded_at_address(connection: Any, address: str) -> None:
    await repository.take_back_failure(connection, address, free=ADDRESS_FREE)


def account_subject(email: str) -> str:
    return f"account:{hashlib.sha256(email.encode('utf-8', 'replace')).hexdigest()}"


def address_subject(ip: str) -> str:
    return f"address:{hashlib.sha256(ip.encode()).hexdigest()}"
