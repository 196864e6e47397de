"""People: signing up, signing in and out, new passwords. What nobody may learn here is who has an account."""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
from email_validator import EmailNotValidError, validate_email

from sandbox.journal.errors import ApiError, FieldError, Unavailable
from sandbox.journal.ids import OrganizationId
from sandbox.store.postgres.connection import acquired
from tenancy.audit import audit_failed_sign_in
from tenancy.errors import NotFound, Unauthenticated
from tenancy.identity.repository import end_steps
from tenancy.ids import new_id
from tenancy.models import Organization
from tenancy.people import mail, repository
from tenancy.people.mail import Mail
from tenancy.people.passwords import Passwords, weakness
from tenancy.people.repository import PersonRow
from tenancy.people.throttle import (
    FORGET_MS,
    account_subject,
    address_subject,
    count_attempt,
    count_or_refuse,
    forgive,
    not_made,
    succeeded,
)
from tenancy.principals import Role
from tenancy.repository import insert_organization, now_ms

SIGNUP_TTL_MS = 86_400_000
RESET_TTL_MS = 3_600_000
SESSION_TTL_MS = 30 * 86_400_000
SESSION_IDLE_MS = 7 * 86_400_000
"""A session that nobody used for so long is over."""
TOUCH_EVERY_MS = 60_000
OWNED_MAX = 50
"""Organizations of one person: each has quotas of its own."""
FRESH_MS = 600_000
"""So long after a sign-in, somebody without a password need not prove themselves again."""
SECRET_BYTES = 32
MAILS_PER_ADDRESS_FREE = 5
"""Mails that one address may cause in an hour before it has to wait."""


@dataclass(frozen=True, slots=True)
class Client:
    """Where a request of a browser comes from."""

    ip: str
    user_agent: str


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    person: str
    email: str
    name: str
    method: str
    secret: str

    @property
    def csrf(self) -> str:
        """What forms and scripts of this session send along; it tells nothing of the session's secret."""
        return _text(hmac.digest(self.secret.encode(), b"rewind csrf", hashlib.sha256))

    def require_csrf(self, given: str | None) -> None:
        if given is None or not hmac.compare_digest(given.encode(), self.csrf.encode()):
            raise ApiError(
                "The request does not come from a page of this session: load the page again.",
                errors=[FieldError("X-CSRF-Token", "invalid_value", "Send the session's CSRF token.")],
            )


