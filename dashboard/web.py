"""What all pages share: templates, cookies, forms, and the headers that keep them safe.

Pages work without scripts. A form is taken from this site only (Origin, Sec-Fetch-Site), and with the CSRF
token of the session where there is one.
"""

import datetime as dt
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from sandbox.journal.entries import Actor
from sandbox.journal.errors import ApiError, Unavailable
from sandbox.journal.ids import OrganizationId
from sandbox.store.postgres.reach import Reach, limit_to, reaching
from tenancy.errors import Unauthenticated
from tenancy.people.service import Client, People, Session

FORM_BYTES_MAX = 64 * 1024
FIELDS_MAX = 100
COOKIE_MAX_AGE_S = 30 * 86_400
STEP_MAX_AGE_S = 600
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
HSTS = "max-age=31536000; includeSubDomains"

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

Page = Callable[[Request], Awaitable[Response]]


def template(name: str) -> Template:
    """For pages that have no site: they show nothing of anybody."""
    return _TEMPLATES.get_template(name)


@dataclass(frozen=True, slots=True)
class Site:
    """Where the pages are reached, and with what their cookies are named."""

    people: People
    public_url: str
    mails_shown: bool = False

    @property
    def secure(self) -> bool:
        return self.public_url.startswith("https://")

    @property
    def cookie(self) -> str:
        return "__Host-rewind" if self.secure else "rewind_session"

    def secret_of(self, request: Request) -> str | None:
        return request.cookies.get(self.cookie)

    async def session(self, request: Request) -> Session | None:
        return await self.people.session(self.secret_of(request))

    async def required(self, request: Request) -> Session:
        """The session of whoever looks at this page. SignedOut sends others to the sign-in page."""
        found = await self.session(request)
        if found is None:
            raise SignedOut("Sign in to see this page.")
        limit_to(Reach(system=True, actor=Actor("member", found.person), ip=client_of(request).ip))
        return found

    @contextmanager
    def within(self, request: Request, session: Session, organization: OrganizationId) -> Iterator[None]:
        """Rows of this organization alone, under row-level security: for all that a page shows of a tenant.

        The caller is a member: who is one has been looked up before. People and sessions are out of reach in here.
        """
        actor = Actor("member", session.person)
        with reaching(Reach(organization=organization, actor=actor, ip=client_of(request).ip)):
            yield

    def begin(self, response: Response, session: Session) -> Response:
        response.set_cookie(
            self.cookie,
            session.secret,
            max_age=COOKIE_MAX_AGE_S,
            httponly=True,
            secure=self.secure,
            samesite="lax",
            path="/",
        )
        return response

    def end(self, response: Response) -> Response:
        response.delete_cookie(self.cookie, path="/", secure=self.secure, httponly=True, samesite="lax")
        return response

    async def leave(self, request: Request) -> None:
        """End the browser's session, if it has one: nothing of it goes over into the next."""
        session = await self.session(request)
        if session is not None:
            await self.people.end_session(session, session.id)

    # -- Cookies of what a browser is in the middle of

    def step(self, request: Request, name: str) -> str | None:
        """The secret of a step, as long as secrets are."""
        found = request.cookies.get(self._step_cookie(name))
        return found if found and len(found) <= 200 else None

    def set_step(self, response: Response, name: str, secret: str) -> Response:
        response.set_cookie(
            self._step_cookie(name),
            secret,
            max_age=STEP_MAX_AGE_S,
            httponly=True,
            secure=self.secure,
            samesite="lax",
            path="/",
        )
        return response

    def end_step(self, response: Response, name: str) -> Response:
        response.delete_cookie(
            self._step_cookie(name), path="/", secure=self.secure, httponly=True, samesite="lax"
        )
        return response

    def _step_cookie(self, name: str) -> str:
        return f"__Host-rewind-{name}" if self.secure else f"rewind_{name}"

    def page(self, path: str, handle: Page, *, methods: tuple[str, ...] = ("GET",)) -> Route:
        """A route whose refusals are pages too."""

        async def guarded(request: Request) -> Response:
            # To the end of the request's task: an answer that is streamed is read after this has returned.
            limit_to(Reach(system=True, ip=client_of(request).ip))
            try:
                if request.method not in {"GET", "HEAD"}:
                    self._require_same_site(request)
                response = await handle(request)
            except SignedOut:
                response = to(f"/login?next={_local(request)}")
            except (ApiError, Unavailable) as error:
                response = await self._refusal(request, error)
            return self._hardened(response)

        return Route(path, guarded, methods=list(methods), include_in_schema=False)

    def _hardened(self, response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if self.secure:
            response.headers["Strict-Transport-Security"] = HSTS
        return response

    def _require_same_site(self, request: Request) -> None:
        """A browser says where a form comes from; one that comes from elsewhere is not taken."""
        fetch_site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin")
        foreign = fetch_site not in {None, "same-origin", "none"}
        if origin is not None and origin != "null":
            foreign = foreign or urlsplit(origin).netloc != request.headers.get("host", "")
        if foreign or origin == "null":
            raise Forbidden("This form comes from another site. Open the page here and send it again.")

    async def _refusal(self, request: Request, error: ApiError | Unavailable) -> Response:
        status = error.status if isinstance(error, ApiError) else 503
        response = await self.render(request, "refused.html", status=status, message=str(error))
        if isinstance(error, ApiError) and error.retry_after_s is not None:
            response.headers["Retry-After"] = str(error.retry_after_s)
        return response

    async def render(
        self,
        request: Request,
        template: str,
        *,
        status: int = 200,
        session: Session | None = None,
        **values: Any,
    ) -> Response:
        """A page. `session` is looked for where it is not given."""
        if session is None:
            session = await self.session(request)
        text = _TEMPLATES.get_template(template).render(session=session, path=request.url.path, **values)
        return HTMLResponse(text, status)


class SignedOut(Unauthenticated):
    pass


class Forbidden(ApiError):
    code = "insufficient_scope"
    status = 403


async def form_of(request: Request, session: Session | None = None) -> dict[str, str]:
    """The fields of a form, of a session's with its CSRF token. ApiError otherwise."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES_MAX:
            raise ApiError("This form is too large.")
    try:
        fields = dict(
            parse_qsl(
                body.decode(),
                keep_blank_values=True,
                strict_parsing=bool(body),
                max_num_fields=FIELDS_MAX,
                errors="strict",
            )
        )
    except (ValueError, UnicodeDecodeError) as error:
        raise ApiError("This is no form.") from error
    if any("\0" in value for value in fields.values()):
        raise ApiError("A field has a character that cannot be stored.")
    if session is not None:
        session.require_csrf(fields.get("csrf"))
    return fields


def client_of(request: Request) -> Client:
    host = "unknown" if request.client is None else request.client.host
    return Client(host, request.headers.get("user-agent", ""))


def to(path: str) -> Response:
    """Go on there, with GET."""
    return RedirectResponse(path, 303)


def local_path(text: str | None) -> str:
    """Where a page may send on: a path of this site, whatever is asked for."""
    if (
        text
        and text.startswith("/")
        and not text.startswith(("//", "/\\"))
        and text.isprintable()
        and "\\" not in text
    ):
        return text
    return "/organizations"


def _local(request: Request) -> str:
    query = f"?{request.url.query}" if request.url.query else ""
    path = request.url.path + query if request.method == "GET" else "/organizations"
    return quote(path, safe="/")


def shown_time(at: int | None) -> str | None:
    """A time as tables show it, in UTC."""
    if at is None:
        return None
    return f"{dt.datetime.fromtimestamp(at / 1000, dt.UTC):%Y-%m-%d %H:%M} UTC"
