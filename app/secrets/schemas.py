"""Bodies and answers of `/v1/secrets`."""

from pydantic import Field

from app.schemas import Answer, Body
from tenancy.secrets import VALUE_BYTES_MAX


class SecretBody(Body):
    value: str = Field(
        min_length=1, max_length=VALUE_BYTES_MAX, description="Shown to nobody after this.", repr=False
    )
    namespace: str | None = Field(
        default=None, description="Whose secret it is; absent: the organization's, for all its namespaces."
    )


class SecretView(Answer):
    name: str
    namespace: str | None
    created_at: str
    updated_at: str


class SecretPage(Answer):
    data: list[SecretView]
    next: str | None
