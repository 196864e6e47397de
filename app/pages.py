"""The pages for people: made from the parts of the tenancy, served beside the API."""

from dataclasses import dataclass
from pathlib import Path

import asyncpg
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

import dashboard
from app.dispatcher.egress import Egress, LimitedTransport
from app.pages_settings import PagesSettings
from dashboard.account_sessions import AccountSessions
from dashboard.accounts import Accounts
from dashboard.closing import ClosingPages
from dashboard.entrance import Entrance
from dashboard.mails import DevMails
from dashboard.nowhere import Nowhere
from dashboard.organizations import Organizations
from dashboard.providers import ProviderPages
from dashboard.second_step import SecondStep
from dashboard.security import Security
from dashboard.sso import SsoPages
from dashboard.web import Site
from tenancy.closing.service import Closing
from tenancy.identity.domains import DnsResolver
from tenancy.identity.passkeys import Passkeys
from tenancy.identity.providers import Providers
from tenancy.identity.sso import Sso
from tenancy.identity.totp import Totp
from tenancy.keys.service import Keys
from tenancy.people.members import Members
from tenancy.people.oidc import OidcClient
from tenancy.people.passwords import Passwords
from tenancy.people.service import People
from tenancy.secrets import SecretBox

PROVIDER_ANSWER_BYTES_MAX = 1 << 20
STATIC = Path(dashboard.__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class Pages:
    site: Site
    members: Members
    passwords: Passwords
    closing: Closing
    routes: tuple[BaseRoute, ...]

    def close(self) -> None:
        self.passwords.close()


def pages_of(
    pool: asyncpg.Pool, *, keys: Keys, box: SecretBox, egress: Egress, settings: PagesSettings
) -> Pages:
    passwords = settings.passwords or Passwords()
    client = OidcClient(lambda: LimitedTransport(egress.transport(), PROVIDER_ANSWER_BYTES_MAX))
    providers = Providers(pool, client, box, deployment=settings.provider, public_url=settings.public_url)
    members = Members(pool, passwords, public_url=settings.public_url)
    site = Site(
        People(pool, passwords, public_url=settings.public_url), settings.public_url, settings.mails_shown
    )
    sso = Sso(pool, client, box, settings.resolver or DnsResolver(), insecure=egress.lists)
    totp, passkeys = Totp(pool, box, site.people), Passkeys(pool, settings.public_url)
    closing = Closing(pool, site.people, public_url=settings.public_url)
    entrance = Entrance(site, providers, sso, totp, passkeys)
    routes: list[BaseRoute] = [
        *Accounts(site, entrance).routes(),
        *ProviderPages(site, entrance).routes(),
        *SecondStep(site, entrance).routes(),
        *Security(site, entrance).routes(),
        *ClosingPages(site, members, closing).routes(),
        *SsoPages(site, members, sso, providers).routes(),
        *Organizations(site, members, keys).routes(),
        *AccountSessions(site).routes(),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    if settings.mails_shown:
        routes += DevMails(site, pool).routes()
    routes.append(Nowhere(site))
    return Pages(site, members, passwords, closing, tuple(routes))
