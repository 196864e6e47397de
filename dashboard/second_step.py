"""`/login/code`, `/login/passkey`: the second step after a password, and the way in without one."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dashboard.entrance import CODE, Entrance
from dashboard.web import Site, client_of, form_of, local_path, to
from sandbox.journal.errors import ApiError


@dataclass(frozen=True, slots=True)
class SecondStep:
    site: Site
    entrance: Entrance

    def routes(self) -> list[Route]:
        page = self.site.page
        return [
            page("/login/code", self.code, methods=("GET", "POST")),
            page("/login/passkey/options", self.options, methods=("POST",)),
            page("/login/passkey", self.passkey, methods=("POST",)),
        ]

    async def code(self, request: Request) -> Response:
        secret = self.site.step(request, CODE)
        if await self.entrance.totp.waiting(secret) is None:
            return to("/login")
        problem, status, wait_s = None, 200, None
        if request.method == "POST":
            fields = await form_of(request)
            try:
                found = await self.entrance.totp.prove(client_of(request), secret, fields.get("code", ""))
                response = await self.entrance.enter(
                    request, found.person, method="password+code", next_=found.next
                )
                return self.site.end_step(response, CODE)
            except ApiError as error:
                problem, status, wait_s = str(error), error.status, error.retry_after_s
        response = await self.site.render(request, "code.html", status=status, problem=problem)
        if wait_s is not None:
            response.headers["Retry-After"] = str(wait_s)
        return response

    async def options(self, request: Request) -> Response:
        await form_of(request)
        return Response(await self.entrance.passkeys.ask(), media_type="application/json")

    async def passkey(self, request: Request) -> Response:
        fields = await form_of(request)
        try:
            person = await self.entrance.passkeys.prove(client_of(request), fields.get("credential", ""))
            entered = await self.entrance.enter(
                request, person, method="passkey", next_=local_path(fields.get("next"))
            )
        except ApiError as error:
            return JSONResponse({"problem": str(error)}, error.status)
        response = JSONResponse({"next": entered.headers["location"]})
        for name, value in entered.raw_headers:
            if name == b"set-cookie":
                response.raw_headers.append((name, value))
        return response
