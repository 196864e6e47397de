"""Durations in the bodies of requests."""

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from sandbox.journal.durations import duration_ms

__all__ = ["DurationMs", "duration_ms"]

DurationMs = Annotated[
    int,
    BeforeValidator(duration_ms),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
            "description": "Milliseconds, or text: 250ms, 30s, 5m, 2h, 10d, 1w, sums like 1h 30m, PT90S.",
            "examples": ["30s"],
        }
    ),
]
