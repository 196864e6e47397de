"""Codes of an authenticator app (TOTP), and the recovery codes in place of one.

A code works once: its time step is remembered, and neither it nor an earlier one is taken again. Wrong codes make
the account wait like wrong passwords do, counted by themselves: whoever has the password cannot reset that.
"""

import base64
import hmac
import secrets
from dataclasses import dataclass
from typing import Any

import asyncpg
import pyotp

from sandbox.journal.errors import ApiError
from sandbox.store.postgres.connection import acquired
from tenancy.audit import audit_failed_sign_in
from tenancy.errors import Unauthenticated
from tenancy.identity import repository
from tenancy.people import mail
from tenancy.people import repository as people
from tenancy.people.repository import PersonRow
from tenancy.people.service import Client, People, Session, digest, new_secret, send
from tenancy.people.throttle import address_subject, count_attempt, succeeded
from tenancy.repository import now_ms
from tenancy.secrets import SecretBox

STEP_S = 30
STEPS_AROUND = 1
"""Clocks differ: the code before and the one after are taken, too."""
RECOVERY_CODES = 10
RECOVERY_BYTES = 10
SECOND_STEP_TTL_MS = 300_000
ISSUER = "Rewind"


@dataclass(frozen=True, slots=True)
class Setup:
    """What the app has to know, shown until a first code confirms it."""

    key: str
    uri: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Somebody whose password is proven and whose code is not."""

    person: str
    next: str


class Totp:
    def __init__(self, pool: asyncpg.Pool, box: SecretBox, people_: People) -> None:
        self._pool = pool
        self._box = box
        self._people = people_

    # -- The second step of a sign-in

    async def wanted(self, person: str) -> bool:
        async with acquired(self._pool) as connection:
            found = await people.get_person(connection, person)
        return found is not None and found.totp_since is not None

    async def wait(self, person: str, next_: str) -> str:
        """The secret of a browser that has to bring a code."""
        secret, sha256 = new_secret()
        async with acquired(self._pool) as connection:
            await repository.insert_step(
                connection, sha256, "code", person=person, body={"next": next_}, ttl_ms=SECOND_STEP_TTL_MS
            )
        return secret

    async def waiting(self, secret: str | None) -> Waiting | None:
        async with acquired(self._pool) as connection:
            step = await repository.find_step(connection, digest(secret or ""), "code")
        return None if step is None or step.person is None else Waiting(step.person, step.body["next"])

    async def prove(self, client: Client, secret: str | None, code: str) -> Waiting:
        """Errors: Unauthenticated, TooManyAttempts."""
        found = await self.waiting(secret)
        if found is None:
            raise Unauthenticated("This took longer than five minutes: sign in again.")
        await self._check(client, found.person, code)
        async with acquired(self._pool) as connection:
            if await repository.take_step(connection, digest(secret or ""), "code") is None:
                raise Unauthenticated("This sign-in has been used: sign in again.")
        return found

    async def _check(self, client: Client, person: str, code: str) -> None:
        """One of the app's codes or a recovery code, each once. Errors: Unauthenticated, TooManyAttempts."""
        account, address = code_subject(person), address_subject(client.ip)
        async with acquired(self._pool) as connection:
            await count_attempt(connection, account, address)
        async with acquired(self._pool) as connection, connection.transaction():
            found = await people.get_person(connection, person)
            if found is not None and await self._takes(connection, found, code):
                await succeeded(connection, account, address)
                return
        async with acquired(self._pool) as connection:
            await audit_failed_sign_in(connection, client.ip, "code", person=person)
        raise Unauthenticated("This code is wrong, or has been used: take the next one that the app shows.")

    async def _takes(self, connection: Any, person: PersonRow, code: str) -> bool:
        given = "".join(code.split()).replace("-", "")
        if person.totp_secret is None or person.totp_since is None:
            return False
        if len(given) == 6 and given.isascii() and given.isdigit():
            step = self._step(person, given, await now_ms(connection))
            return step is not None and await repository.use_totp_step(connection, person.id, step)
        if not await repository.use_recovery_code(connection, person.id, digest(given.upper())):
            return False
        left = await repository.count_recovery_codes(connection, person.id)
        text = f"A recovery code was used to sign in. {left} are left; make new ones on the page of your account."
        await send(connection, person.email, mail.second_factor(text))
        return True

    def _step(self, person: PersonRow, code: str, now: int) -> int | None:
        """The time step of which this is the code."""
        if person.totp_secret is None:
            return None
        app = pyotp.TOTP(self._box.open(person.totp_secret, place_of(person.id)).decode(), interval=STEP_S)
        current = now // 1000 // STEP_S
        for step in range(current - STEPS_AROUND, current + STEPS_AROUND + 1):
            if hmac.compare_digest(app.generate_otp(step), code):
                return step
        return None

    # -- On and off

    async def begin(self, client: Client, session: Session, password: str) -> None:
        """Make a key, which is not in force before a code confirms it. Errors: as `People.prove_again`; ApiError."""
        await self._people.prove_again(client, session, password)
        key = pyotp.random_base32()
        async with acquired(self._pool) as connection, connection.transaction():
            sealed = self._box.seal(key.encode(), place_of(session.person))
            if not await repository.begin_totp(connection, session.person, sealed):
                raise ApiError("An authenticator app is in use already: turn it off first.")

    async def setup(self, session: Session) -> Setup | None:
        """What to type into the app, while it waits to be confirmed."""
        async with acquired(self._pool) as connection:
            found = await people.get_person(connection, session.person)
        if found is None or found.totp_secret is None or found.totp_since is not None:
            return None
        key = self._box.open(found.totp_secret, place_of(found.id)).decode()
        return Setup(
            key, pyotp.TOTP(key, interval=STEP_S).provisioning_uri(name=found.email, issuer_name=ISSUER)
        )

    async def confirm(self, client: Client, session: Session, code: str) -> list[str]:
        """Put the key in force; the recovery codes, which nobody sees again. Errors: Unauthenticated, TooManyAttempts."""
        account, address = code_subject(session.person), address_subject(client.ip)
        given = "".join(code.split())
        async with acquired(self._pool) as connection:
            await count_attempt(connection, account, address)
        async with acquired(self._pool) as connection, connection.transaction():
            found = await people.get_person(connection, session.person)
            step = None
            if found is not None and found.totp_since is None:
                step = self._step(found, given, await now_ms(connection))
            if found is not None and step is not None:
                await repository.confirm_totp(connection, found.id, step)
                await succeeded(connection, account, address)
                await people.delete_sessions(connection, found.id, but=session.id)
                text = "From now on, signing in with your password takes a code of your authenticator app."
                await send(connection, found.email, mail.second_factor(text))
                return await _new_codes(connection, found.id)
        raise Unauthenticated("This is not the code of this moment: is the clock of your device right?")

    async def new_codes(self, client: Client, session: Session, password: str) -> list[str]:
        """In place of all earlier ones."""
        await self._people.prove_again(client, session, password)
        async with acquired(self._pool) as connection, connection.transaction():
            found = await people.get_person(connection, session.person)
            if found is None or found.totp_since is None:
                raise ApiError("There is no authenticator app in use.")
            await send(connection, found.email, mail.second_factor("You have new recovery codes."))
            return await _new_codes(connection, found.id)

    async def end(self, client: Client, session: Session, password: str) -> None:
        """Off: the password alone signs in again."""
        await self._people.prove_again(client, session, password)
        async with acquired(self._pool) as connection, connection.transaction():
            await repository.end_totp(connection, session.person)
            text = "Your authenticator app was turned off: your password alone signs you in again."
            await send(connection, session.email, mail.second_factor(text))

    async def codes_left(self, session: Session) -> int:
        async with acquired(self._pool) as connection:
            return await repository.count_recovery_codes(connection, session.person)


async def _new_codes(connection: Any, person: str) -> list[str]:
    codes = [base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode() for _ in range(RECOVERY_CODES)]
    await repository.replace_recovery_codes(connection, person, [digest(code) for code in codes])
    return ["-".join(code[at : at + 4] for at in range(0, len(code), 4)) for code in codes]


def place_of(person: str) -> str:
    return f"totp/{person}"


def code_subject(person: str) -> str:
    return f"code:{person}"
