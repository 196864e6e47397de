"""`/organizations`, `/members`, `/invitations`, `/keys`: what a person belongs to, and who else does."""

import hashlib
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from dashboard.web import Site, client_of, form_of, shown_time, to
from sandbox.journal.errors import ApiError
from tenancy.closing.service import GRACE_DAYS
from tenancy.keys.service import Keys, NewKey
from tenancy.people.members import Members, Membership
from tenancy.people.service import Session
from tenancy.principals import KEY_SCOPES, Role

KEYS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Organizations:
    site: Site
    members: Members
    keys: Keys

    def routes(self) -> list[Route]:
        page = self.site.page
        return [
            page("/", self.home),
            page("/organizations", self.organizations, methods=("GET", "POST")),
            page("/members", self.member_list, methods=("GET", "POST")),
            page("/invitations", self.invitation_list, methods=("GET", "POST")),
            page("/invitations/{secret}", self.invitation, methods=("GET", "POST")),
            page("/keys", self.key_list, methods=("GET", "POST")),
        ]

    async def home(self, _: Request) -> Response:
        """Who types the server's address alone: the first page, which knows the way for who is not signed in."""
        return RedirectResponse("/organizations", 307)

    async def organizations(self, request: Request) -> Response:
        session = await self.site.required(request)
        problem = None
        if request.method == "POST":
            fields = await form_of(request, session)
            try:
                await self.site.people.create_organization(session, fields.get("organization", ""))
                return to("/organizations")
            except ApiError as error:
                problem = str(error)
        return await self.site.render(
            request,
            "organizations.html",
            status=400 if problem else 200,
            session=session,
            memberships=await self.members.memberships(session),
            grace_days=GRACE_DAYS,
            problem=problem,
        )

    # -- Members

    async def member_list(self, request: Request) -> Response:
        return await self._people(request, "members.html")

    async def invitation_list(self, request: Request) -> Response:
        """Who was invited and has not come yet; for admins, who invite and withdraw here too."""
        return await self._people(request, "invitations.html")

    async def _people(self, request: Request, template: str) -> Response:
        session = await self.site.required(request)
        given = request.query_params.get("organization")
        organization = (await self.members.membership(session, given)).organization
        done, problem, status = None, None, 200
        if request.method == "POST":
            fields = await form_of(request, session)
            try:
                done = await self._change_members(session, organization, fields)
            except ApiError as error:
                problem, status = str(error), error.status
            if done is not None and fields.get("person") == session.person and fields["do"] == "remove":
                return to("/organizations")
        own, members, invitations = await self.members.listed(session, organization)
        return await self.site.render(
            request,
            template,
            status=status,
            session=session,
            own=own,
            members=members,
            invitations=invitations,
            done=done,
            problem=problem,
        )

    async def _change_members(self, session: Session, organization: str, fields: dict[str, str]) -> str:
        person = fields.get("person", "")
        match fields.get("do"):
            case "invite":
                email = fields.get("email", "")
                await self.members.invite(session, organization, email=email, role=fields.get("role", ""))
                return f"An invitation is on its way to {email}."
            case "withdraw":
                await self.members.withdraw(session, organization, fields.get("invitation", ""))
                return "The invitation is withdrawn."
            case "role":
                await self.members.change_role(session, organization, person, fields.get("role", ""))
                return "The role is changed."
            case "remove":
                await self.members.remove(session, organization, person)
                return "The member is removed."
            case "transfer":
                await self.members.transfer(session, organization, person)
                return "The organization is transferred; you are an admin of it now."
        raise ApiError("This form asks for nothing that there is.")

    async def invitation(self, request: Request) -> Response:
        secret = request.path_params["secret"]
        asked = await self.members.invitation(secret)
        session = await self.site.session(request)
        problem, status = None, 200
        if request.method == "POST":
            fields = await form_of(request, session)
            try:
                if session is not None:
                    await self.members.join(session, secret)
                    return to(f"/members?organization={asked.organization}")
                person = await self.members.join_as_new(secret, fields.get("password", ""))
                begun = await self.site.people.begin_session(client_of(request), person, method="password")
                return self.site.begin(to(f"/members?organization={asked.organization}"), begun)
            except ApiError as error:
                problem, status = str(error), error.status
        return await self.site.render(
            request, "invitation.html", status=status, session=session, asked=asked, problem=problem
        )

    # -- Keys

    async def key_list(self, request: Request) -> Response:
        session = await self.site.required(request)
        own = await self.members.membership(
            session, request.query_params.get("organization"), at_least=Role.ADMIN
        )
        secret, problem = None, None
        if request.method == "POST":
            fields = await form_of(request, session)
            try:
                with self.site.within(request, session, own.organization):
                    secret = await self._change_keys(own, fields)
            except ApiError as error:
                problem = str(error)
        with self.site.within(request, session, own.organization):
            rows = await self.keys.page(own.organization, None, KEYS_SHOWN)
        keys = [
            {
                "id": str(row["id"]),
                "name": row["name"],
                "prefix": row["prefix"],
                "created_at": shown_time(row["created_at"]),
                "last_used_at": shown_time(row["last_used_at"]),
            }
            for row in rows
        ]
        return await self.site.render(
            request,
            "keys.html",
            status=400 if problem else 200,
            session=session,
            own=own,
            keys=keys,
            secret=secret,
            url=self.site.public_url,
            problem=problem,
        )

    async def _change_keys(self, own: Membership, fields: dict[str, str]) -> str | None:
        """The secret of a new key."""
        if fields.get("do") == "revoke":
            await self.keys.revoke(own.organization, fields.get("key", ""))
            return None
        name = fields.get("name", "").strip()
        if len(name) > 200:
            raise ApiError("A key's name has at most 200 characters.")
        wanted = NewKey(name=name, scopes=tuple(str(scope) for scope in KEY_SCOPES))
        made: Any = await self.keys.create(
            own.organization, wanted, key=None, request_sha256=hashlib.sha256().digest()
        )
        return str(made.secret)