class People:
    def __init__(self, pool: asyncpg.Pool, passwords: Passwords, *, public_url: str) -> None:
        self._pool = pool
        self._passwords = passwords
        self._url = public_url.rstrip("/")

    # -- Signing up

    async def sign_up(self, client: Client, *, email: str, password: str, organization: str) -> None:
        """Mail a link that, with the password, makes the account. Says nothing of whether there is one already.

        Errors: ApiError naming the field, TooManyAttempts.
        """
        address = checked_email(email)
        name = checked_organization(organization)
        _check_password(password, (address, name))
        await self._may_mail(client)
        password_hash = await self._passwords.hash(password)
        secret, sha256 = new_secret()
        async with acquired(self._pool) as connection, connection.transaction():
            if await repository.find_person(connection, email=address) is not None:
                text = mail.already_known(f"{self._url}/login", f"{self._url}/reset")
            else:
                await repository.insert_signup(
                    connection,
                    sha256=sha256,
                    email=address,
                    password_hash=password_hash,
                    organization=name,
                    ttl_ms=SIGNUP_TTL_MS,
                )
                text = mail.sign_up(f"{self._url}/signup/{secret}", name)
            await send(connection, address, text)

    async def confirm(self, client: Client, secret: str, password: str) -> Session:
        """Make the account that was asked for, its organization, and a session.

        Errors: NotFound when the link is used up or too old; Unauthenticated for another password.
        """
        sha256 = digest(secret)
        async with acquired(self._pool) as connection:
            asked = await repository.find_signup(connection, sha256)
        if asked is None:
            raise NotFound("This link has been used, or is older than a day: sign up again.")
        await self._prove(client, asked["email"], password, asked["password_hash"])
        async with acquired(self._pool) as connection, connection.transaction():
            if await repository.find_signup(connection, sha256) is None:
                raise NotFound("This link has been used: sign in.")
            now = await now_ms(connection)
            person = new_id(now)
            made = await repository.insert_person(
                connection,
                id_=person,
                email=asked["email"],
                name="",
                password_hash=asked["password_hash"],
                at=now,
            )
            if not made:
                raise NotFound("There is an account of this address already: sign in.")
            await repository.delete_signups(connection, asked["email"])
            await create_owned(connection, person, asked["organization"])
        return await self.begin_session(client, person, method="password")

    async def create_organization(self, session: Session, name: str) -> OrganizationId:
        """A further organization, which the person owns. Errors: ApiError, also when they own too many."""
        checked = checked_organization(name)
        async with acquired(self._pool) as connection, connection.transaction():
            if await repository.count_owned(connection, session.person) >= OWNED_MAX:
                raise _wrong(
                    "organization", f"You own {OWNED_MAX} organizations, which is the most there may be."
                )
            return await create_owned(connection, session.person, checked)

    # -- Signing in

    async def log_in(self, client: Client, *, email: str, password: str) -> PersonRow:
        """The person of this address and password; the second factor, if there is one, comes after.

        Errors: Unauthenticated, the same for all that is wrong; TooManyAttempts.
        """
        try:
            address = checked_email(email)
        except ApiError:
            address = email.strip().lower()[:320]
        async with acquired(self._pool) as connection:
            person = await repository.find_person(connection, email=address)
        await self._prove(client, address, password, None if person is None else person.password_hash)
        if person is None:
            raise AssertionError("nobody has proven a password")
        return person

    async def begin_session(
        self, client: Client, person: str, *, method: str, sso: str | None = None
    ) -> Session:
        """A session with a secret of its own: what a browser had before is of no use to anybody.

        `sso`: the organization's provider that the person came from.
        """
        secret, sha256 = new_secret()
        async with acquired(self._pool) as connection, connection.transaction():
            found = await repository.get_person(connection, person)
            if found is None:
                raise Unauthenticated("This account is gone.")
            id_ = new_id(await now_ms(connection))
            await repository.insert_session(
                connection,
                id_=id_,
                person=person,
                sha256=sha256,
                method=method,
                ip=client.ip,
                user_agent=client.user_agent[:300],
                sso=sso,
                ttl_ms=SESSION_TTL_MS,
            )
        return Session(id_, person, found.email, found.name, method, secret)

    async def session(self, secret: str | None) -> Session | None:
        """The session of a cookie, if it is one that goes on."""
        if not secret or len(secret) > 200:
            return None
        async with acquired(self._pool) as connection:
            row = await repository.find_session(connection, digest(secret), SESSION_IDLE_MS)
            if row is None:
                return None
            await repository.touch_session(connection, str(row["id"]), TOUCH_EVERY_MS)
        return Session(
            str(row["id"]), str(row["person_id"]), row["email"], row["name"], row["method"], secret
        )

    async def sessions(self, session: Session) -> list[Any]:
        async with acquired(self._pool) as connection:
            return await repository.list_sessions(connection, session.person, SESSION_IDLE_MS)

    async def end_session(self, session: Session, other: str) -> None:
        """Sign out here (`other` is the session's own id) or elsewhere."""
        async with acquired(self._pool) as connection:
            if not await repository.delete_session(connection, session.person, other):
                raise NotFound("There is no such session any more.")

    async def end_other_sessions(self, session: Session) -> None:
        async with acquired(self._pool) as connection:
            await repository.delete_sessions(connection, session.person, but=session.id)

    # -- New passwords

    async def ask_reset(self, client: Client, email: str) -> None:
        """Mail a link to choose a new password, if there is such an account. Says nothing of whether there is."""
        address = checked_email(email)
        await self._may_mail(client)
        secret, sha256 = new_secret()
        async with acquired(self._pool) as connection, connection.transaction():
            person = await repository.find_person(connection, email=address)
            if person is not None:
                await repository.insert_reset(
                    connection, sha256=sha256, person=person.id, ttl_ms=RESET_TTL_MS
                )
                await send(connection, address, mail.reset(f"{self._url}/reset/{secret}"))

    async def reset_open(self, secret: str) -> bool:
        async with acquired(self._pool) as connection:
            return await repository.find_reset(connection, digest(secret)) is not None

    async def reset(self, secret: str, password: str) -> None:
        """Set a new password and end every session. The second factor stays as it is.

        Errors: NotFound, ApiError for a password that is not accepted.
        """
        async with acquired(self._pool) as connection:
            person = await repository.find_reset(connection, digest(secret))
        if person is None:
            raise NotFound("This link has been used, or is older than an hour: ask for another one.")
        _check_password(password, (person.email, person.name))
        password_hash = await self._passwords.hash(password)
        async with acquired(self._pool) as connection, connection.transaction():
            if not await repository.use_reset(connection, digest(secret)):
                raise NotFound("This link has been used: ask for another one.")
            await self._new_password(connection, person, password_hash, but=None)

    async def change_password(self, client: Client, session: Session, old: str, new: str) -> None:
        """Errors: Unauthenticated when `old` is wrong; ApiError for a new one that is not accepted."""
        async with acquired(self._pool) as connection:
            person = await repository.get_person(connection, session.person)
        if person is None:
            raise Unauthenticated("This account is gone.")
        _check_password(new, (person.email, person.name))
        await self._prove(client, person.email, old, person.password_hash)
        password_hash = await self._passwords.hash(new)
        async with acquired(self._pool) as connection, connection.transaction():
            await self._new_password(connection, person, password_hash, but=session.id)

    async def has_password(self, session: Session) -> bool:
        async with acquired(self._pool) as connection:
            person = await repository.get_person(connection, session.person)
        return person is not None and person.password_hash is not None

    async def prove_again(self, client: Client, session: Session, password: str) -> None:
        """What is dangerous takes the password again, or for who has none a sign-in just now.

        Errors: Unauthenticated, TooManyAttempts.
        """
        async with acquired(self._pool) as connection:
            person = await repository.get_person(connection, session.person)
            fresh = await repository.session_is_fresh(connection, session.id, FRESH_MS)
        if person is not None and person.password_hash is not None:
            await self._prove(client, person.email, password, person.password_hash)
        elif person is None or not fresh:
            raise Unauthenticated(
                "You signed in more than ten minutes ago: sign out and in again, then do this."
            )

    async def _new_password(
        self, connection: Any, person: PersonRow, password_hash: str, *, but: str | None
    ) -> None:
        await repository.set_password(connection, person.id, password_hash)
        await repository.delete_sessions(connection, person.id, but=but)
        await end_steps(connection, person.id)
        await forgive(connection, account_subject(person.email))
        await send(connection, person.email, mail.password_changed())

    # -- Throttling

    async def _prove(self, client: Client, email: str, password: str, known: str | None) -> None:
        """Check a password; each try counts before it is made, and wrong ones make the account and the address wait.

        Errors: Unauthenticated, TooManyAttempts.
        """
        account, address = account_subject(email), address_subject(client.ip)
        async with acquired(self._pool) as connection:
            await count_attempt(connection, account, address)
        try:
            right = await self._passwords.verify(password, known)
        except Unavailable:
            async with acquired(self._pool) as connection, connection.transaction():
                await not_made(connection, account, address)
            raise
        if right:
            async with acquired(self._pool) as connection, connection.transaction():
                await succeeded(connection, account, address)
            return
        async with acquired(self._pool) as connection:
            await audit_failed_sign_in(connection, client.ip, "password", email=email)
        raise Unauthenticated("E-mail and password do not fit together.")

    async def _may_mail(self, client: Client) -> None:
        """An address that causes many mails has to wait: other people's boxes are not its to fill."""
        subject = f"mail:{address_subject(client.ip)}"
        async with acquired(self._pool) as connection:
            await count_or_refuse(
                connection, subject, free=MAILS_PER_ADDRESS_FREE, first_ms=60_000, most_ms=FORGET_MS
            )


