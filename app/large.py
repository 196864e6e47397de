"""Work that grows with a large body, done beside the event loop.

Reading and writing 16 MiB of JSON takes up to seconds. On the loop, one tenant's body would hold up everybody's
requests for as long; in a thread the interpreter changes between both every few milliseconds. There is one thread,
so that many large bodies wait for each other and not the small ones for them; customers take turns at it.
"""

import gc
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, TypeVar

from sandbox.compiler.fair_threads import FairThreads

LARGE_BYTES = 32 * 1024
"""From here on the work takes longer than the way to a thread and back, some tenths of a millisecond."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_body_bytes: ContextVar[int] = ContextVar("body_bytes", default=0)
_thread = FairThreads(1, "large-bodies")


def note_body(size: int) -> None:
    """Say how many bytes the body of the request at hand has, or the answer of the tool that is called."""
    _body_bytes.set(size)


def body_bytes() -> int:
    return _body_bytes.get()


async def beside_loop(
    work: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """Call `work`: in the thread when the request at hand has a large body, the call a large answer."""
    if _body_bytes.get() < LARGE_BYTES:
        return work(*args, **options)
    return await _thread.run(partial(_uncollected, partial(work, *args, **options)))


def _uncollected(work: Callable[[], Result]) -> Result:
    """Without the cycle collector, which would walk through millions of new lists again and again, all threads halted."""
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()
