"""The determinism epochs that this build serves: what runs inside their sandboxes, checked against a manifest.

A released epoch never changes by a byte: recorded runs are replayed with exactly these files and this engine.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from sandbox.journal.errors import RewindFault
from sandbox.journal.ids import Epoch

FOLDER = Path(__file__).resolve().parent
CURRENT = Epoch(1)
LIBRARIES = ("url.js", "encoding.js", "digest.js")
"""In the order of their numbers in the prelude."""


class EpochFault(RewindFault):
    """An epoch cannot be served here as it was recorded; the message says what to do."""

    code = "epoch_unavailable"


@dataclass(frozen=True, slots=True)
class EpochFiles:
    """Sources for the engine, and the engine that they were made for."""

    epoch: Epoch
    runtime: str
    libraries: tuple[bytes, ...]
    stripper: str
    lib: str
    """Declarations of every global that a script finds; the checker reads no other lib."""
    rewind: str
    """Declarations of module "rewind"."""
    flags: tuple[str, ...]
    engine: str
    v8: str


@cache
def epoch_files(epoch: int, folder: Path = FOLDER) -> EpochFiles:
    """Read and check an epoch's files. Errors: EpochFault."""
    home = folder / f"e{epoch}"
    if not (home / "manifest.json").exists():
        raise EpochFault(f"this build does not serve epoch {epoch}")
    manifest = json.loads((home / "manifest.json").read_text())
    contents: dict[str, bytes] = {}
    for name, digest in manifest["files"].items():
        path = home / "built" / name
        if not path.exists():
            raise EpochFault(f"epoch {epoch}: {name} is not built: run `make setup`")
        contents[name] = path.read_bytes()
        if hashlib.sha256(contents[name]).hexdigest() != digest:
            raise EpochFault(f"epoch {epoch}: {name} differs from its manifest: run `make setup`")
    engine = manifest["engine"]
    return EpochFiles(
        epoch=Epoch(epoch),
        runtime=contents["runtime.js"].decode(),
        libraries=tuple(contents[name] for name in LIBRARIES),
        stripper=contents["stripper.js"].decode(),
        lib=contents["lib.d.ts"].decode(),
        rewind=contents["rewind.d.ts"].decode(),
        flags=tuple(engine["flags"]),
        engine=engine["mini_racer"],
        v8=engine["v8"],
    )


def served_epochs(folder: Path = FOLDER) -> tuple[Epoch, ...]:
    return tuple(Epoch(int(path.parent.name[1:])) for path in sorted(folder.glob("e*/manifest.json")))


def check_engine(files: EpochFiles) -> None:
    """The wheel is part of the epoch. Errors: EpochFault."""
    installed = metadata.version("mini-racer")
    if installed != files.engine:
        raise EpochFault(
            f"epoch {files.epoch} needs mini-racer {files.engine}, installed is {installed}: "
            "install the versions of requirements.lock"
        )
