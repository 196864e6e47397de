"""Bundle what runs inside the sandbox: `python -m sandbox.epochs.build`, part of `make setup`.

Node and npm are needed here and nowhere else. The bundles are not committed; their digests are, in each
epoch's manifest.json: a build that gives other bytes is refused, because replays depend on every one of them.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from infra.node import node_path, npm_ci
from infra.processes import InfraError

ROOT = Path(__file__).resolve().parents[2]
EPOCHS = Path(__file__).resolve().parent
LOCK = ROOT / "package-lock.json"
INPUTS_FILE = "inputs.sha256"


class BuildError(Exception):
    """The bundles cannot be made; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """One file of `built/`: its entry in the epoch's folder, and what the bundle's value is."""

    name: str
    entry: str
    value: str = "module.exports"
    external: tuple[str, ...] = ()
    """Modules that the bundle only asks for under Node, which it never runs in."""
    head: str = ""
    """Source in front of the bundle, for names that its libraries expect and the sandbox lacks."""


_NO_SHARED_BUFFER = (
    "class SharedArrayBuffer{get byteLength(){throw new TypeError}get growable(){throw new TypeError}}"
)
_NODE_ONLY = ("crypto", "fs", "inspector", "os", "path", "perf_hooks", "source-map-support")

BUNDLES = {
    1: (
        Bundle("runtime.js", "src/main.js", value="module.exports.default"),
        Bundle("url.js", "src/url.js", head=_NO_SHARED_BUFFER),
        Bundle("encoding.js", "src/encoding.js", head=_NO_SHARED_BUFFER),
        Bundle("digest.js", "src/digest.js"),
        Bundle("stripper.js", "strip/main.js", value="module.exports.default", external=_NODE_ONLY),
    )
}
"""The order of the three libraries is that of their numbers in the prelude."""

DECLARATIONS = ("lib.d.ts", "rewind.d.ts")
"""For the checker: the globals (the language's, out of TypeScript's own files, and the web's); module "rewind"."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Bundle the epochs' sandbox sources.")
    parser.add_argument(
        "--write-manifest", action="store_true", help="record the digests of an unreleased epoch"
    )
    parser.add_argument("--force", action="store_true", help="build even when nothing changed")
    arguments = parser.parse_args()
    try:
        for epoch in BUNDLES:
            build(epoch, write_manifest=arguments.write_manifest, force=arguments.force)
    except BuildError as error:
        sys.exit(f"sandbox bundles: {error}")


def build(epoch: int, *, write_manifest: bool = False, force: bool = False) -> None:
    folder = EPOCHS / f"e{epoch}"
    built = folder / "built"
    inputs = _inputs_digest(folder)
    marker = built / INPUTS_FILE
    fresh = marker.exists() and marker.read_text() == inputs
    if fresh and not force and not write_manifest and not _mismatches(folder):
        return
    node = _node()
    _install()
    built.mkdir(exist_ok=True)
    for bundle in BUNDLES[epoch]:
        (built / bundle.name).write_bytes(_bundle(node, folder, bundle))
    (built / "lib.d.ts").write_bytes(_globals(node, folder / "lib"))
    (built / "rewind.d.ts").write_bytes((folder / "lib" / "rewind.d.ts").read_bytes())
    if write_manifest:
        _write_manifest(folder, epoch)
    elif wrong := _mismatches(folder):
        raise BuildError(
            f"epoch {epoch}: {', '.join(wrong)} differ from the digests in {folder.name}/manifest.json. "
            "A released epoch never changes; while it is unreleased, run with --write-manifest."
        )
    marker.write_text(inputs)


_ESBUILD = (
    "process.stdout.write(require('esbuild').buildSync(JSON.parse(process.argv[1])).outputFiles[0].contents)"
)


def _bundle(node: str, folder: Path, bundle: Bundle) -> bytes:
    options = {
        "entryPoints": [str((folder / bundle.entry).relative_to(ROOT))],
        "bundle": True,
        "write": False,
        "format": "cjs",
        "target": "esnext",
        "platform": "neutral",
        "mainFields": ["module", "main"],
        "minifyWhitespace": True,
        "minifySyntax": True,
        "legalComments": "none",
        "charset": "ascii",
        "external": list(bundle.external),
    }
    done = subprocess.run(
        [node, "-e", _ESBUILD, json.dumps(options)], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").split("\n    at ")[0].strip()
        raise BuildError(f"esbuild could not bundle {bundle.entry}: {message[-2_000:]}")
    head = f'(function(){{"use strict";{bundle.head}var module={{exports:{{}}}},exports=module.exports;\n'.encode()
    tail = f"\nreturn {bundle.value}}})()\n//# sourceURL=rewind:{bundle.name}\n".encode()
    return head + done.stdout.strip() + tail


def _globals(node: str, lib: Path) -> bytes:
    command = [node, str(lib / "language.cjs"), str(lib / "web.d.ts")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"the declarations cannot be made: {done.stderr.decode(errors='replace')[-2_000:]}")
    return done.stdout


def _node() -> str:
    """Node of the machine, else of the PyPI wheel."""
    try:
        return str(node_path())
    except InfraError as error:
        raise BuildError(str(error)) from error


def _install() -> None:
    installed = ROOT / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= LOCK.stat().st_mtime:
        return
    if npm_ci(ROOT) != 0:
        raise BuildError("`npm ci` failed (its message is above)")
    installed.touch()


def _inputs_digest(folder: Path) -> str:
    digest = hashlib.sha256(LOCK.read_bytes())
    digest.update(Path(__file__).read_bytes())
    for path in sorted([*folder.glob("src/*.js"), *folder.glob("strip/*.js"), *folder.glob("lib/*")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def file_digests(folder: Path) -> dict[str, str]:
    built = folder / "built"
    paths = sorted([*built.glob("*.js"), *built.glob("*.d.ts")])
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def _mismatches(folder: Path) -> list[str]:
    expected = json.loads((folder / "manifest.json").read_text())["files"]
    actual = file_digests(folder)
    return sorted(name for name in expected | actual if expected.get(name) != actual.get(name))


def _write_manifest(folder: Path, epoch: int) -> None:
    path = folder / "manifest.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    manifest = {"epoch": epoch, "engine": known.get("engine", {}), "files": file_digests(folder)}
    path.write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
