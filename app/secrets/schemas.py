"""Bodies and answers of `/v1/secrets`."""

from pydantic import Field

from app.schemas import Answer, NamespacedBody
from tenancy.secrets import VALUE_BYTES_MAX


class SecretBody(NamespacedBody):
    """Without a namespace it is the organization's, for all its namespaces."""

    value: str = Field(
        min_length=1, max_length=VALUE_BYTES_MAX, description="Shown to nobody after this.", repr=False
    )


class SecretView(Answer):
    name: str
    namespace: str | None
    created_at: str
    updated_at: str


class SecretPage(Answer):
    data: list[SecretView]
    next: str | None
