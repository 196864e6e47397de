"""`/signup`, `/login`, `/logout`, `/reset`: how people get in and out."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard.web import Site, client_of, form_of, local_path, to
from sandbox.journal.errors import ApiError

SESSION_METHOD = "password"


@dataclass(frozen=True, slots=True)
class Accounts:
    site: Site

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
        }
        if not fields:
            return await self.site.render(request, "signup.html", sent=False, problem=None, **shown)
        try:
            await self.site.people.sign_up(client_of(request), password=fields.get("password", ""), **shown)
        except ApiError as error:
            return await self.site.render(
                request, "signup.html", status=error.status, sent=False, problem=str(error), **shown
            )
        return await self.site.render(request, "signup.html", sent=True, problem=None, **shown)

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
            if await self.site.session(request) is not None:
                return to(next_)
            done = "Your password is changed. Sign in with it." if "reset" in request.query_params else None
            return await self.site.render(
                request, "login.html", email="", next=next_, done=done, problem=None
            )
        fields = await form_of(request)
        email, next_ = fields.get("email", ""), local_path(fields.get("next"))
        client = client_of(request)
        try:
            person = await self.site.people.log_in(client, email=email, password=fields.get("password", ""))
        except ApiError as error:
            return await self.site.render(
                request,
                "login.html",
                status=error.status,
                email=email,
                next=next_,
                done=None,
                problem=str(error),
            )
        await self._leave(request)
        session = await self.site.people.begin_session(client, person.id, method=SESSION_METHOD)
        return self.site.begin(to(next_), session)

    async def log_out(self, request: Request) -> Response:
        session = await self.site.session(request)
        if session is not None:
            await form_of(request, session)
        await self._leave(request)
        return self.site.end(to("/login"))

    async def _leave(self, request: Request) -> None:
        """End the browser's session, if it has one: nothing of it goes over into the next."""
        session = await self.site.session(request)
        if session is not None:
            await self.site.people.end_session(session, session.id)

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
