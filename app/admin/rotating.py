"""A rotation goes on until nothing is left that a former key sealed: processes write while it works."""

from collections.abc import Awaitable, Callable

from sandbox.config import SettingsError
from sandbox.store.sealing import SealBroken

ROTATIONS_MAX = 10


async def until_none(rotate: Callable[[], Awaitable[int]]) -> int:
    """How much was sealed anew, over all passes. `rotate`: one pass, and how much that was. Errors: SettingsError."""
    total = 0
    for _ in range(ROTATIONS_MAX):
        try:
            count = await rotate()
        except SealBroken as error:
            raise SettingsError(f"nothing more can be rotated without the former key: {error}") from None
        total += count
        if not count:
            return total
    raise SettingsError(
        "something still seals with a former key: the new key must be first in the file of every process; "
        "then rotate again"
    )
