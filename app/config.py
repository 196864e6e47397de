"""Settings of the control plane: those of the data plane and where it listens."""

import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from app.hardening import Exposure, Network
from app.listening import listening_socket, port
from app.pages_settings import PagesSettings
from app.rates import PER_MINUTE
from app.scheduler.mails import SmtpServer
from sandbox.config import KEY_SETTINGS, DataPlaneSettings, SettingsError, data_dir, flag, integer
from sandbox.journal.errors import ApiError
from tenancy.identity.providers import DEPLOYMENT
from tenancy.people.oidc import Provider, checked_issuer
from tenancy.secret_keys import KeyFile, KeyFromCommand, KeyInEnvironment, KeySource

KEY_FILE = "secret.key"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What `rewind serve` needs. `plane.database_role` is not used here: see `database_role`."""

    plane: DataPlaneSettings
    database_role: str
    host: str
    port: int
    listen_fd: int | None
    """A listening socket inherited from the supervisor, so that a restart refuses no connection."""
    egress_allow: tuple[str, ...]
    secret_keys: KeySource
    smtp: SmtpServer | None
    """None: mails are not sent."""
    pages: PagesSettings
    exposure: Exposure
    rate_limit: int
    """Requests of one key in a minute; 0: no limit."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        fd = environ.get("REWIND_LISTEN_FD", "")
        plane = DataPlaneSettings.from_env(environ)
        keys = secret_keys(environ)
        if isinstance(keys, KeyFile) and keys.path.absolute() == plane.data_key_file.absolute():
            raise SettingsError(
                "REWIND_SECRET_KEY_FILE and REWIND_DATA_KEY_FILE name the same file: workers hold the data key, "
                "and must not be able to open secrets. Write a second key with `openssl rand -base64 32`."
            )
        host = environ.get("REWIND_HOST") or "127.0.0.1"
        public_url = _public_url(environ)
        _require_tls(host, environ)
        smtp_url = environ.get("REWIND_SMTP_URL", "")
        smtp = SmtpServer.from_url(smtp_url, environ.get("REWIND_MAIL_FROM", "")) if smtp_url else None
        return cls(
            plane=plane,
            database_role=environ.get("REWIND_DATABASE_ROLE") or "rewind_api",
            host=host,
            port=port(environ),
            listen_fd=integer(environ, "REWIND_LISTEN_FD", default=0, low=3, high=65_535) if fd else None,
            egress_allow=tuple(
                part.strip() for part in environ.get("REWIND_EGRESS_ALLOW", "").split(",") if part.strip()
            ),
            secret_keys=keys,
            smtp=smtp,
            exposure=Exposure(
                public_url,
                _trusted_proxies(environ),
                security_contact=_contact(environ.get("REWIND_SECURITY_CONTACT", "")),
            ),
            pages=PagesSettings(
                public_url,
                mails_shown=smtp is None and flag(environ, "REWIND_DEV_MAILS"),
                provider=provider_of(environ),
            ),
            rate_limit=integer(environ, "REWIND_RATE_LIMIT", default=PER_MINUTE, low=0, high=10_000_000),
        )

    def listener(self) -> socket.socket:
        """Return the socket to serve on: the inherited one, else a new one."""
        if self.listen_fd is None:
            return listening_socket(self.host, self.port)
        try:
            return socket.socket(fileno=self.listen_fd)
        except OSError as error:
            raise SettingsError(f"REWIND_LISTEN_FD={self.listen_fd} is no open socket") from error


def secret_keys(environ: Mapping[str, str]) -> KeySource:
    """The one of REWIND_SECRET_KEY (itself), …_FILE and …_COMMAND that is set; else a file in the data folder, made at
    the first start.

    Errors: SettingsError.
    """
    given = [name for name in KEY_SETTINGS if environ.get(name)]
    if len(given) > 1:
        raise SettingsError(f"{' and '.join(given)} are both set: leave one out")
    if text := environ.get("REWIND_SECRET_KEY"):
        return KeyInEnvironment(text)
    if command := environ.get("REWIND_SECRET_KEY_COMMAND"):
        return KeyFromCommand(command)
    file = environ.get("REWIND_SECRET_KEY_FILE", "")
    return KeyFile(Path(file) if file else data_dir(environ) / KEY_FILE, make=not file)


def _require_tls(host: str, environ: Mapping[str, str]) -> None:
    """Keys and sessions are never sent in the clear: beyond this machine something in front must speak TLS."""
    behind_tls = environ.get("REWIND_PUBLIC_URL", "").startswith("https://") or flag(
        environ, "REWIND_BEHIND_TLS"
    )
    if host not in LOOPBACK and not behind_tls:
        raise SettingsError(
            f"REWIND_HOST={host} listens beyond this machine, where keys would be sent in the clear. Put a proxy "
            "that speaks TLS in front and set REWIND_PUBLIC_URL=https://…, or REWIND_BEHIND_TLS=1 where only such "
            "a proxy can reach this port."
        )


def _trusted_proxies(environ: Mapping[str, str]) -> tuple[Network, ...]:
    found = []
    for part in environ.get("REWIND_TRUSTED_PROXIES", "").split(","):
        if not part.strip():
            continue
        try:
            found.append(ipaddress.ip_network(part.strip()))
        except ValueError as error:
            raise SettingsError(
                f"REWIND_TRUSTED_PROXIES must be networks such as 10.0.0.0/8: {error}"
            ) from error
    return tuple(found)


def _contact(text: str) -> str:
    if text and (not text.startswith(("mailto:", "https://")) or not text.isprintable() or " " in text):
        raise SettingsError("REWIND_SECURITY_CONTACT must begin with mailto: or https://")
    return text


def _public_url(environ: Mapping[str, str]) -> str:
    """Where people reach the pages: what links in mails begin with."""
    url = environ.get("REWIND_PUBLIC_URL", "").rstrip("/")
    if not url:
        return f"http://127.0.0.1:{port(environ)}"
    parts = urlsplit(url)
    loopback = parts.hostname in LOOPBACK
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path or parts.query:
        raise SettingsError("REWIND_PUBLIC_URL must be an origin such as https://rewind.example.com")
    if parts.scheme == "http" and not loopback:
        raise SettingsError("REWIND_PUBLIC_URL must begin with https://: sign-ins are not sent in the clear")
    return url


def provider_of(environ: Mapping[str, str]) -> Provider | None:
    """The OpenID provider of the whole deployment, if one is set. Errors: SettingsError."""
    url = environ.get("REWIND_OIDC_URL", "")
    if not url:
        return None
    try:
        issuer = checked_issuer(url, insecure=LOOPBACK.__contains__)
    except ApiError as error:
        raise SettingsError(f"REWIND_OIDC_URL={url}: {error}") from error
    client_id = environ.get("REWIND_OIDC_CLIENT_ID", "")
    if not client_id:
        raise SettingsError("REWIND_OIDC_CLIENT_ID must name this deployment, as its provider knows it")
    file = environ.get("REWIND_OIDC_CLIENT_SECRET_FILE", "")
    try:
        secret = Path(file).read_text(encoding="utf-8").strip() if file else None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"REWIND_OIDC_CLIENT_SECRET_FILE: {file} cannot be read") from error
    name = environ.get("REWIND_OIDC_NAME", "") or str(urlsplit(issuer).hostname)
    return Provider(DEPLOYMENT, name, issuer, client_id, secret or None)
