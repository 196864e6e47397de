# Written by sdk_python/make_sync.py from rewind/_async/pager.py; change that file.
# ruff: noqa: I001
# fmt: off
"""Lists that fetch their next page when the caller gets there."""

from collections.abc import Iterator, Callable
from typing import Generic, TypeVar

from rewind._types import Page

T = TypeVar("T")


class Pager(Generic[T]):
    """All items, page after page: iterate over it, or take one page with `page()`."""

    def __init__(self, fetch: Callable[[str | None], Page[T]], after: str | None) -> None:
        self._fetch = fetch
        self._after = after

    def page(self) -> Page[T]:
        """The first page; its `next` is the `after` of the following one, None at the end."""
        return self._fetch(self._after)

    def __iter__(self) -> Iterator[T]:
        after = self._after
        while True:
            page = self._fetch(after)
            yield from page.data
            if page.next is None:
                return
            after = page.next
