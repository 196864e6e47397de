"""Settings of the pages for people, apart from the pages: whoever reads settings need not load them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenancy.identity.domains import TxtResolver
    from tenancy.people.oidc import Provider
    from tenancy.people.passwords import Passwords


@dataclass(frozen=True, slots=True)
class PagesSettings:
    """`public_url`: what people type to get here. `mails_shown`: there is no mail server, and this is development."""

    public_url: str
    mails_shown: bool = False
    provider: "Provider | None" = None
    """Signs in people of the whole deployment."""
    resolver: "TxtResolver | None" = None
    """None: the DNS of this machine."""
    passwords: "Passwords | None" = None
    """None: hashed as the library recommends."""
