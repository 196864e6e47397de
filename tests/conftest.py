"""Fixtures for all tests, and no way out of this machine."""

import json
import socket

import pytest

from tests.simulation.figures import shown

pytest_plugins = ["tests.fixtures.blobs", "tests.fixtures.database", "tests.fixtures.processes"]


@pytest.fixture(autouse=True, scope="session")
def _closed_sockets() -> object:
    """Tests reach Unix sockets and this machine only: a test that needs the internet fails at once."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else None
        if host is not None and host not in {"localhost", "::1"} and not str(host).startswith("127."):
            raise ConnectionRefusedError(f"tests may not connect to {host}")
        real(self, address)  # type: ignore[arg-type]

    patch = pytest.MonkeyPatch()
    patch.setattr(socket.socket, "connect", connect)
    yield
    patch.undo()


LONG = ("/e2e/", "/chaos/", "/simulation/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of whole processes first: a long one that is begun last would run beside idle cores."""
    items.sort(key=lambda item: not any(part in item.path.as_posix() for part in LONG))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have measured, whoever ran them."""
    reports = [report for report in terminalreporter.stats.get("passed", ()) if report.when == "call"]
    given = [pair for report in reports for pair in report.user_properties]
    printed = [str(text) for name, text in given if name == "printed"]
    simulated = [json.loads(text) for name, text in given if name == "simulated"]
    if simulated:
        printed.append(shown(simulated))
    for text in printed:
        terminalreporter.write_line("")
        for line in text.splitlines():
            terminalreporter.write_line(line)
