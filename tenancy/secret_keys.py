"""Where the deployment's secret key comes from: a file, the environment, or a command that asks the KMS.

The key wraps nothing but what customers leave with us; whoever holds it opens that, so workers never get it.
"""

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sandbox.config import SettingsError
from tenancy.secrets import SecretBox

COMMAND_TIMEOUT_S = 60
SAID_CHARS_MAX = 300


class KeySource(Protocol):
    """Asked once, when a process starts; only a file is followed while processes run."""

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


@dataclass(frozen=True, slots=True)
class KeyFromCommand:
    """What a KMS unwraps: a command prints the keys, as a file would hold them. It is run without a shell."""

    command: str

    def keys(self) -> Sequence[bytes]:
        setting = "REWIND_SECRET_KEY_COMMAND"
        try:
            done = subprocess.run(
                shlex.split(self.command),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SettingsError(f"{setting} gave no key within {COMMAND_TIMEOUT_S} s") from None
        except (OSError, ValueError, IndexError) as error:
            raise SettingsError(f"{setting} cannot be run: {error}") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()[-SAID_CHARS_MAX:]
            raise SettingsError(f"{setting} ended with {done.returncode}: {said}")
        return SecretBox.keys_in_text(done.stdout.decode(errors="replace"), f"what {setting} prints")


def secret_box(source: KeySource) -> SecretBox:
    """Errors: SettingsError."""
    if isinstance(source, KeyFile):
        return SecretBox.from_file(source.path, make=source.make)
    return SecretBox(*source.keys())
