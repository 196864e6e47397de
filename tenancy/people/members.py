"""Members of an organization: inviting, joining, roles, leaving. An organization always has an owner."""

from dataclasses import dataclass
from typing import Any

import asyncpg

from sandbox.journal.errors import ApiError, FieldError
from sandbox.journal.ids import OrganizationId
from sandbox.store.postgres.connection import acquired
from tenancy.errors import InsufficientScope, NotFound, refuse_suspended
from tenancy.ids import new_id, parse_id
from tenancy.people import mail, repository
from tenancy.people.passwords import Passwords, weakness
from tenancy.people.roles import STRONG_METHODS, may_manage, scopes_of
from tenancy.people.service import Session, checked_email, digest, new_secret, send
from tenancy.principals import Principal, Role
from tenancy.repository import now_ms

INVITATION_TTL_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class Membership:
    organization: OrganizationId
    organization_name: str
    role: Role
    closed_at: int | None = None
    suspended: str | None = None
    """Why, if it is."""


@dataclass(frozen=True, slots=True)
class Invitation:
    organization: OrganizationId
    organization_name: str
    id: str
    email: str
    role: Role
    invited_by: str


class Members:
    def __init__(self, pool: asyncpg.Pool, passwords: Passwords, *, public_url: str) -> None:
        self._pool = pool
        self._passwords = passwords
        self._url = public_url.rstrip("/")

    async def memberships(self, session: Session) -> list[Membership]:
        async with acquired(self._pool) as connection:
            rows = await repository.organizations_of(connection, session.person)
        return [
            Membership(
                OrganizationId(str(row["id"])),
                row["name"],
                _role(row["role"]),
                row["deleted_at"],
                None if row["suspended_at"] is None else row["suspended_reason"] or "no reason was given",
            )
            for row in rows
        ]

    async def membership(
        self, session: Session, organization: str | None, *, at_least: Role = Role.VIEWER
    ) -> Membership:
        """What the person is in this organization; None: in the one that it belongs to, if there is one only.

        Errors: NotFound for an organization of others; InsufficientScope; OrganizationSuspended.
        """
        id_ = await self._only_one(session) if organization is None else parse_id(organization)
        row = None
        if id_ is not None:
            async with acquired(self._pool) as connection:
                row = await repository.member_role(
                    connection, OrganizationId(id_), session.person, session.id
                )
        if id_ is None or row is None:
            raise NotFound("There is no such organization, or you are no member of it.")
        refuse_suspended(row)
        role = _role(row["role"])
        if row["sso_missing"] and not (role is Role.OWNER and session.method in STRONG_METHODS):
            raise InsufficientScope(
                f"{row['organization_name']} wants its members to sign in with their organization (SSO). Sign "
                "out, and choose that on the sign-in page."
            )
        require_role(role, at_least)
        return Membership(OrganizationId(id_), row["organization_name"], role)

    async def principal(self, session: Session, organization: str | None) -> Principal:
        """The person as a caller of the API, in an organization that the request names."""
        if organization is None:
            message = "A member names the organization as `?organization=`."
            raise ApiError(message, errors=[FieldError("organization", "missing", message)])
        own = await self.membership(session, organization)
        return Principal("member", session.person, own.organization, scopes_of(own.role), role=own.role)

    async def _only_one(self, session: Session) -> str:
        open_ = [one for one in await self.memberships(session) if one.closed_at is None]
        if len(open_) != 1:
            raise NotFound("Which organization is meant? Choose one of yours at /organizations.")
        return open_[0].organization

    async def listed(self, session: Session, organization: str) -> tuple[Membership, list[Any], list[Any]]:
        """(the caller's own membership, members, open invitations: for admins)."""
        own = await self.membership(session, organization)
        async with acquired(self._pool) as connection:
            members = await repository.list_members(connection, own.organization)
            open_ = []
            if own.role >= Role.ADMIN:
                open_ = await repository.list_invitations(connection, own.organization)
        return own, members, open_

    # -- Inviting

    async def invite(self, session: Session, organization: str, *, email: str, role: str) -> None:
        """Mail an invitation; an earlier one to the same address does not work any more.

        Errors: NotFound, InsufficientScope, ApiError naming the field.
        """
        own = await self.membership(session, organization, at_least=Role.ADMIN)
        wanted = _wanted(role)
        if not may_manage(own.role, member=wanted, becomes=wanted):
            raise InsufficientScope("Only an owner makes owners.")
        address = checked_email(email)
        secret, sha256 = new_secret()
        async with acquired(self._pool) as connection, connection.transaction():
            roles = await repository.lock_members(connection, own.organization)
            person = await repository.find_person(connection, email=address)
            if person is not None and person.id in roles:
                raise _wrong("email", f"{address} is a member already.")
            await repository.insert_invitation(
                connection,
                own.organization,
                id_=new_id(await now_ms(connection)),
                email=address,
                role=wanted.label,
                sha256=sha256,
                by=session.person,
                ttl_ms=INVITATION_TTL_MS,
            )
            text = mail.invitation(
                f"{self._url}/invitations/{secret}", own.organization_name, session.email, wanted.label
            )
            await send(connection, address, text)

    async def withdraw(self, session: Session, organization: str, invitation: str) -> None:
        own = await self.membership(session, organization, at_least=Role.ADMIN)
        id_ = parse_id(invitation)
        async with acquired(self._pool) as connection:
            if id_ is None or not await repository.settle_invitation(connection, own.organization, id_):
                raise NotFound("There is no such open invitation.")

    async def invitation(self, secret: str) -> Invitation:
        """Errors: NotFound."""
        async with acquired(self._pool) as connection:
            row = await repository.find_invitation(connection, digest(secret))
        if row is None:
            raise NotFound("This invitation has been used or withdrawn, or is older than seven days.")
        return Invitation(
            OrganizationId(str(row["organization_id"])),
            row["organization_name"],
            str(row["id"]),
            row["email"],
            _role(row["role"]),
            row["invited_by"] or "a former member",
        )

    async def join(self, session: Session, secret: str) -> Membership:
        """Errors: NotFound; InsufficientScope when it was sent to another address."""
        asked = await self.invitation(secret)
        if asked.email != session.email:
            raise InsufficientScope(
                f"This invitation is for {asked.email}; you are signed in as {session.email}."
            )
        async with acquired(self._pool) as connection, connection.transaction():
            await self._settle(connection, asked, session.person)
        return Membership(asked.organization, asked.organization_name, asked.role)

    async def join_as_new(self, secret: str, password: str) -> str:
        """Make the account that was invited, and a member of it; the person's id. The link proves the address.

        Errors: NotFound, ApiError for a password that is not accepted or an address that has an account.
        """
        asked = await self.invitation(secret)
        found = weakness(password, about=(asked.email, asked.organization_name))
        if found is not None:
            raise _wrong("password", found)
        password_hash = await self._passwords.hash(password)
        async with acquired(self._pool) as connection, connection.transaction():
            now = await now_ms(connection)
            person = new_id(now)
            made = await repository.insert_person(
                connection, id_=person, email=asked.email, name="", password_hash=password_hash, at=now
            )
            if not made:
                raise _wrong("email", "There is an account of this address: sign in, then join.")
            await repository.delete_signups(connection, asked.email)
            await self._settle(connection, asked, person)
        return person

    async def _settle(self, connection: Any, asked: Invitation, person: str) -> None:
        if not await repository.settle_invitation(connection, asked.organization, asked.id):
            raise NotFound("This invitation has been used or withdrawn.")
        now = await now_ms(connection)
        await repository.insert_member(connection, asked.organization, person, asked.role.label, now)

    # -- Roles and leaving

    async def change_role(self, session: Session, organization: str, person: str, role: str) -> None:
        """Errors: NotFound, InsufficientScope, ApiError when there would be no owner left."""
        await self._change(session, organization, person, _wanted(role))

    async def remove(self, session: Session, organization: str, person: str) -> None:
        """Remove a member, or leave (`person` is the caller)."""
        await self._change(session, organization, person, None)

    async def transfer(self, session: Session, organization: str, person: str) -> None:
        """Make another member an owner and the caller an admin, both at once."""
        own = await self.membership(session, organization, at_least=Role.OWNER)
        id_ = parse_id(person)
        async with acquired(self._pool) as connection, connection.transaction():
            roles = await repository.lock_members(connection, own.organization)
            if roles.get(session.person) != Role.OWNER.label:
                raise InsufficientScope("Only an owner transfers an organization.")
            if id_ is None or id_ not in roles or id_ == session.person:
                raise NotFound("There is no such other member.")
            await repository.set_role(connection, own.organization, id_, Role.OWNER.label)
            await repository.set_role(connection, own.organization, session.person, Role.ADMIN.label)

    async def _change(self, session: Session, organization: str, person: str, becomes: Role | None) -> None:
        own = await self.membership(session, organization)
        id_ = parse_id(person)
        async with acquired(self._pool) as connection, connection.transaction():
            roles = await repository.lock_members(connection, own.organization)
            if id_ is None or id_ not in roles or session.person not in roles:
                raise NotFound("There is no such member.")
            actor, member = _role(roles[session.person]), _role(roles[id_])
            leaves = id_ == session.person and becomes is None
            if not leaves and not may_manage(actor, member=member, becomes=becomes):
                raise InsufficientScope(
                    f"As {actor.label} you cannot change a member that is {member.label}."
                )
            owners = [one for one, role in roles.items() if role == Role.OWNER.label]
            if owners == [id_] and becomes is not Role.OWNER:
                raise _wrong("role", "An organization needs an owner: make somebody else one first.")
            if becomes is None:
                await repository.delete_member(connection, own.organization, id_)
            else:
                await repository.set_role(connection, own.organization, id_, becomes.label)
            if becomes is None or becomes < Role.ADMIN:
                # Or they would come back by an invitation that they sent to themselves before.
                await repository.withdraw_invitations_of(connection, own.organization, id_)


def require_role(role: Role, at_least: Role) -> None:
    if role < at_least:
        raise InsufficientScope(
            f"This needs the role {at_least.label} in the organization; yours is {role.label}."
        )


def _role(label: str) -> Role:
    found = Role.named(label)
    if found is None:
        raise AssertionError(f"the database has the role {label!r}")
    return found


def _wanted(label: str) -> Role:
    found = Role.named(label)
    if found is None:
        raise _wrong("role", f"One of {', '.join(role.label for role in Role)}.")
    return found


def _wrong(path: str, message: str) -> ApiError:
    return ApiError(message, errors=[FieldError(path, "invalid_value", message)])
