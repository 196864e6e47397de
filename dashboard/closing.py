"""`/organization`: taking an organization along (export), closing it, and restoring a closed one."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from dashboard.web import Site, client_of, form_of, to
from sandbox.journal.errors import ApiError
from tenancy.closing.service import GRACE_DAYS, Closing
from tenancy.people.members import Members
from tenancy.principals import Role


@dataclass(frozen=True, slots=True)
class ClosingPages:
    site: Site
    members: Members
    closing: Closing

    def routes(self) -> list[Route]:
        page = self.site.page
        return [
            page("/organization", self.page, methods=("GET", "POST")),
            page("/organization/export", self.export),
            page("/organization/restore", self.restore, methods=("POST",)),
        ]

    async def page(self, request: Request) -> Response:
        session = await self.site.required(request)
        own = await self.members.membership(
            session, request.query_params.get("organization"), at_least=Role.ADMIN
        )
        problem, status = None, 200
        if request.method == "POST":
            fields = await form_of(request, session)
            try:
                await self.closing.close(
                    client_of(request),
                    session,
                    own,
                    named=fields.get("named", ""),
                    password=fields.get("password", ""),
                )
                return to("/organizations")
            except ApiError as error:
                problem, status = str(error), error.status
        return await self.site.render(
            request,
            "organization.html",
            status=status,
            session=session,
            own=own,
            has_password=await self.site.people.has_password(session),
            grace_days=GRACE_DAYS,
            problem=problem,
        )

    async def export(self, request: Request) -> Response:
        session = await self.site.required(request)
        own = await self.members.membership(
            session, request.query_params.get("organization"), at_least=Role.ADMIN
        )
        await self.closing.note_export(client_of(request), session, own)
        name = f"rewind-{own.organization}.ndjson"
        return StreamingResponse(
            self.closing.export(own),
            media_type="application/x-ndjson",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    async def restore(self, request: Request) -> Response:
        session = await self.site.required(request)
        fields = await form_of(request, session)
        await self.closing.restore(client_of(request), session, fields.get("organization", ""))
        return to("/organizations")
