"""Lists that fetch their next page when the caller gets there."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from rewind._types import Page

T = TypeVar("T")


class AsyncPager(Generic[T]):
    """All items, page after page: iterate over it, or take one page with `page()`."""

    def __init__(self, fetch: Callable[[str | None], Awaitable[Page[T]]], after: str | None) -> None:
        self._fetch = fetch
        self._after = after

    async def page(self) -> Page[T]:
        """The first page; its `next` is the `after` of the following one, None at the end."""
        return await self._fetch(self._after)

    async def __aiter__(self) -> AsyncIterator[T]:
        after = self._after
        while True:
            page = await self._fetch(after)
            for item in page.data:
                yield item
            if page.next is None:
                return
            after = page.next
