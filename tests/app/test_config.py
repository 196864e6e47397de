"""Where the control plane listens, and what it takes over from its supervisor."""

import socket

import pytest

from app.config import Settings, listening_socket
from sandbox.config import SettingsError
from tests.sandbox.test_config import ENVIRONMENT


def test_defaults() -> None:
    settings = Settings.from_env(ENVIRONMENT)
    assert (settings.host, settings.port, settings.listen_fd) == ("127.0.0.1", 8484, None)
    assert settings.database_role == "rewind_api"
    assert settings.egress_allow == ()


def test_lists_are_split_and_trimmed() -> None:
    settings = Settings.from_env({**ENVIRONMENT, "REWIND_EGRESS_ALLOW": "127.0.0.0/8, ::1 ,"})
    assert settings.egress_allow == ("127.0.0.0/8", "::1")


def test_inherited_socket_is_used() -> None:
    with listening_socket("127.0.0.1", 0) as parent:
        settings = Settings.from_env({**ENVIRONMENT, "REWIND_LISTEN_FD": str(parent.fileno())})
        inherited = settings.listener()
        try:
            assert inherited.getsockname() == parent.getsockname()
        finally:
            inherited.detach()


def test_descriptor_that_is_no_socket_is_refused(tmp_path) -> None:
    with (tmp_path / "file").open("w") as file:
        settings = Settings.from_env({**ENVIRONMENT, "REWIND_LISTEN_FD": str(file.fileno())})
        with pytest.raises(SettingsError, match="REWIND_LISTEN_FD"):
            settings.listener()


def test_taken_port_is_refused() -> None:
    with listening_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1:{port}"):
            listening_socket("127.0.0.1", port)


def test_wrong_port_is_named() -> None:
    with pytest.raises(SettingsError, match="REWIND_PORT must be a whole number from 0 to 65535"):
        Settings.from_env({**ENVIRONMENT, "REWIND_PORT": "70000"})


def test_listening_socket_is_ipv4_or_ipv6() -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        assert listener.family == socket.AF_INET
