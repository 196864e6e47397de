"""What all bodies of `/v1` share: unknown fields are refused and nothing is coerced."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

LABELS_MAX = 32
LABEL_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
LABEL_CHARS_MAX = 256


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class NamespacedBody(Body):
    """Of a call that acts in one namespace: an API key names it here or as `?namespace=`."""

    namespace: str | None = Field(default=None, description="Which namespace, where the query names none.")


class Answer(BaseModel):
    """Documents an answer; answers are written directly, not through these."""

    model_config = ConfigDict(extra="forbid")


def checked_labels(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > LABELS_MAX:
        raise ValueError(f"At most {LABELS_MAX} labels.")
    for key, value in labels.items():
        if LABEL_KEY.fullmatch(key) is None:
            raise ValueError(f"The key {key[:70]!r} must be 1 to 64 letters, digits and _ . -")
        if len(value) > LABEL_CHARS_MAX or "\0" in value:
            raise ValueError(
                f"The value of {key!r} must be at most {LABEL_CHARS_MAX} characters, without U+0000."
            )
    return labels


def without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("The character U+0000 is not allowed here.")
    return text


Labels = Annotated[dict[str, str], AfterValidator(checked_labels)]
Text = Annotated[str, AfterValidator(without_nul)]
"""Text that is stored as such, not inside a value."""
