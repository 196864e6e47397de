"""Signing in by a provider: the deployment's own, or one that an organization brought.

Whose account is it? One that is linked already signs its person in. An account that is not is believed by the
verified address that the provider gives, and by nothing else: it makes a person where there is none. Where there
is one, it is linked only after that person has signed in as ever, in the same browser (an offer). A provider of an
organization speaks for addresses of domains that this organization has proven, each time anew.
"""

from dataclasses import dataclass
from typing import Any

import asyncpg

from sandbox.journal.errors import ApiError
from sandbox.store.postgres.connection import acquired
from tenancy.errors import InsufficientScope, NotFound
from tenancy.identity import repository
from tenancy.identity.repository import ConnectionRow, Step
from tenancy.ids import new_id, parse_id
from tenancy.people import mail
from tenancy.people import repository as people
from tenancy.people.oidc import Account, OidcClient, Provider, SignInFailed
from tenancy.people.service import Client, checked_email, digest, new_secret, send
from tenancy.people.throttle import address_subject, count_or_refuse
from tenancy.repository import now_ms
from tenancy.secrets import SecretBox

DEPLOYMENT = "deployment"
"""The id of the deployment's own provider: no UUID, so that no connection has it."""
STEP_TTL_MS = 600_000
BEGUN_FREE, BEGUN_FIRST_MS, BEGUN_MOST_MS = 200, 1_000, 60_000
"""Sign-ins that one address may begin in an hour before it has to wait."""


@dataclass(frozen=True, slots=True)
class Begun:
    """Where the browser goes, and what it brings back: `state` in the address, `browser` in this tab's cookie."""

    url: str
    state: str
    browser: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """Somebody is proven to be this person; or, with an `offer`, has to sign in as this person first."""

    person: str
    connection: str | None
    next: str
    offer: str | None = None


class Providers:
    def __init__(
        self,
        pool: asyncpg.Pool,
        client: OidcClient,
        box: SecretBox,
        *,
        deployment: Provider | None,
        public_url: str,
    ) -> None:
        self._pool = pool
        self._client = client
        self._box = box
        self.deployment = deployment
        self._url = public_url.rstrip("/")

    def redirect_uri(self, provider: str) -> str:
        return f"{self._url}/login/oidc/{provider}/callback"

    async def for_address(self, email: str) -> list[ConnectionRow]:
        """Where people with such an address sign in. Errors: ApiError naming the field."""
        async with acquired(self._pool) as connection:
            return await repository.connections_for(connection, domain_of(checked_email(email)))

    # -- There and back

    async def begin(self, client: Client, provider: str, next_: str) -> Begun:
        """Errors: NotFound, SignInFailed, TooManyAttempts, Unavailable."""
        subject = f"oidc:{address_subject(client.ip)}"
        async with acquired(self._pool) as connection:
            await count_or_refuse(
                connection, subject, free=BEGUN_FREE, first_ms=BEGUN_FIRST_MS, most_ms=BEGUN_MOST_MS
            )
            found, _ = await self._provider(connection, provider)
        asked = await self._client.ask(found, self.redirect_uri(provider))
        browser, _ = new_secret()
        async with acquired(self._pool) as connection:
            await repository.insert_step(
                connection,
                _bound(provider, asked.state, browser),
                "oidc",
                person=None,
                body={"nonce": asked.nonce, "verifier": asked.verifier, "next": next_},
                ttl_ms=STEP_TTL_MS,
            )
        return Begun(asked.url, asked.state, browser)

    async def answered(
        self,
        provider: str,
        *,
        state: str,
        browser: str,
        answer: dict[str, str],
        signed_in_as: str | None,
    ) -> Arrival:
        """Who came back. The state works once, in the tab's own browser, at the provider that it was made for.

        Errors: SignInFailed, InsufficientScope, NotFound, Unavailable.
        """
        async with acquired(self._pool) as connection:
            step = await repository.take_step(connection, _bound(provider, state, browser), "oidc")
            if step is None:
                raise SignInFailed(
                    "This sign-in was begun in another browser, has been used, or took longer than ten minutes: "
                    "begin again."
                )
            found, brought = await self._provider(connection, provider)
            now = await now_ms(connection)
        if "error" in answer or not answer.get("code"):
            said = answer.get("error", "no code")[:100]
            raise SignInFailed(f"{found.name} did not sign you in ({said}): begin again.")
        account = await self._client.answered(
            found,
            self.redirect_uri(provider),
            code=answer["code"],
            iss=answer.get("iss"),
            nonce=step.body["nonce"],
            verifier=step.body["verifier"],
            now_ms=now,
        )
        return await self._arrive(account, found, brought, step, signed_in_as)

    async def _arrive(
        self,
        account: Account,
        provider: Provider,
        brought: ConnectionRow | None,
        step: Step,
        signed_in_as: str | None,
    ) -> Arrival:
        connection_id = None if brought is None else brought.id
        async with acquired(self._pool) as connection, connection.transaction():
            known = await repository.find_identity(connection, account.issuer, account.subject)
            if known is not None:
                person = await people.get_person(connection, known)
                if person is None:
                    raise SignInFailed("This account is gone.")
                await _require_domain(connection, brought, person.email)
                await _join(connection, brought, person.id, person.email)
                return Arrival(person.id, connection_id, step.body["next"])
            email = _address(account, provider)
            await _require_domain(connection, brought, email)
            person = await people.find_person(connection, email=email)
            if person is None:
                made = await _make_person(connection, account, email)
                await _join(connection, brought, made, email)
                return Arrival(made, connection_id, step.body["next"])
            if person.id == signed_in_as:
                await _link(connection, account.issuer, account.subject, person.id, email, provider.name)
                await _join(connection, brought, person.id, email)
                return Arrival(person.id, connection_id, step.body["next"])
            secret, sha256 = new_secret()
            await repository.insert_step(
                connection,
                sha256,
                "offer",
                person=person.id,
                body={
                    "issuer": account.issuer,
                    "subject": account.subject,
                    "email": email,
                    "provider": provider.name,
                    "connection": connection_id,
                    "next": step.body["next"],
                },
                ttl_ms=STEP_TTL_MS,
            )
            return Arrival(person.id, connection_id, step.body["next"], offer=secret)

    # -- Offers

    async def offered(self, secret: str | None) -> dict[str, Any] | None:
        """What will be linked when the person whose address it is signs in."""
        async with acquired(self._pool) as connection:
            step = await repository.find_step(connection, digest(secret or ""), "offer")
        return None if step is None else step.body

    async def accept_offer(self, secret: str | None, person: str) -> Arrival | None:
        """Link what the browser was offered, now that it has signed in as this person; None: nothing was."""
        async with acquired(self._pool) as connection, connection.transaction():
            step = await repository.find_step(connection, digest(secret or ""), "offer")
            if step is None or step.person != person:
                return None
            if await repository.take_step(connection, digest(secret or ""), "offer") is None:
                return None
            body = step.body
            await _link(connection, body["issuer"], body["subject"], person, body["email"], body["provider"])
            brought = None
            if body["connection"] is not None:
                brought = await repository.find_connection(connection, body["connection"])
            if brought is not None:
                await _require_domain(connection, brought, body["email"])
                await _join(connection, brought, person, body["email"])
            return Arrival(person, None if brought is None else brought.id, body["next"])

    # -- A person's own

    async def identities(self, person: str) -> list[Any]:
        async with acquired(self._pool) as connection:
            return await repository.list_identities(connection, person)

    async def unlink(self, person: str, issuer: str, subject: str) -> None:
        """A person always gets in again: by a new password. Errors: NotFound."""
        async with acquired(self._pool) as connection:
            if not await repository.delete_identity(connection, person, issuer, subject):
                raise NotFound("There is no such linked account.")

    async def _provider(self, connection: Any, id_: str) -> tuple[Provider, ConnectionRow | None]:
        if id_ == DEPLOYMENT and self.deployment is not None:
            return self.deployment, None
        parsed = parse_id(id_)
        row = None if parsed is None else await repository.find_connection(connection, parsed)
        if row is None:
            raise NotFound("There is no such way to sign in any more.")
        secret = None
        if row.client_secret is not None:
            secret = self._box.open(row.client_secret, place_of(row.id)).decode()
        return Provider(row.id, row.name, row.issuer, row.client_id, secret), row


