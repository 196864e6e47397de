"""What an organization's keys, usage, audit log and quotas look like."""

from dataclasses import dataclass, field
from typing import Any

from rewind._types import Answer


@dataclass(kw_only=True)
class Key(Answer):
    """An API key; `key`, the secret, is given once: when it is made, and when it is rotated."""

    id: str
    key: str | None = field(default=None, repr=False)
    prefix: str | None = None
    name: str = ""
    scopes: list[str] = field(default_factory=list)
    allow_ips: list[str] = field(default_factory=list)
    expires_at: str | None = None
    created_at: str | None = None
    last_used_at: str | None = None
    previous_until: str | None = None
    """Until then the secret before the last rotation works too."""


@dataclass(kw_only=True)
class DayUsage(Answer):
    """What one namespace used on one day of UTC."""

    date: str
    namespace: str
    runs: int = 0
    cpu_ms: float = 0
    calls: int = 0
    storage_bytes: int = 0


@dataclass(kw_only=True)
class AuditEntry(Answer):
    """Who did what: `action` such as `key.create`, `target` such as `run:0198…`."""

    id: str
    at: str
    actor: dict[str, str] = field(default_factory=dict)
    action: str
    target: str
    ip: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


@dataclass(kw_only=True)
class Quota(Answer):
    """One limit of a namespace; `limit` None: there is none. `source`: `plan` or `namespace`."""

    limit: int | None = None
    used: int | None = None
    source: str = "plan"
