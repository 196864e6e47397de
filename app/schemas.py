"""What all bodies of `/v1` share: unknown fields are refused and nothing is coerced."""

import re
from functools import cache
from types import NoneType
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

LABELS_MAX = 32
LABEL_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
LABEL_CHARS_MAX = 256


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty_fields(cls, given: Any) -> Any:
        """A null in an optional field that takes none is the same as no field: many clients send all their fields."""
        if not isinstance(given, dict) or all(value is not None for value in given.values()):
            return given
        absent = _absent_when_null(cls)
        return {name: value for name, value in given.items() if value is not None or name not in absent}


@cache
def _absent_when_null(body: type[Body]) -> frozenset[str]:
    return frozenset(
        field.alias or name
        for name, field in body.model_fields.items()
        if not field.is_required()
        and field.annotation is not Any
        and NoneType not in get_args(field.annotation)
    )


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
