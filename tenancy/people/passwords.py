"""Passwords by NIST SP 800-63B: long enough, not easily guessed, nothing about their composition; kept as argon2id."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pwdlib import PasswordHash
from zxcvbn import zxcvbn

from sandbox.journal.errors import Unavailable

CHARS_MIN = 10
CHARS_MAX = 256
JUDGED_CHARS = 72
"""The estimate of how easily a password is guessed looks at so many; its cost grows with the square."""
SCORE_MIN = 2
"""Of 0 to 4: below, it is in lists of common passwords or a small variation of one, or of the person's own names."""
HASHES_AT_ONCE = 2
"""Each takes a quarter of a second of CPU and 64 MiB: more at a time would only make all of them wait."""
WAITING_MAX = 64

T = TypeVar("T")


def weakness(password: str, *, about: tuple[str, ...] = ()) -> str | None:
    """Why this password is not accepted, for the person; None: it is. `about`: words of the person's own."""
    if len(password) < CHARS_MIN:
        return f"A password has at least {CHARS_MIN} characters."
    if len(password) > CHARS_MAX:
        return f"A password has at most {CHARS_MAX} characters."
    judged = zxcvbn(
        password[:JUDGED_CHARS], user_inputs=[word for text in about for word in (text, *text.split("@"))]
    )
    if judged["score"] >= SCORE_MIN:
        return None
    hint = judged["feedback"]["warning"] or "It is easily guessed."
    return f"{hint.rstrip('.')}. Take a longer one: a few words that nobody would put together."


class Passwords:
    """Hashes in threads of its own, so that sign-ins never stop the event loop. One per process."""

    def __init__(self, hasher: PasswordHash | None = None) -> None:
        self._hash = hasher or PasswordHash.recommended()
        self._threads = ThreadPoolExecutor(HASHES_AT_ONCE, thread_name_prefix="passwords")
        self._waiting = 0
        self._decoy: str | None = None

    async def hash(self, password: str) -> str:
        return await self._run(self._hash.hash, password)

    async def verify(self, password: str, known: str | None) -> bool:
        """Whether this is the password. Without one (`known` None) it takes as long, and is false."""
        if len(password) > CHARS_MAX:
            return False
        if known is not None:
            return await self._run(self._hash.verify, password, known)
        if self._decoy is None:
            self._decoy = await self.hash("a password of nobody")
        await self._run(self._hash.verify, password, self._decoy)
        return False

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[..., T], *arguments: str) -> T:
        if self._waiting >= WAITING_MAX:
            raise Unavailable("too many people sign in at this moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        finally:
            self._waiting -= 1
