"""What a browser finds where there is no page; callers of the API get problem+json there."""

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from dashboard.web import Site


class Nowhere(Route):
    """The last route: every address that no other has, if a browser asks for it."""

    def __init__(self, site: Site) -> None:
        async def show(request: Request) -> Response:
            return await site.render(request, "nowhere.html", status=404)

        page = site.page("/{path:path}", show)
        super().__init__(page.path, page.endpoint, methods=["GET"], include_in_schema=False)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            return Match.NONE, {}
        if scope["path"].startswith(("/v1", "/static")) or "text/html" not in Headers(scope=scope).get(
            "accept", ""
        ):
            return Match.NONE, {}
        return super().matches(scope)
