"""OpenID Connect: what a provider is asked, and what of its answer is believed. The only module that imports authlib.

Code flow with PKCE (S256), nonce and state. An answer is believed when it came to the redirect URI of this very
provider, its ID token is signed with a key of the provider, and issuer, audience, nonce and times are right.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oidc.core import CodeIDToken, UserInfo
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from sandbox.journal.errors import ApiError, FieldError, Unavailable
from tenancy.errors import Unauthenticated

SCOPE = "openid email profile"
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
"""Signatures with a public key only: a client's secret is no proof of who wrote a token."""
TIMEOUT_S = 10.0
ALL_S = 20.0
"""For all that a provider is asked at one time, however slowly it sends its answers."""
KNOWN_FOR_S = 600.0
KEYS_AGAIN_S = 30.0
"""A token of an unknown key makes us look for new keys, not more often than this."""
KNOWN_MAX = 1_000
LEEWAY_S = 60
STATE_CHARS, VERIFIER_CHARS = 43, 64
FIELD_CHARS_MAX = 255
METADATA_FIELDS = ("authorization_endpoint", "token_endpoint", "jwks_uri")

Transport = Callable[[], httpx2.AsyncBaseTransport]
"""Makes the way out: guarded, with bounded answers."""


class SignInFailed(Unauthenticated):
    """The provider's answer is not believed, or says no: begin again."""


@dataclass(frozen=True, slots=True)
class Provider:
    """`id` is part of the redirect URI, so that no provider answers in another's place."""

    id: str
    name: str
    issuer: str
    client_id: str
    client_secret: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What has to be remembered until the answer comes."""

    url: str
    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True)
class Account:
    """A person as the provider knows it. `email` is lower case, and None when the provider has not verified it."""

    issuer: str
    subject: str
    email: str | None
    name: str


@dataclass(frozen=True, slots=True)
class _Known:
    metadata: dict[str, Any]
    keys: KeySet
    read_at: float


class OidcClient:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[str, _Known] = {}

    async def ask(self, provider: Provider, redirect_uri: str) -> Asked:
        """Where to send the browser. Errors: SignInFailed, Unavailable."""
        known = await self._read(provider)
        state, nonce = generate_token(STATE_CHARS), generate_token(STATE_CHARS)
        verifier = generate_token(VERIFIER_CHARS)
        async with self._client(provider, redirect_uri, known.metadata) as client:
            url, _ = client.create_authorization_url(
                known.metadata["authorization_endpoint"], state=state, code_verifier=verifier, nonce=nonce
            )
        return Asked(url, state, nonce, verifier)

    async def answered(
        self,
        provider: Provider,
        redirect_uri: str,
        *,
        code: str,
        iss: str | None,
        nonce: str,
        verifier: str,
        now_ms: int,
    ) -> Account:
        """Whose account the code stands for. Errors: SignInFailed, Unavailable."""
        known = await self._read(provider)
        _require_issuer(provider, known.metadata, iss)
        async with self._client(provider, redirect_uri, known.metadata) as client:
            try:
                async with _in_time(provider.name):
                    token = await client.fetch_token(
                        known.metadata["token_endpoint"],
                        grant_type="authorization_code",
                        code=code,
                        code_verifier=verifier,
                    )
            except OAuthError as error:
                raise SignInFailed(
                    f"{provider.name} did not accept the sign-in ({error.error}): begin again."
                ) from error
            except httpx2.HTTPError as error:
                raise Unavailable(f"{provider.name} does not answer") from error
            except ValueError as error:
                raise SignInFailed(f"{provider.name} answered what is no token.") from error
            claims = await self._claims(provider, known, token, nonce, now_ms)
            if not isinstance(claims.get("email"), str):
                claims = {**claims, **await self._user_info(client, provider, known, claims)}
        return _account(claims)

    async def _claims(
        self, provider: Provider, known: _Known, token: dict[str, Any], nonce: str, now_ms: int
    ) -> dict[str, Any]:
        raw = token.get("id_token")
        if not isinstance(raw, str):
            raise SignInFailed(f"{provider.name} sent no ID token: is it an OpenID provider?")
        try:
            try:
                found = jwt.decode(raw, known.keys, algorithms=list(ALGORITHMS))
            except (JoseError, ValueError):
                known = await self._read(provider, older_than_s=KEYS_AGAIN_S)
                found = jwt.decode(raw, known.keys, algorithms=list(ALGORITHMS))
            claims = CodeIDToken(
                found.claims,
                found.header,
                options={
                    "iss": {"essential": True, "value": provider.issuer},
                    "aud": {"essential": True, "value": provider.client_id},
                    "sub": {"essential": True},
                },
                params={
                    "nonce": nonce,
                    "client_id": provider.client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(now=now_ms // 1000, leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise SignInFailed(f"The answer of {provider.name} is not to be trusted: begin again.") from error
        return dict(claims)

    async def _user_info(
        self, client: AsyncOAuth2Client, provider: Provider, known: _Known, claims: dict[str, Any]
    ) -> dict[str, Any]:
        """The address, where the ID token does not have it; only of the token's own subject."""
        endpoint = known.metadata.get("userinfo_endpoint")
        if not isinstance(endpoint, str) or not _may_reach(endpoint, provider.issuer):
            return {}
        try:
            async with _in_time(provider.name):
                answer = await client.get(endpoint)
            answer.raise_for_status()
            found = UserInfo(answer.json())
        except httpx2.HTTPError as error:
            raise Unavailable(f"{provider.name} does not answer") from error
        except (ValueError, TypeError) as error:
            raise SignInFailed(f"{provider.name} answered what is no account.") from error
        if found.get("sub") != claims["sub"]:
            raise SignInFailed(f"{provider.name} answered with somebody else's account.")
        return {name: found[name] for name in ("email", "email_verified", "name") if name in found}

    def _client(self, provider: Provider, redirect_uri: str, metadata: dict[str, Any]) -> AsyncOAuth2Client:
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return AsyncOAuth2Client(
            client_id=provider.client_id,
            client_secret=provider.client_secret,
            token_endpoint_auth_method="none" if provider.client_secret is None else method,
            scope=SCOPE,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            transport=self._transport(),
            timeout=TIMEOUT_S,
            trust_env=False,
        )

    # -- What a provider says of itself

    async def check(self, issuer: str) -> None:
        """Whether there is a provider. Errors: SignInFailed, Unavailable."""
        await self._read(Provider("", _host(issuer), issuer, "", None), older_than_s=0)

    async def _read(self, provider: Provider, *, older_than_s: float = KNOWN_FOR_S) -> _Known:
        known = self._known.get(provider.issuer)
        if known is not None and time.monotonic() - known.read_at < older_than_s:
            return known
        async with _in_time(provider.name):
            return await self._read_now(provider)

    async def _read_now(self, provider: Provider) -> _Known:
        async with httpx2.AsyncClient(
            transport=self._transport(), timeout=TIMEOUT_S, trust_env=False
        ) as client:
            url = provider.issuer.rstrip("/") + "/.well-known/openid-configuration"
            metadata = await _json(client, url, provider.name)
            _require_metadata(provider, metadata)
            keys = await _json(client, metadata["jwks_uri"], provider.name)
        try:
            known = _Known(metadata, KeySet.import_key_set({"keys": keys["keys"]}), time.monotonic())
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise SignInFailed(f"{provider.name} has no usable keys.") from error
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[provider.issuer] = known
        return known


