"""Find Chromium for the browser tests: the machine's own, else Debian's package, else Playwright's build."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from infra.processes import InfraError

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300")
INSTALL_TIMEOUT_S = 900


def chromium_path() -> Path | None:
    """A Chromium of this machine, or the one that Playwright installed."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    return _of_playwright()


def ensure_chromium() -> Path:
    """Errors: InfraError saying what to install by hand."""
    found = chromium_path()
    for install in (_with_apt, _with_playwright):
        if found is None and install():
            found = chromium_path()
    if found is None:
        raise InfraError("there is no Chromium for the browser tests: install your system's package chromium")
    return found


def _of_playwright() -> Path | None:
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    builds = sorted(cache.glob("chromium-*/chrome-linux*/chrome")) + sorted(
        cache.glob("chromium-*/chrome-mac*/*.app/Contents/MacOS/Chromium")
    )
    return builds[-1] if builds else None


def _with_apt() -> bool:
    """As root on Debian and its kin."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    print("installing chromium for the browser tests (apt-get)", file=sys.stderr)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    commands: tuple[tuple[str, ...], ...] = (
        (*APT, "update", "-qq"),
        (*APT, "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"),
    )
    return all(_done(partial(_run, command, environment)) for command in commands)


def _with_playwright() -> bool:
    print("installing chromium for the browser tests (playwright)", file=sys.stderr)
    command = (sys.executable, "-m", "playwright", "install", "chromium")
    return _done(partial(_run, command, dict(os.environ)))


def _run(command: tuple[str, ...], environment: dict[str, str]) -> int:
    return subprocess.run(
        command, env=environment, stdout=sys.stderr, check=False, timeout=INSTALL_TIMEOUT_S
    ).returncode


def _done(work: Callable[[], int]) -> bool:
    try:
        return work() == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"that failed: {error}", file=sys.stderr)
        return False


if __name__ == "__main__":
    try:
        ensure_chromium()
    except InfraError as error:
        sys.exit(str(error))
