"""Where the deployment's secret key comes from: a file, the environment, or what a deployment writes for its KMS.

The key wraps nothing but what customers leave with us; whoever holds it opens that, so workers never get it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tenancy.secrets import SecretBox


class KeySource(Protocol):
    """A KMS is one that unwraps a data key which it keeps wrapped; it is asked once, when a process starts."""

    def keys(self) -> Sequence[bytes]:
        """32 bytes each: the one in use, then those that it replaced. Errors: SettingsError."""
        ...


@dataclass(frozen=True, slots=True)
class KeyFile:
    """`make`: written at the first start where there is none."""

    path: Path
    make: bool = False

    def keys(self) -> Sequence[bytes]:
        return SecretBox.keys_in_file(self.path, make=self.make)


@dataclass(frozen=True, slots=True)
class KeyInEnvironment:
    text: str = field(repr=False)

    def keys(self) -> Sequence[bytes]:
        return SecretBox.keys_in_text(self.text, "REWIND_SECRET_KEY")


def secret_box(source: KeySource) -> SecretBox:
    """Errors: SettingsError."""
    return SecretBox(*source.keys())
