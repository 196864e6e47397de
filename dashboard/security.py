"""`/security`: how a person signs in: passkeys, an authenticator app, accounts at providers."""

from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dashboard.entrance import Entrance
from dashboard.web import Site, client_of, form_of, shown_time
from sandbox.journal.errors import ApiError
from tenancy.people.service import Session


@dataclass(frozen=True, slots=True)
class Outcome:
    said: str
    codes: list[str] = field(default_factory=list)
    """New recovery codes, shown this once."""


@dataclass(frozen=True, slots=True)
class Security:
    site: Site
    entrance: Entrance

    def routes(self) -> list[Route]:
        page = self.site.page
        return [
            page("/security", self.page, methods=("GET", "POST")),
            page("/security/passkey/options", self.options, methods=("POST",)),
            page("/security/passkey", self.register, methods=("POST",)),
        ]

    async def page(self, request: Request) -> Response:
        session = await self.site.required(request)
        outcome, problem, status = Outcome(""), None, 200
        if request.method == "POST":
            fields = await form_of(request, session)
            try:
                outcome = await self._change(request, session, fields)
            except ApiError as error:
                problem, status = str(error), error.status
        elif "added" in request.query_params:
            outcome = Outcome("Your passkey is added: it signs you in without a password.")
        return await self.site.render(
            request,
            "security.html",
            status=status,
            session=session,
            done=outcome.said,
            codes=outcome.codes,
            problem=problem,
            **await self._shown(session),
        )

    async def _shown(self, session: Session) -> dict[str, Any]:
        door = self.entrance
        provider = door.providers.deployment
        identities = await door.providers.identities(session.person)
        keys = await door.passkeys.listed(session)
        times = ("created_at", "last_used_at")
        return {
            "passkeys": [{**key, **{name: shown_time(key[name]) for name in times}} for key in keys],
            "possible": door.passkeys.possible,
            "has_password": await self.site.people.has_password(session),
            "totp": await door.totp.wanted(session.person),
            "setup": await door.totp.setup(session),
            "codes_left": await door.totp.codes_left(session),
            "identities": identities,
            "provider": provider,
            "linked": provider is not None and any(row["issuer"] == provider.issuer for row in identities),
        }

    async def _change(self, request: Request, session: Session, fields: dict[str, str]) -> Outcome:
        totp, client, password = self.entrance.totp, client_of(request), fields.get("password", "")
        match fields.get("do"):
            case "totp_begin":
                await totp.begin(client, session, password)
                return Outcome("Type the key below into your app, then the code that it shows.")
            case "totp_confirm":
                codes = await totp.confirm(client, session, fields.get("code", ""))
                return Outcome("Your app is in use: signing in with your password takes its code.", codes)
            case "totp_codes":
                return Outcome(
                    "Your earlier codes work no more.", await totp.new_codes(client, session, password)
                )
            case "totp_end":
                await totp.end(client, session, password)
                return Outcome("Your app is turned off.")
            case "unlink":
                await self.entrance.providers.unlink(
                    session.person, fields.get("issuer", ""), fields.get("subject", "")
                )
                return Outcome("That account signs you in no more.")
            case "remove_passkey":
                await self.entrance.passkeys.remove(session, fields.get("passkey", ""))
                return Outcome("The passkey is removed.")
        raise ApiError("This form asks for nothing that there is.")

    # -- For the script of the page

    async def options(self, request: Request) -> Response:
        session = await self.site.required(request)
        fields = await form_of(request, session)
        try:
            await self.site.people.prove_again(client_of(request), session, fields.get("password", ""))
            return Response(await self.entrance.passkeys.options(session), media_type="application/json")
        except ApiError as error:
            return JSONResponse({"problem": str(error)}, error.status)

    async def register(self, request: Request) -> Response:
        session = await self.site.required(request)
        fields = await form_of(request, session)
        try:
            await self.entrance.passkeys.register(
                session, fields.get("credential", ""), fields.get("name", "")
            )
        except ApiError as error:
            return JSONResponse({"problem": str(error)}, error.status)
        return JSONResponse({"next": "/security?added"})
