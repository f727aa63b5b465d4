"""Where the work on lines can be cancelled: between its pieces."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Checkpoint = Callable[[], None]  # is called between pieces of work; what it raises ends the work
T = TypeVar("T")


def never() -> None:
    """Cancels nothing."""


def checked(items: Iterable[T], checkpoint: Checkpoint) -> Iterator[T]:
    """Yields the items, and calls the checkpoint before each."""
    for item in items:
        checkpoint()
        yield item