def domain_of(email: str) -> str:
    return email.rpartition("@")[2]


def place_of(connection: str) -> str:
    """Where a connection's secret is sealed to belong."""
    return f"sso/{connection}"


def _bound(provider: str, state: str, browser: str) -> bytes:
    """What a step is found by: all three have to be those that it began with."""
    return digest(f"oidc\0{provider}\0{state}\0{browser}")


def _address(account: Account, provider: Provider) -> str:
    if account.email is None:
        raise SignInFailed(
            f"{provider.name} gives no verified e-mail address for this account, so that we cannot know whose it "
            "is. Verify your address there, then sign in again."
        )
    try:
        return checked_email(account.email)
    except ApiError as error:
        raise SignInFailed(f"{provider.name} gives an e-mail address that is none.") from error


async def _require_domain(connection: Any, brought: ConnectionRow | None, email: str) -> None:
    if brought is None or await repository.has_proven(connection, brought.organization, domain_of(email)):
        return
    raise InsufficientScope(
        f"{brought.name} may not speak for {email}: {brought.organization_name} has not proven that the domain "
        "is its own."
    )


async def _make_person(connection: Any, account: Account, email: str) -> str:
    now = await now_ms(connection)
    person = new_id(now)
    made = await people.insert_person(
        connection, id_=person, email=email, name=account.name, password_hash=None, at=now
    )
    if not made or not await repository.insert_identity(connection, account.issuer, account.subject, person):
        raise SignInFailed("This account was made at this moment: sign in again.")
    await people.delete_signups(connection, email)
    return person


async def _link(connection: Any, issuer: str, subject: str, person: str, email: str, provider: str) -> None:
    if not await repository.insert_identity(connection, issuer, subject, person):
        raise SignInFailed("This account is linked already: sign in with it.")
    await send(connection, email, mail.provider_linked(provider))


async def _join(connection: Any, brought: ConnectionRow | None, person: str, email: str) -> None:
    """Be a member of the provider's organization: as invited, else in the role that it gives to newcomers."""
    if brought is None or await people.member_role(connection, brought.organization, person) is not None:
        return
    role = brought.join_role
    invited = await repository.open_invitation(connection, brought.organization, email)
    if invited is not None:
        await people.settle_invitation(connection, brought.organization, str(invited["id"]))
        role = invited["role"]
    if role is None:
        raise InsufficientScope(
            f"You are no member of {brought.organization_name}: ask one of its admins to invite {email}."
        )
    await people.insert_member(connection, brought.organization, person, role, await now_ms(connection))
