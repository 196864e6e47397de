"""`/login/oidc/…`, `/login/sso`: to a provider and back.

The way there is a link and not a form: browsers apply `form-action` to where a form is redirected, and a provider
is another site.
"""

import hashlib
from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard.entrance import OFFER, Entrance
from dashboard.web import Site, client_of, form_of, local_path, to
from sandbox.journal.errors import ApiError, Unavailable
from tenancy.people.oidc import SignInFailed

ANSWER_FIELDS = ("code", "iss", "error")
ANSWER_CHARS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class ProviderPages:
    site: Site
    entrance: Entrance

    def routes(self) -> list[Route]:
        page = self.site.page
        return [
            page("/login/sso", self.choose, methods=("GET", "POST")),
            page("/login/oidc/{provider}", self.begin),
            page("/login/oidc/{provider}/callback", self.answered),
        ]

    async def choose(self, request: Request) -> Response:
        """By the address: which organizations' providers it may use."""
        problem, status, email, found = None, 200, "", None
        if request.method == "POST":
            email = (await form_of(request)).get("email", "")
            try:
                found = await self.entrance.providers.for_address(email)
            except ApiError as error:
                problem, status = str(error), error.status
        return await self.site.render(
            request, "sso.html", status=status, email=email, found=found, problem=problem
        )

    async def begin(self, request: Request) -> Response:
        """A tab goes to the provider; what it has to bring back is in a cookie of its own."""
        next_ = local_path(request.query_params.get("next"))
        try:
            begun = await self.entrance.providers.begin(
                client_of(request), request.path_params["provider"], next_
            )
        except (SignInFailed, Unavailable) as error:
            return await self._again(request, str(error), error.status, next_)
        return self.site.set_step(to(begun.url), _tab(begun.state), begun.browser)

    async def answered(self, request: Request) -> Response:
        query = request.query_params
        if any(len(value) > ANSWER_CHARS_MAX or "\0" in value for value in query.values()):
            raise ApiError("This is no answer of a provider.")
        provider, state = request.path_params["provider"], query.get("state", "")
        tab = _tab(state)
        session = await self.site.session(request)
        try:
            arrival = await self.entrance.providers.answered(
                provider,
                state=state,
                browser=self.site.step(request, tab) or "",
                answer={name: query[name] for name in ANSWER_FIELDS if name in query},
                signed_in_as=None if session is None else session.person,
            )
            if arrival.offer is not None:
                response = to(f"/login?next={quote(arrival.next, safe='/')}")
                response = self.site.set_step(response, OFFER, arrival.offer)
            else:
                response = await self.entrance.enter(
                    request, arrival.person, method="oidc", sso=arrival.connection, next_=arrival.next
                )
        except (ApiError, Unavailable) as error:
            response = await self._again(request, str(error), error.status, "/organizations")
        return self.site.end_step(response, tab)

    async def _again(self, request: Request, problem: str, status: int, next_: str) -> Response:
        return await self.site.render(request, "again.html", status=status, problem=problem, next=next_)


def _tab(state: str) -> str:
    """The name of this tab's cookie: another tab's is another one."""
    return f"oidc-{hashlib.sha256(state.encode()).hexdigest()[:16]}"