def checked_issuer(text: str, *, insecure: Callable[[str], bool] = lambda _: False) -> str:
    """The issuer of a discovery URL, which may also be given. `insecure`: hosts that may be reached over http.

    Errors: ApiError naming the field.
    """
    issuer = text.strip().removesuffix("/.well-known/openid-configuration")
    try:
        parts = urlsplit(issuer)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise _wrong("issuer", "This is no URL.") from None
    if not host or len(issuer) > 500 or not issuer.isprintable() or " " in issuer:
        raise _wrong("issuer", "Give the provider's URL, such as https://login.example.com")
    if parts.query or parts.fragment or parts.username is not None:
        raise _wrong("issuer", "The provider's URL has no query, fragment or user name.")
    if parts.scheme != "https" and not (parts.scheme == "http" and insecure(host)):
        raise _wrong("issuer", "The provider's URL begins with https://")
    return issuer


def _require_metadata(provider: Provider, metadata: dict[str, Any]) -> None:
    if metadata.get("issuer") != provider.issuer:
        told = str(metadata.get("issuer"))[:200]
        raise SignInFailed(f"The provider at {provider.issuer} calls itself {told!r}: give that as its URL.")
    for name in METADATA_FIELDS:
        endpoint = metadata.get(name)
        if not isinstance(endpoint, str) or not _may_reach(endpoint, provider.issuer):
            raise SignInFailed(f"The provider at {provider.issuer} names no usable {name}.")


def _may_reach(endpoint: str, issuer: str) -> bool:
    """https; http only where the issuer itself is reached so."""
    scheme = urlsplit(endpoint).scheme
    return scheme == "https" or (scheme == "http" and issuer.startswith("http://"))


def _require_issuer(provider: Provider, metadata: dict[str, Any], iss: str | None) -> None:
    """RFC 9207: an answer that names its issuer names this one; where a provider promises it, it must."""
    promised = metadata.get("authorization_response_iss_parameter_supported") is True
    if (iss is None and promised) or (iss is not None and iss != provider.issuer):
        raise SignInFailed(f"This answer is not of {provider.name}: begin again.")


def _account(claims: dict[str, Any]) -> Account:
    email, name = claims.get("email"), claims.get("name")
    verified = claims.get("email_verified") is True and isinstance(email, str) and "\0" not in email
    subject = str(claims["sub"])
    if not 1 <= len(subject) <= FIELD_CHARS_MAX or "\0" in subject:
        raise SignInFailed("The provider's name for this account cannot be stored.")
    shown = name.replace("\0", "")[:200] if isinstance(name, str) else ""
    return Account(claims["iss"], subject, str(email).strip().lower() if verified else None, shown)


@contextlib.asynccontextmanager
async def _in_time(name: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(ALL_S):
            yield
    except TimeoutError as error:
        raise Unavailable(f"{name} does not answer within {ALL_S:.0f} s") from error


async def _json(client: httpx2.AsyncClient, url: str, name: str) -> dict[str, Any]:
    try:
        answer = await client.get(url, headers={"accept": "application/json"})
        answer.raise_for_status()
        found = answer.json()
    except httpx2.HTTPStatusError as error:
        raise SignInFailed(f"{name} has no OpenID configuration ({error.response.status_code}).") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unavailable(f"{name} does not answer") from error
    except ValueError as error:
        raise SignInFailed(f"{name} has no OpenID configuration that can be read.") from error
    if not isinstance(found, dict):
        raise SignInFailed(f"{name} has no OpenID configuration that can be read.")
    return found


def _host(issuer: str) -> str:
    return urlsplit(issuer).hostname or issuer


def _wrong(path: str, message: str) -> ApiError:
    return ApiError(message, errors=[FieldError(path, "invalid_value", message)])
