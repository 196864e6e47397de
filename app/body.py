"""Bodies of requests: strict JSON of limited size and depth, so that no body can be a server error."""

from starlette.requests import ClientDisconnect, Request

from app.errors import InvalidJson, TooLarge, UnsupportedMediaType, from_canonical
from app.large import beside_loop, note_body
from app.room import LARGE_BODY_BYTES, ROOM
from sandbox.journal.canonical import DEPTH_MAX, CanonicalError, parse_json
from sandbox.journal.ids import Json

BODY_BYTES_MAX = 1024 * 1024
"""Of a body that carries no values of scripts."""
VALUE_BYTES_MAX = 16 * 1024 * 1024
"""Of one value, as canonical text."""
VALUE_BODY_BYTES_MAX = 2 * VALUE_BYTES_MAX
"""Of a body with one value: a client may escape or indent what is shorter in canonical form."""
BATCH_BODY_BYTES_MAX = 4 * VALUE_BYTES_MAX
DEPTH_ROOM = 8
"""Levels that a body may add around the values that it carries."""


async def read_body(request: Request, limit: int) -> bytes:
    """Read the body; TooLarge as soon as it exceeds the limit, announced or not. Large ones wait for room."""
    announced = request.headers.get("content-length", "")
    expected = int(announced) if announced.isdecimal() else 0
    if expected > limit:
        raise _too_large(limit)
    if expected > LARGE_BODY_BYTES:
        await ROOM.take(expected)
    chunks = []
    size = 0
    try:
        async for chunk in request.stream():
            if size <= LARGE_BODY_BYTES < size + len(chunk) and not expected:
                await ROOM.take(limit)  # nobody has said how large it becomes
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
    except ClientDisconnect:
        raise InvalidJson("The connection was closed before the body was complete.") from None
    note_body(size)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def require_json(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        return
    given = f"not {media_type!r}" if media_type else "and say so"
    raise UnsupportedMediaType(f"Send the body as `Content-Type: application/json`, {given}.")


async def parse_body(raw: bytes) -> Json:
    """Read strict JSON; the depth limit of the values within is left to who takes them."""
    try:
        return await beside_loop(parse_json, raw, depth_max=DEPTH_MAX + DEPTH_ROOM)
    except CanonicalError as error:
        raise from_canonical(error) from None


async def read_json(request: Request, *, limit: int = BODY_BYTES_MAX) -> Json:
    """Read the body of a call that must have one."""
    raw = await read_body(request, limit)
    require_json(request)
    if not raw.strip():
        raise InvalidJson("This call needs a JSON body; it is empty.")
    return await parse_body(raw)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit:,} bytes.")
