"""The pages for people: made from the parts of the tenancy, served beside the API."""

from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

import dashboard
from dashboard.account_sessions import AccountSessions
from dashboard.accounts import Accounts
from dashboard.mails import DevMails
from dashboard.organizations import Organizations
from dashboard.web import Site
from tenancy.keys.service import Keys
from tenancy.people.members import Members
from tenancy.people.passwords import Passwords
from tenancy.people.service import People

STATIC = Path(dashboard.__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class PagesSettings:
    """`public_url`: what people type to get here. `mails_shown`: there is no mail server, and this is development."""

    public_url: str
    mails_shown: bool = False
    passwords: Passwords = field(default_factory=Passwords)


@dataclass(frozen=True, slots=True)
class Pages:
    site: Site
    members: Members
    passwords: Passwords
    routes: tuple[BaseRoute, ...]

    def close(self) -> None:
        self.passwords.close()


def pages_of(pool: asyncpg.Pool, *, keys: Keys, settings: PagesSettings) -> Pages:
    passwords = settings.passwords
    members = Members(pool, passwords, public_url=settings.public_url)
    site = Site(People(pool, passwords, public_url=settings.public_url), settings.public_url)
    routes: list[BaseRoute] = [
        *Accounts(site).routes(),
        *Organizations(site, members, keys).routes(),
        *AccountSessions(site).routes(),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    if settings.mails_shown:
        routes += DevMails(site, pool).routes()
    return Pages(site, members, passwords, tuple(routes))
