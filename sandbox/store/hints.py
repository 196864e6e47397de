"""Hints between processes of one host: who should look, never what is true.

A hint travels by Unix datagrams, lost without harm: whoever waits looks again after at most POLL_MAX_S. Every
process binds `<role>-<id>.sock` in one folder; sending to a role goes to all its sockets.

Linux queues only ten datagrams for a receiver (net.unix.max_dgram_qlen), so what one turn of the event loop has
to say to an address goes in one datagram, a JSON array, and waits a little when the receiver is behind.
"""

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

logger = logging.getLogger(__name__)

POLL_MAX_S = 1.0
DATAGRAM_MAX = 64 * 1024
BUFFER_BYTES = 4 * 1024 * 1024
PEERS_FRESH_S = 0.5
LAZY_S = 0.003
"""How long a lazy hint waits for another one to travel with."""
RETRY_S = 0.001
"""Pause before a datagram is sent again for which the receiver had no room."""
QUEUE_MAX = 10_000
"""Hints that wait for one receiver; the others are dropped, it looks by itself."""

Message = dict[str, Any]


class HintBus:
    """`on_message` gets every hint; it must not block. `k` names the kind of a message."""

    def __init__(self, folder: Path, role: str, *, name: str | None = None) -> None:
        self._folder = folder
        self._folder_text = str(folder)
        self.address = f"{role}-{name or secrets.token_hex(6)}.sock"
        self._socket: socket.socket | None = None
        self._handlers: list[Callable[[Message], None]] = []
        self._outgoing: dict[str, deque[bytes]] = {}
        self._flush_at: asyncio.Handle | None = None
        self._lazy_at: asyncio.Handle | None = None
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
            self._flush()
            if self._flush_at is not None:  # a receiver without room is given up
                self._flush_at.cancel()
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
            with contextlib.suppress(FileNotFoundError):
                (self._folder / self.address).unlink()

    def on_message(self, handler: Callable[[Message], None]) -> None:
        self._handlers.append(handler)

    def send(self, role: str, message: Message, *, lazy: bool = False) -> None:
        """To every process of the role; lazily: with the next hint there, or a little later alone."""
        data = orjson.dumps(message)
        for address in self._addresses(role):
            self._put(address, data, lazy=lazy)

    def send_to(self, address: str, message: Message) -> None:
        self._put(address, orjson.dumps(message), lazy=False)

    def _put(self, address: str, data: bytes, *, lazy: bool) -> None:
        if self._socket is None or len(data) + 2 > DATAGRAM_MAX:
            return
        if address == self.address:
            asyncio.get_running_loop().call_soon(self._handle, orjson.loads(data))
            return
        queue = self._outgoing.setdefault(address, deque())
        if len(queue) >= QUEUE_MAX:
            logger.debug("a hint to %s is dropped: too many wait for it", address)
            return
        queue.append(data)
        if self._flush_at is None:
            loop = asyncio.get_running_loop()
            if not lazy:
                self._flush_at = loop.call_soon(self._flush)
            elif self._lazy_at is None:
                self._lazy_at = loop.call_later(LAZY_S, self._flush)

    def _flush(self) -> None:
        self._flush_at = None
        if self._lazy_at is not None:
            self._lazy_at.cancel()
            self._lazy_at = None
        behind = {}
        for address, queue in self._outgoing.items():
            while queue:
                count, size = 0, 1
                while count < len(queue) and size + len(queue[count]) + 1 <= DATAGRAM_MAX:
                    size += len(queue[count]) + 1
                    count += 1
                datagram = b"[" + b",".join(islice(queue, count)) + b"]"
                if not self._send(address, datagram):
                    behind[address] = queue
                    break
                for _ in range(count):
                    queue.popleft()
        self._outgoing = behind
        if behind:
            self._flush_at = asyncio.get_running_loop().call_later(RETRY_S, self._flush)

    def _send(self, address: str, datagram: bytes) -> bool:
        """False: the receiver has no room now."""
        if self._socket is None:
            return True
        try:
            self._socket.sendto(datagram, f"{self._folder_text}/{address}")
        except (ConnectionRefusedError, FileNotFoundError):
            # The process was killed and its socket file is left: nobody binds that name again.
            with contextlib.suppress(FileNotFoundError):
                (self._folder / address).unlink()
            self._peers_at.clear()
        except BlockingIOError:
            return False
        return True

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
                messages = orjson.loads(data)
            except orjson.JSONDecodeError:
                logger.warning("a hint that is no JSON is ignored")
                continue
            for message in messages:
                self._handle(message)

    def _handle(self, message: Message) -> None:
        for handler in self._handlers:
            handler(message)
