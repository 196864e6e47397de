"""`/sso`: the providers of an organization, and the domains that it has proven."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard.web import Site, form_of, shown_time
from sandbox.journal.errors import ApiError, Unavailable
from tenancy.identity.providers import Providers
from tenancy.identity.sso import NewConnection, Sso
from tenancy.people.members import Members, Membership
from tenancy.people.service import Session
from tenancy.principals import Role

FIELDS = ("name", "issuer", "client_id", "client_secret", "join_role")


@dataclass(frozen=True, slots=True)
class SsoPages:
    site: Site
    members: Members
    sso: Sso
    providers: Providers

    def routes(self) -> list[Route]:
        return [self.site.page("/sso", self.page, methods=("GET", "POST"))]

    async def page(self, request: Request) -> Response:
        session = await self.site.required(request)
        own = await self.members.membership(
            session, request.query_params.get("organization"), at_least=Role.ADMIN
        )
        done, problem, status = None, None, 200
        fields: dict[str, str] = {}
        if request.method == "POST":
            fields = await form_of(request, session)
            try:
                done, fields = await self._change(session, own, fields), {}
            except (ApiError, Unavailable) as error:
                problem, status = str(error), error.status
        domains = [{**row, "proven_at": shown_time(row["proven_at"])} for row in await self.sso.domains(own)]
        connections = [
            {"row": row, "redirect_uri": self.providers.redirect_uri(row.id)}
            for row in await self.sso.connections(own)
        ]
        return await self.site.render(
            request,
            "sso_settings.html",
            status=status,
            session=session,
            own=own,
            domains=domains,
            connections=connections,
            given={name: fields.get(name, "") for name in FIELDS},
            done=done,
            problem=problem,
        )

    async def _change(self, session: Session, own: Membership, fields: dict[str, str]) -> str:
        domain = fields.get("domain", "")
        match fields.get("do"):
            case "connect":
                wanted = NewConnection(**{name: fields.get(name, "") for name in FIELDS})
                await self.sso.add_connection(session, own, wanted)
                return "The provider is added. Give it the redirect URI below, then prove your domain."
            case "disconnect":
                await self.sso.remove_connection(session, own, fields.get("connection", ""))
                return "The provider is removed; whoever was signed in by it is signed out."
            case "add_domain":
                await self.sso.add_domain(session, own, domain)
                return "Make the TXT record that is shown below, then check it."
            case "prove":
                await self.sso.prove_domain(session, own, domain)
                return f"{domain} is proven to be yours."
            case "remove_domain":
                await self.sso.remove_domain(session, own, domain)
                return f"{domain} is removed."
            case "require":
                await self.sso.require_for(session, own, domain, on=True)
                return f"Members with an address of {domain} sign in by SSO only, from now on."
            case "allow":
                await self.sso.require_for(session, own, domain, on=False)
                return f"Members with an address of {domain} may sign in as they like."
        raise ApiError("This form asks for nothing that there is.")
