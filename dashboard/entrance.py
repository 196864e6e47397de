"""The door: the sign-in page, and what happens once somebody is proven to be a person, however that was done."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from dashboard.web import Site, client_of, to
from sandbox.journal.errors import ApiError
from tenancy.identity.passkeys import Passkeys
from tenancy.identity.providers import Providers
from tenancy.identity.sso import Sso
from tenancy.identity.totp import Totp

CODE = "code"
"""The cookie of a browser whose password is proven and whose code is not."""
OFFER = "link"
"""The cookie of an account at a provider that is linked once its person has signed in."""


@dataclass(frozen=True, slots=True)
class Entrance:
    site: Site
    providers: Providers
    sso: Sso
    totp: Totp
    passkeys: Passkeys

    async def form(
        self,
        request: Request,
        *,
        next_: str,
        email: str = "",
        done: str | None = None,
        error: ApiError | None = None,
    ) -> Response:
        offer = await self.providers.offered(self.site.step(request, OFFER))
        response = await self.site.render(
            request,
            "login.html",
            status=200 if error is None else error.status,
            email=email or ("" if offer is None else offer["email"]),
            next=next_,
            done=done,
            problem=None if error is None else str(error),
            offer=offer,
            provider=self.providers.deployment,
            passkeys=self.passkeys.possible,
        )
        if error is not None and error.retry_after_s is not None:
            response.headers["Retry-After"] = str(error.retry_after_s)
        return response

    async def password_proven(self, request: Request, person: str, *, next_: str) -> Response:
        """In, or on to the second step."""
        if not await self.totp.wanted(person):
            return await self.enter(request, person, method="password", next_=next_)
        return self.site.set_step(to("/login/code"), CODE, await self.totp.wait(person, next_))

    async def enter(
        self, request: Request, person: str, *, method: str, next_: str, sso: str | None = None
    ) -> Response:
        """A session for a person that is proven, and on to where it wanted to go.

        Errors: InsufficientScope when its organization wants another way.
        """
        accepted = await self.providers.accept_offer(self.site.step(request, OFFER), person)
        if accepted is not None:
            method, sso, next_ = "oidc", accepted.connection, accepted.next
        await self.sso.require(person, method=method, sso=sso)
        await self.site.leave(request)
        session = await self.site.people.begin_session(client_of(request), person, method=method, sso=sso)
        response = self.site.begin(to(next_), session)
        return response if accepted is None else self.site.end_step(response, OFFER)
