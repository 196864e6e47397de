"""The port and the socket to serve on, apart from the other settings: the supervisor needs no more of them."""

import os
import socket
from collections.abc import Mapping

from sandbox.config import SettingsError, integer

DEFAULT_PORT = 8484


def port(environ: Mapping[str, str] = os.environ) -> int:
    return integer(environ, "REWIND_PORT", default=DEFAULT_PORT, low=0, high=65_535)


def listening_socket(host: str, port: int) -> socket.socket:
    """Bind a TCP socket that survives quick restarts; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener
