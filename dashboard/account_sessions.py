"""`/sessions`: where a person is signed in, and the password."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard.web import Site, client_of, form_of, shown_time, to
from sandbox.journal.errors import ApiError
from tenancy.people.service import Session


@dataclass(frozen=True, slots=True)
class AccountSessions:
    site: Site

    def routes(self) -> list[Route]:
        return [self.site.page("/sessions", self.sessions, methods=("GET", "POST"))]

    async def sessions(self, request: Request) -> Response:
        session = await self.site.required(request)
        done, problem, status = None, None, 200
        if request.method == "POST":
            fields = await form_of(request, session)
            try:
                done = await self._change(request, session, fields)
            except ApiError as error:
                problem, status = str(error), error.status
            if fields.get("do") == "end" and fields.get("session") == session.id:
                return self.site.end(to("/login"))
        rows = [
            {
                "id": str(row["id"]),
                "method": row["method"],
                "ip": row["ip"],
                "user_agent": row["user_agent"],
                "created_at": shown_time(row["created_at"]),
                "last_used_at": shown_time(row["last_used_at"]),
            }
            for row in await self.site.people.sessions(session)
        ]
        return await self.site.render(
            request,
            "sessions.html",
            status=status,
            session=session,
            sessions=rows,
            done=done,
            problem=problem,
        )

    async def _change(self, request: Request, session: Session, fields: dict[str, str]) -> str:
        match fields.get("do"):
            case "end":
                await self.site.people.end_session(session, fields.get("session", ""))
                return "That session is signed out."
            case "end_others":
                await self.site.people.end_other_sessions(session)
                return "Everywhere else you are signed out."
            case "password":
                await self.site.people.change_password(
                    client_of(request), session, fields.get("old", ""), fields.get("new", "")
                )
                return "Your password is changed; everywhere else you are signed out."
        raise ApiError("This form asks for nothing that there is.")
