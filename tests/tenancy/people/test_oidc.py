"""What is believed of a provider that lies: issuers, audiences, nonces, times, signatures, keys, endpoints."""

import base64
import hashlib
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from sandbox.journal.errors import ApiError, Unavailable
from tenancy.people.oidc import Account, OidcClient, Provider, SignInFailed, checked_issuer

ISSUER = "https://login.example"
BACK = "https://rewind.example/login/oidc/x/callback"
KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": kid}, private=True) for kid in ("one", "two"))


class Liar:
    """A provider over a transport of its own, which answers as it is told."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "userinfo_endpoint": f"{ISSUER}/me",
        }
        self.claims: dict[str, Any] = {}
        self.me: dict[str, Any] = {}
        self.key: Any = KEY
        self.alg = "RS256"
        self.published = [KEY]
        self.challenge = ""
        self.token: dict[str, Any] | None = None
        self.status = 200
        self.reads = 0
        self.client = OidcClient(lambda: httpx2.MockTransport(self.answer))
        self.provider = Provider("x", "Example", ISSUER, "rewind", "a secret")
        self.now_s = int(time.time())

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        match request.url.path:
            case "/.well-known/openid-configuration":
                self.reads += 1
                return httpx2.Response(self.status, json=self.metadata)
            case "/keys":
                return httpx2.Response(200, json={"keys": [key.as_dict() for key in self.published]})
            case "/me":
                return httpx2.Response(200, json=self.me)
        form = parse_qs(request.content.decode())
        assert request.headers["authorization"].startswith("Basic "), "the secret does not go into the body"
        digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.challenge
        token = {"access_token": "at", "token_type": "Bearer", "id_token": self.id_token()}
        return httpx2.Response(200, json=token if self.token is None else self.token)

    def id_token(self) -> str:
        claims = {name: value for name, value in self.claims.items() if value is not None}
        return jwt.encode(
            {"alg": self.alg, "kid": getattr(self.key, "kid", "one")}, claims, self.key, [self.alg]
        )

    async def sign_in(self, answer_iss: str | None = None, **claims: Any) -> Account:
        asked = await self.client.ask(self.provider, BACK)
        query = parse_qs(urlsplit(asked.url).query)
        self.challenge = query["code_challenge"][0]
        self.claims = {
            "iss": ISSUER,
            "sub": "s1",
            "aud": "rewind",
            "nonce": query["nonce"][0],
            "iat": self.now_s,
            "exp": self.now_s + 300,
            "email": "Ann@Example.com",
            "email_verified": True,
            **claims,
        }
        return await self.client.answered(
            self.provider,
            BACK,
            code="c",
            iss=answer_iss,
            nonce=asked.nonce,
            verifier=asked.verifier,
            now_ms=self.now_s * 1000,
        )


@pytest.fixture
def liar() -> Liar:
    return Liar()


async def test_an_honest_answer(liar: Liar) -> None:
    assert await liar.sign_in(ISSUER, name="Ann") == Account(ISSUER, "s1", "ann@example.com", "Ann")


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another client"},
        {"aud": ["rewind", "another client"]},
        {"aud": None},
        {"azp": "another client"},
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"iat": 99_999_999_999},
        {"nbf": 99_999_999_999},
        {"sub": None},
        {"sub": "x" * 300},
        {"at_hash": "of another token"},
    ],
)
async def test_tokens_that_are_not_believed(liar: Liar, claims: dict[str, Any]) -> None:
    with pytest.raises(SignInFailed):
        await liar.sign_in(**claims)


@pytest.mark.parametrize("verified", [None, False, "true", 1])
async def test_only_true_is_verified(liar: Liar, verified: object) -> None:
    assert (await liar.sign_in(email_verified=verified)).email is None


async def test_a_token_of_another_key(liar: Liar) -> None:
    liar.key = OTHER_KEY
    with pytest.raises(SignInFailed):
        await liar.sign_in()


async def test_a_token_sealed_with_the_clients_secret(liar: Liar) -> None:
    """Whoever knows the secret signs nobody in: only the provider's own key does."""
    liar.key, liar.alg = OctKey.import_key("a secret" * 8, {"kid": "oct"}), "HS256"
    liar.published = [KEY, liar.key]
    with pytest.raises(SignInFailed):
        await liar.sign_in()


