"""Passkeys (WebAuthn): registered by who is signed in, then enough to sign in. The device asks for its owner each time."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from webauthn import (
    base64url_to_bytes,
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from sandbox.journal.errors import ApiError
from sandbox.store.postgres.connection import acquired
from tenancy.audit import audit_failed_sign_in
from tenancy.errors import NotFound, Unauthenticated
from tenancy.identity import repository
from tenancy.people import mail
from tenancy.people.service import Client, Session, digest, send
from tenancy.people.throttle import address_subject, count_at_address, succeeded_at_address

CEREMONY_TTL_MS = 300_000
PASSKEYS_MAX = 20
NAME_CHARS_MAX = 100
RELYING_PARTY = "Rewind"
NOT_BELIEVED = (WebAuthnException, ValueError, TypeError, KeyError, binascii.Error)


class NotBelieved(Unauthenticated):
    """The answer names a passkey that is known, and does not prove it."""

    def __init__(self, person: str) -> None:
        super().__init__("This passkey's answer is not believed: begin again.")
        self.person = person


@dataclass(frozen=True, slots=True)
class Passkeys:
    pool: asyncpg.Pool
    public_url: str

    @property
    def host(self) -> str:
        return str(urlsplit(self.public_url).hostname)

    @property
    def possible(self) -> bool:
        """Browsers bind passkeys to a name: an address of the network has none."""
        return not self.host.replace(".", "").isdigit() and ":" not in self.host

    # -- Registering

    async def options(self, session: Session) -> str:
        """What the browser is asked to make, as JSON. Errors: ApiError."""
        async with acquired(self.pool) as connection:
            known = await repository.list_passkeys(connection, session.person)
        if len(known) >= PASSKEYS_MAX:
            raise ApiError(f"You have {PASSKEYS_MAX} passkeys, which is the most there may be: remove one.")
        options = generate_registration_options(
            rp_id=self.host,
            rp_name=RELYING_PARTY,
            user_id=session.person.encode(),
            user_name=session.email,
            user_display_name=session.name or session.email,
            exclude_credentials=[PublicKeyCredentialDescriptor(row["credential_id"]) for row in known],
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
        )
        await self._remember(options.challenge, "register", session.person)
        return options_to_json(options)

    async def register(self, session: Session, credential: str, name: str) -> None:
        """Errors: ApiError."""
        challenge = _challenge_of(credential)
        step = await self._take(challenge, "register")
        if step is None or step.person != session.person:
            raise ApiError("This took longer than five minutes: begin again.")
        try:
            made = verify_registration_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.host,
                expected_origin=self.public_url,
                require_user_verification=True,
            )
        except NOT_BELIEVED as error:
            raise ApiError("The browser's answer is no passkey of this site: begin again.") from error
        shown = name.strip()[:NAME_CHARS_MAX] or "Passkey"
        async with acquired(self.pool) as connection, connection.transaction():
            if not await repository.insert_passkey(
                connection,
                credential_id=made.credential_id,
                person=session.person,
                name=shown,
                public_key=made.credential_public_key,
                sign_count=made.sign_count,
            ):
                raise ApiError("This passkey is registered already.")
            text = f"The passkey {shown!r} was added: it signs you in without a password."
            await send(connection, session.email, mail.second_factor(text))

    # -- Signing in

    async def ask(self) -> str:
        """What the browser is asked to sign, as JSON; any passkey of this site will do."""
        options = generate_authentication_options(
            rp_id=self.host, user_verification=UserVerificationRequirement.REQUIRED
        )
        await self._remember(options.challenge, "passkey", None)
        return options_to_json(options)

    async def prove(self, client: Client, credential: str) -> str:
        """The person whose passkey signed. Errors: Unauthenticated, TooManyAttempts."""
        address = address_subject(client.ip)
        async with acquired(self.pool) as connection:
            await count_at_address(connection, address)
        try:
            person = await self._proven(credential)
        except NotBelieved as error:
            async with acquired(self.pool) as connection:
                await audit_failed_sign_in(connection, client.ip, "passkey", person=error.person)
            raise
        async with acquired(self.pool) as connection:
            await succeeded_at_address(connection, address)
        return person

    async def _proven(self, credential: str) -> str:
        try:
            challenge = _challenge_of(credential)
            credential_id = base64url_to_bytes(json.loads(credential)["id"])
        except (ApiError, *NOT_BELIEVED) as error:
            raise Unauthenticated("This is no answer of a passkey: begin again.") from error
        if await self._take(challenge, "passkey") is None:
            raise Unauthenticated("This took longer than five minutes: begin again.")
        async with acquired(self.pool) as connection, connection.transaction():
            row = await repository.find_passkey(connection, credential_id)
            if row is None:
                raise Unauthenticated("This passkey is not known here: was it removed?")
            try:
                proven = verify_authentication_response(
                    credential=credential,
                    expected_challenge=challenge,
                    expected_rp_id=self.host,
                    expected_origin=self.public_url,
                    credential_public_key=row["public_key"],
                    credential_current_sign_count=row["sign_count"],
                    require_user_verification=True,
                )
            except NOT_BELIEVED as error:
                raise NotBelieved(str(row["person_id"])) from error
            await repository.passkey_used(connection, credential_id, proven.new_sign_count)
        return str(row["person_id"])

    # -- A person's own

    async def listed(self, session: Session) -> list[dict[str, Any]]:
        async with acquired(self.pool) as connection:
            rows = await repository.list_passkeys(connection, session.person)
        return [
            {
                "id": base64.urlsafe_b64encode(row["credential_id"]).decode(),
                "name": row["name"],
                "created_at": row["created_at"],
                "last_used_at": row["last_used_at"],
            }
            for row in rows
        ]

    async def remove(self, session: Session, id_: str) -> None:
        """Errors: NotFound."""
        try:
            credential_id = base64.urlsafe_b64decode(id_.encode())
        except (ValueError, UnicodeEncodeError):
            credential_id = b""
        async with acquired(self.pool) as connection, connection.transaction():
            if not await repository.delete_passkey(connection, session.person, credential_id):
                raise NotFound("There is no such passkey.")
            await send(connection, session.email, mail.second_factor("A passkey of yours was removed."))

    async def _remember(self, challenge: bytes, kind: str, person: str | None) -> None:
        async with acquired(self.pool) as connection:
            await repository.insert_step(
                connection, _key(challenge), kind, person=person, body={}, ttl_ms=CEREMONY_TTL_MS
            )

    async def _take(self, challenge: bytes, kind: str) -> repository.Step | None:
        async with acquired(self.pool) as connection:
            return await repository.take_step(connection, _key(challenge), kind)


def _key(challenge: bytes) -> bytes:
    return digest(challenge.hex())


def _challenge_of(credential: str) -> bytes:
    """The challenge that the browser says it signed. Errors: ApiError."""
    try:
        told = json.loads(credential)["response"]["clientDataJSON"]
        return base64url_to_bytes(json.loads(base64url_to_bytes(told))["challenge"])
    except NOT_BELIEVED as error:
        raise ApiError("This is no answer of a passkey: begin again.") from error
