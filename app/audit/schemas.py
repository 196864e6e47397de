"""Shapes of `/v1/audit`."""

from typing import Any

from pydantic import Field

from app.schemas import Answer


class ActorView(Answer):
    kind: str = Field(description="key, token, member, operator, or system.")
    id: str


class AuditView(Answer):
    id: str
    at: str
    actor: ActorView
    action: str = Field(description="Such as `key.create`, `run.release`, `person.sign_in`.")
    target: str = Field(description="One thing, as `word:name`, such as `run:0198…`.")
    ip: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class AuditPage(Answer):
    data: list[AuditView]
    next: str | None
