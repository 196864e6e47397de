"""Who may see and send what page: a row for every page, and what each kind of caller is answered.

`nobody`: without a session; SIGN_IN is a redirect to the sign-in page. `role`: the least role in the organization
that the page is about; OWN: it is about whoever is signed in; OPEN: it is for everybody.
"""

from dataclasses import dataclass, field

SIGN_IN = 303
OPEN, OWN = "open", "own"
VIEWER, ADMIN, OWNER = "viewer", "admin", "owner"


@dataclass(frozen=True, slots=True)
class Page:
    method: str
    path: str
    nobody: int
    role: str
    fields: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


PAGES = [
    Page("GET", "/", 307, OPEN),
    Page("GET", "/signup", 200, OPEN),
    Page("POST", "/signup", 400, OPEN, {"email": "nobody"}),
    Page("GET", "/signup/{secret}", 200, OPEN),
    Page("POST", "/signup/{secret}", 404, OPEN, {"password": "x"}),
    Page("GET", "/login", 200, OPEN),
    Page("POST", "/login", 401, OPEN, {"email": "nobody@example.com", "password": "x"}),
    Page("POST", "/logout", SIGN_IN, OPEN),
    Page("GET", "/reset", 200, OPEN),
    Page("POST", "/reset", 200, OPEN, {"email": "nobody@example.com"}),
    Page("GET", "/reset/{secret}", 404, OPEN),
    Page("POST", "/reset/{secret}", 404, OPEN, {"password": "seven purple tractors"}),
    Page("GET", "/login/sso", 200, OPEN),
    Page("POST", "/login/sso", 400, OPEN, {"email": "nobody"}),
    Page("GET", "/login/oidc/{provider}", 404, OPEN),
    Page("GET", "/login/oidc/{provider}/callback", 401, OPEN),
    Page("GET", "/login/code", SIGN_IN, OPEN),
    Page("POST", "/login/code", SIGN_IN, OPEN, {"code": "000000"}),
    Page("POST", "/login/passkey/options", 200, OPEN),
    Page("POST", "/login/passkey", 401, OPEN),
    Page("GET", "/invitations/{secret}", 404, OPEN),
    Page("POST", "/invitations/{secret}", 404, OPEN),
    Page("GET", "/dev/mails", 200, OPEN),  # of development alone: test_the_mails_are_for_development
    Page("GET", "/{path:path}", 404, OPEN),
    Page("GET", "/organizations", SIGN_IN, OWN),
    Page("POST", "/organizations", SIGN_IN, OWN, {"organization": ""}),
    Page("GET", "/security", SIGN_IN, OWN),
    Page("POST", "/security", SIGN_IN, OWN),
    Page("POST", "/security/passkey/options", SIGN_IN, OWN),
    Page("POST", "/security/passkey", SIGN_IN, OWN),
    Page("GET", "/sessions", SIGN_IN, OWN),
    Page("POST", "/sessions", SIGN_IN, OWN),
    Page("POST", "/organization/restore", SIGN_IN, OWN, {"organization": "{organization}"}),
    Page("GET", "/members", SIGN_IN, VIEWER),
    Page("POST", "/members", SIGN_IN, ADMIN, {"do": "invite", "email": "x@example.com", "role": "viewer"}),
    Page("GET", "/invitations", SIGN_IN, VIEWER),
    Page(
        "POST", "/invitations", SIGN_IN, ADMIN, {"do": "invite", "email": "y@example.com", "role": "viewer"}
    ),
    Page("GET", "/keys", SIGN_IN, ADMIN),
    Page("POST", "/keys", SIGN_IN, ADMIN, {"do": "create", "name": "x"}),
    Page("GET", "/sso", SIGN_IN, ADMIN),
    Page("POST", "/sso", SIGN_IN, ADMIN, {"do": "add_domain", "domain": "x.example"}),
    Page("GET", "/organization", SIGN_IN, ADMIN),
    Page("GET", "/organization/export", SIGN_IN, ADMIN),
    Page("POST", "/organization", SIGN_IN, OWNER, {"named": "x", "password": "x"}),
]
