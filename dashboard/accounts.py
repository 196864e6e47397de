"""`/signup`, `/login`, `/logout`, `/reset`: how people get in and out."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard.entrance import OFFER, Entrance
from dashboard.web import Site, client_of, form_of, local_path, to
from sandbox.journal.errors import ApiError


@dataclass(frozen=True, slots=True)
class Accounts:
    site: Site
    entrance: Entrance

    def routes(self) -> list[Route]:
        page = self.site.page
        return [
            page("/signup", self.sign_up, methods=("GET", "POST")),
            page("/signup/{secret}", self.confirm, methods=("GET", "POST")),
            page("/login", self.log_in, methods=("GET", "POST")),
            page("/logout", self.log_out, methods=("POST",)),
            page("/reset", self.ask_reset, methods=("GET", "POST")),
            page("/reset/{secret}", self.reset, methods=("GET", "POST")),
        ]

    async def sign_up(self, request: Request) -> Response:
        fields = await form_of(request) if request.method == "POST" else {}
        shown: dict[str, Any] = {
            "email": fields.get("email", ""),
            "organization": fields.get("organization", ""),
            "provider": self.entrance.providers.deployment,
        }
        if not fields:
            return await self.site.render(request, "signup.html", sent=False, problem=None, **shown)
        try:
            await self.site.people.sign_up(
                client_of(request),
                email=shown["email"],
                password=fields.get("password", ""),
                organization=shown["organization"],
            )
        except ApiError as error:
            return await self.site.render(
                request, "signup.html", status=error.status, sent=False, problem=str(error), **shown
            )
        return await self.site.render(
            request, "signup.html", sent=True, mails_shown=self.site.mails_shown, problem=None, **shown
        )

    async def confirm(self, request: Request) -> Response:
        """The link shows a form: programs that look at links in mails make no account."""
        if request.method == "GET":
            return await self.site.render(request, "confirm.html", problem=None)
        fields = await form_of(request)
        try:
            session = await self.site.people.confirm(
                client_of(request), request.path_params["secret"], fields.get("password", "")
            )
        except ApiError as error:
            return await self.site.render(request, "confirm.html", status=error.status, problem=str(error))
        return self.site.begin(to("/organizations"), session)

    async def log_in(self, request: Request) -> Response:
        if request.method == "GET":
            next_ = local_path(request.query_params.get("next"))
            if self.site.step(request, OFFER) is None and await self.site.session(request) is not None:
                return to(next_)
            done = "Your password is changed. Sign in with it." if "reset" in request.query_params else None
            return await self.entrance.form(request, next_=next_, done=done)
        fields = await form_of(request)
        email, next_ = fields.get("email", ""), local_path(fields.get("next"))
        try:
            person = await self.site.people.log_in(
                client_of(request), email=email, password=fields.get("password", "")
            )
            return await self.entrance.password_proven(request, person.id, next_=next_)
        except ApiError as error:
            return await self.entrance.form(request, next_=next_, email=email, error=error)

    async def log_out(self, request: Request) -> Response:
        session = await self.site.session(request)
        if session is not None:
            await form_of(request, session)
        await self.site.leave(request)
        return self.site.end(to("/login"))

    async def ask_reset(self, request: Request) -> Response:
        fields = await form_of(request) if request.method == "POST" else {}
        email = fields.get("email", "")
        shown: dict[str, Any] = {"email": email, "choosing": False, "sent": False, "problem": None}
        if not fields:
            return await self.site.render(request, "reset.html", **shown)
        try:
            await self.site.people.ask_reset(client_of(request), email)
        except ApiError as error:
            return await self.site.render(
                request, "reset.html", status=error.status, **{**shown, "problem": str(error)}
            )
        return await self.site.render(request, "reset.html", **{**shown, "sent": True})

    async def reset(self, request: Request) -> Response:
        secret = request.path_params["secret"]
        shown: dict[str, Any] = {"email": "", "choosing": True, "sent": False, "problem": None}
        if request.method == "GET":
            if not await self.site.people.reset_open(secret):
                message = "This link has been used, or is older than an hour: ask for another one."
                return await self.site.render(
                    request, "reset.html", status=404, **{**shown, "choosing": False, "problem": message}
                )
            return await self.site.render(request, "reset.html", **shown)
        fields = await form_of(request)
        try:
            await self.site.people.reset(secret, fields.get("password", ""))
        except ApiError as error:
            return await self.site.render(
                request, "reset.html", status=error.status, **{**shown, "problem": str(error)}
            )
        return self.site.end(to("/login?reset"))