async def create_owned(connection: Any, person: str, name: str) -> OrganizationId:
    """An organization with its owner, in the caller's transaction."""
    now = await now_ms(connection)
    organization = Organization(id=UUID(new_id(now)), name=name, created_at=now)
    await insert_organization(connection, organization)
    id_ = OrganizationId(str(organization.id))
    await repository.insert_member(connection, id_, person, Role.OWNER.label, now)
    return id_


async def send(connection: Any, recipient: str, what: Mail) -> None:
    """Queue a mail in the caller's transaction: it is sent if and only if that commits."""
    await repository.insert_mail(
        connection,
        id_=new_id(await now_ms(connection)),
        recipient=recipient,
        subject=what.subject,
        body=what.body,
    )


def checked_email(text: str) -> str:
    """The form that addresses are compared in. ApiError when it is none."""
    try:
        found = validate_email(text.strip(), check_deliverability=False)
    except EmailNotValidError as error:
        raise _wrong("email", str(error)) from error
    return found.normalized.lower()


def checked_organization(name: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise _wrong("organization", "An organization's name has 1 to 200 printable characters.")
    return name


def _check_password(password: str, about: tuple[str, ...]) -> None:
    found = weakness(password, about=about)
    if found is not None:
        raise _wrong("password", found)


def _wrong(path: str, message: str) -> ApiError:
    return ApiError(message, errors=[FieldError(path, "invalid_value", message)])


def new_secret() -> tuple[str, bytes]:
    """(secret, what is stored of it)."""
    secret = _text(secrets.token_bytes(SECRET_BYTES))
    return secret, digest(secret)


def digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
