"""The command `rewind`, run in an empty folder; what it answers, and the fake API that it talks to."""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from rewind import cli

from tests.sdk_python.fake_api import FakeApi


@dataclass
class Result:
    code: int
    out: str
    err: str


Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run one command in an empty folder, without the environment of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("REWIND_URL", "REWIND_API_KEY", "REWIND_TOKEN", "REWIND_DATA", "REWIND_LOG"):
        monkeypatch.delenv(name, raising=False)

    async def call(*arguments: str, stdin: str = "") -> Result:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))

        def main() -> int:
            try:
                return cli.main(arguments)
            except SystemExit as error:
                return int(error.code or 0)

        code = await asyncio.to_thread(main)
        return Result(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def server(api: FakeApi, monkeypatch: pytest.MonkeyPatch, run: Run) -> FakeApi:
    """The environment names the fake API; `run` first, since it clears the environment."""
    monkeypatch.setenv("REWIND_URL", api.url)
    monkeypatch.setenv("REWIND_API_KEY", "rwk_test_0123456789")
    return api
