"""What a client is told by its arguments and by the environment, and how it logs without showing secrets."""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from rewind._errors import ConfigurationError
from rewind._retry import MAX_RETRIES
from rewind._transport import Address

LOCAL_URL = "http://127.0.0.1:8484"
"""Where `rewind dev` listens unless told otherwise."""
logger = logging.getLogger("rewind")
_SECRET = re.compile(r"\b(rwk|rwt|whsec)_[A-Za-z0-9_\-+/=]+")


def package_version() -> str:
    try:
        return version("rewind-sdk")
    except PackageNotFoundError:
        return "0"


@dataclass(frozen=True, kw_only=True)
class Config:
    """One client's settings. `secret` is an API key (`rwk_`) or a namespace token (`rwt_`)."""

    address: Address
    secret: str = field(repr=False)
    namespace: str | None = None
    timeout_s: float = 30.0
    max_retries: int = MAX_RETRIES
    user_agent: str = field(default_factory=lambda: f"rewind-python/{package_version()}")

    @classmethod
    def resolve(
        cls,
        *,
        api_key: str | None = None,
        token: str | None = None,
        base_url: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
        max_retries: int = MAX_RETRIES,
        environment: Mapping[str, str] = os.environ,
    ) -> "Config":
        """Arguments win over REWIND_API_KEY, REWIND_TOKEN and REWIND_URL."""
        if api_key and token:
            raise ConfigurationError("give api_key or token, not both")
        secret = api_key or token or environment.get("REWIND_API_KEY") or environment.get("REWIND_TOKEN")
        if not secret:
            raise ConfigurationError(
                "no credential: pass api_key= or token=, or set REWIND_API_KEY or REWIND_TOKEN "
                "(`rewind dev` writes a key to .rewind/dev.json)"
            )
        configure_logging(environment.get("REWIND_LOG"))
        return cls(
            address=Address.parse(base_url or environment.get("REWIND_URL") or LOCAL_URL),
            secret=secret.strip(),
            namespace=namespace,
            timeout_s=timeout,
            max_retries=max_retries,
        )


def mask_secrets(text: str) -> str:
    """Keys, tokens and webhook secrets cut to their first characters."""
    return _SECRET.sub(lambda match: f"{match.group(0)[:8]}…", text)


class MaskingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return mask_secrets(super().format(record))


def configure_logging(level: str | None) -> None:
    """Show this package's log on stderr when REWIND_LOG asks for it; once per process."""
    if not level or any(isinstance(handler.formatter, MaskingFormatter) for handler in logger.handlers):
        return
    handler = logging.StreamHandler()
    handler.setFormatter(MaskingFormatter("%(asctime)s %(levelname)-5s %(name)s  %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level.upper() if level.upper() in logging.getLevelNamesMapping() else logging.DEBUG)
