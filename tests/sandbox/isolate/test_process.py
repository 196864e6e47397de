"""Starting a sandbox process."""

import asyncio
import subprocess
from typing import Any

import pytest

from sandbox.epochs.registry import FOLDER
from sandbox.isolate.pool import COMPILER_CHILD
from sandbox.isolate.process import start_child


async def test_a_start_that_is_given_up_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noting(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noting)
    starting = asyncio.create_task(start_child(COMPILER_CHILD, ("1", str(FOLDER)), require_confinement=False))
    for _ in range(5):
        await asyncio.sleep(0)
    assert started, "it is on its way, and waited for"
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert started[0].poll() is not None, "killed and reaped"
