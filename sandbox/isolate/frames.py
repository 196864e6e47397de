"""Frames between a worker and its sandbox processes: two lengths, a small JSON header, a body of bytes.

Engine-neutral: nothing here knows what executes scripts.
"""

import asyncio
import struct
from dataclasses import dataclass
from socket import socket
from typing import Any

import orjson

_LENGTHS = struct.Struct(">II")
FRAME_BYTES_MAX = 256 * 1024 * 1024
"""A delivery of big values, with room; anything larger is a fault."""


class FrameError(Exception):
    """What came is no frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    header: dict[str, Any]
    body: bytes = b""

    def encode(self) -> bytes:
        header = orjson.dumps(self.header)
        return b"".join((_LENGTHS.pack(len(header), len(self.body)), header, self.body))


def _lengths(data: bytes) -> tuple[int, int]:
    header, body = _LENGTHS.unpack(data)
    if header + body > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {header + body} bytes")
    return header, body


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Errors: asyncio.IncompleteReadError when the other side is gone."""
    header, body = _lengths(await reader.readexactly(_LENGTHS.size))
    content = await reader.readexactly(header + body)
    return Frame(orjson.loads(content[:header]), content[header:])


def receive_frame(connection: socket) -> Frame | None:
    """Blocking; None when the other side is gone."""
    start = _receive_exactly(connection, _LENGTHS.size)
    if start is None:
        return None
    header, body = _lengths(start)
    content = _receive_exactly(connection, header + body)
    if content is None:
        return None
    return Frame(orjson.loads(content[:header]), content[header:])


def _receive_exactly(connection: socket, count: int) -> bytes | None:
    content = bytearray(count)
    view = memoryview(content)
    received = 0
    while received < count:
        n = connection.recv_into(view[received:])
        if n == 0:
            return None
        received += n
    return bytes(content)
