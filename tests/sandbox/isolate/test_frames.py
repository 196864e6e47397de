"""Frames: a header and a body, in pieces of any size, from either side."""

import asyncio
import socket

import pytest

from sandbox.isolate.frames import FRAME_BYTES_MAX, Frame, FrameError, read_frame, receive_frame


@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 3_000])
async def test_both_readers_give_back_what_was_sent(body: bytes) -> None:
    frame = Frame({"op": "deliver", "id": 7, "é": None}, body)
    reader = asyncio.StreamReader()
    for start in range(0, len(frame.encode()), 1_000):
        reader.feed_data(frame.encode()[start : start + 1_000])
    assert await read_frame(reader) == frame
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sending = asyncio.get_running_loop().run_in_executor(None, ours.sendall, frame.encode())
        assert await asyncio.to_thread(receive_frame, theirs) == frame
        await sending


def test_the_end_of_the_other_side_is_no_frame() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(Frame({"op": "x"}, b"abc").encode()[:-1])
        ours.close()
        assert receive_frame(theirs) is None
        assert receive_frame(theirs) is None


def test_lengths_beyond_any_delivery_are_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall((FRAME_BYTES_MAX).to_bytes(4, "big") * 2)
        with pytest.raises(FrameError):
            receive_frame(theirs)