async def test_a_token_without_signature(liar: Liar) -> None:
    parts = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (b'{"alg":"none"}', b"{}")]
    liar.token = {"access_token": "at", "token_type": "Bearer", "id_token": f"{parts[0]}.{parts[1]}."}
    with pytest.raises(SignInFailed):
        await liar.sign_in()


@pytest.mark.parametrize(
    "token", [{"access_token": "at"}, {"error": "invalid_grant"}, {"access_token": "a", "id_token": 7}]
)
async def test_no_token(liar: Liar, token: dict[str, Any]) -> None:
    liar.token = token
    with pytest.raises(SignInFailed):
        await liar.sign_in()


async def test_a_provider_changes_its_keys(liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    await liar.sign_in()
    liar.key, liar.published = OTHER_KEY, [OTHER_KEY]
    with pytest.raises(SignInFailed):
        await liar.sign_in()
    assert liar.reads == 1, "unknown keys are no way to make us ask all the time"
    monkeypatch.setattr("tenancy.people.oidc.KEYS_AGAIN_S", 0.0)
    assert (await liar.sign_in()).subject == "s1"


async def test_answers_name_their_issuer(liar: Liar) -> None:
    """A mix-up: the answer of an honest provider, brought to the address of another one."""
    with pytest.raises(SignInFailed, match="not of Example"):
        await liar.sign_in("https://honest.example")
    liar.client = OidcClient(lambda: httpx2.MockTransport(liar.answer))
    liar.metadata["authorization_response_iss_parameter_supported"] = True
    with pytest.raises(SignInFailed, match="not of Example"):
        await liar.sign_in()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("issuer", "https://google.example", "calls itself"),
        ("issuer", f"{ISSUER}/", "calls itself"),
        ("authorization_endpoint", "javascript:alert(1)", "authorization_endpoint"),
        ("token_endpoint", "http://login.example/token", "token_endpoint"),
        ("jwks_uri", None, "jwks_uri"),
    ],
)
async def test_what_a_provider_may_say_of_itself(liar: Liar, name: str, value: object, says: str) -> None:
    liar.metadata[name] = value
    with pytest.raises(SignInFailed, match=says):
        await liar.sign_in()


async def test_the_address_of_user_info_is_of_the_same_person(liar: Liar) -> None:
    liar.me = {"sub": "s1", "email": "me@example.com", "email_verified": True}
    assert (await liar.sign_in(email=None, email_verified=None)).email == "me@example.com"
    liar.me["sub"] = "s2"
    with pytest.raises(SignInFailed, match="somebody else"):
        await liar.sign_in(email=None)


@pytest.mark.parametrize("status", [404, 500, 302])
async def test_no_configuration(liar: Liar, status: int) -> None:
    liar.status = status
    with pytest.raises(SignInFailed, match=f"{status}"):
        await liar.client.ask(liar.provider, BACK)


async def test_nobody_answers(liar: Liar) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    liar.client = OidcClient(lambda: httpx2.MockTransport(refuse))
    with pytest.raises(Unavailable):
        await liar.client.ask(liar.provider, BACK)


@pytest.mark.parametrize(
    "text",
    ["", "login.example", "http://login.example", "https://", "https://u:p@x.example", "https://x.example?a=1",
     "https://x.example/#f", "ftp://x.example", "https://[::1", "https://x.example:99999", "https://x y.example"],
)  # fmt: skip
def test_urls_that_are_no_issuer(text: str) -> None:
    with pytest.raises(ApiError):
        checked_issuer(text)


def test_a_discovery_url_names_its_issuer() -> None:
    for text in ("https://a.example/t/1", "https://a.example/t/1/.well-known/openid-configuration"):
        assert checked_issuer(text) == "https://a.example/t/1"
    assert checked_issuer("http://localhost:9", insecure={"localhost"}.__contains__) == "http://localhost:9"
