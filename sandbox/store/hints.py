"""Hints between processes of one host: who should look, never what is true.

A hint is one datagram on a Unix socket, lost without harm: whoever waits looks again after at most
POLL_MAX_S. Every process binds `<role>-<id>.sock` in one folder; sending to a role goes to all its sockets.
"""

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

logger = logging.getLogger(__name__)

POLL_MAX_S = 1.0
DATAGRAM_MAX = 64 * 1024
BUFFER_BYTES = 4 * 1024 * 1024
PEERS_FRESH_S = 0.5

Message = dict[str, Any]


class HintBus:
    """`on_message` gets every hint; it must not block. `k` names the kind of a message."""

    def __init__(self, folder: Path, role: str, *, name: str | None = None) -> None:
        self._folder = folder
        self.address = f"{role}-{name or secrets.token_hex(6)}.sock"
        self._socket: socket.socket | None = None
        self._handlers: list[Callable[[Message], None]] = []
        self._peers: dict[str, list[str]] = {}
        self._peers_at: dict[str, float] = {}

    def start(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / self.address
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            receiver.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        receiver.bind(str(path))
        self._socket = receiver
        asyncio.get_running_loop().add_reader(receiver.fileno(), self._receive)

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
            with contextlib.suppress(FileNotFoundError):
                (self._folder / self.address).unlink()

    def on_message(self, handler: Callable[[Message], None]) -> None:
        self._handlers.append(handler)

    def send(self, role: str, message: Message) -> None:
        """To every process of the role."""
        data = orjson.dumps(message)
        for address in self._addresses(role):
            self._send(address, data)

    def send_to(self, address: str, message: Message) -> None:
        self._send(address, orjson.dumps(message))

    def _send(self, address: str, data: bytes) -> None:
        if self._socket is None or len(data) > DATAGRAM_MAX:
            return
        try:
            self._socket.sendto(data, str(self._folder / address))
        except (ConnectionRefusedError, FileNotFoundError):
            # The process was killed and its socket file is left: nobody binds that name again.
            with contextlib.suppress(FileNotFoundError):
                (self._folder / address).unlink()
            self._peers_at.clear()
        except BlockingIOError:
            logger.debug("a hint to %s is dropped: its queue is full", address)

    def _addresses(self, role: str) -> list[str]:
        now = time.monotonic()
        if now - self._peers_at.get(role, -PEERS_FRESH_S) >= PEERS_FRESH_S:
            try:
                names = [path.name for path in self._folder.iterdir()]
            except FileNotFoundError:
                names = []
            self._peers[role] = [name for name in names if name.startswith(role + "-")]
            self._peers_at[role] = now
        return self._peers[role]

    def _receive(self) -> None:
        while self._socket is not None:
            try:
                data = self._socket.recv(DATAGRAM_MAX)
            except BlockingIOError:
                return
            try:
                message = orjson.loads(data)
            except orjson.JSONDecodeError:
                logger.warning("a hint that is no JSON is ignored")
                continue
            for handler in self._handlers:
                handler(message)
