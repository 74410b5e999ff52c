"""What changed of late, so that who keeps something about all jobs need not look at all of them.

Bounded: who is too far behind looks at everything instead, which costs no more than what changed.
"""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

ENTRIES_MAX: Final = 1 << 18
"""Most changes that are kept; the older half goes first."""

T = TypeVar("T")


class Journal(Generic[T]):
    """What changed, in the order in which it did; the same may be there many times."""

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._first = 0

    @property
    def end(self) -> int:
        """The place of the next change."""
        return self._first + len(self._entries)

    def add(self, entry: T) -> None:
        """This changed."""
        self.extend((entry,))

    def extend(self, entries: Iterable[T]) -> None:
        """All of this changed."""
        self._entries.extend(entries)
        if len(self._entries) > ENTRIES_MAX:
            dropped = len(self._entries) - ENTRIES_MAX // 2
            del self._entries[:dropped]
            self._first += dropped

    def since(self, place: int) -> list[T] | None:
        """What changed since then; None if that is not known any more."""
        return None if place < self._first else self._entries[place - self._first :]
