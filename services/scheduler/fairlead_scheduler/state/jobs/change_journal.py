"""Journals of the most recent changes, from which readers update what they derive from all jobs.

A journal is bounded. A reader whose place is no longer in it reads everything, which costs no more
than reading as many changes.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

ENTRIES_MAX: Final = 1 << 18
"""The most changes that a journal retains; the oldest are dropped first."""

FEW: Final = 16
"""Up to this many changes are compared one by one."""
MANY: Final = 1 << 14
"""From this many changes on, marking rows is faster than sorting them."""

T = TypeVar("T")
Rows = npt.NDArray[np.intp]


class Journal(Generic[T]):
    """What changed, in order; an entry can occur many times."""

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._first = 0

    @property
    def end(self) -> int:
        """The place of the next change."""
        return self._first + len(self._entries)

    def add(self, entry: T) -> None:
        """Record one change."""
        self.extend((entry,))

    def extend(self, entries: Iterable[T]) -> None:
        """Record these changes."""
        self._entries.extend(entries)
        if len(self._entries) > ENTRIES_MAX:
            dropped = len(self._entries) - ENTRIES_MAX // 2
            del self._entries[:dropped]
            self._first += dropped

    def since(self, place: int) -> list[T] | None:
        """The changes since this place; None if the journal no longer has them."""
        return None if place < self._first else self._entries[place - self._first :]


class RowJournal:
    """Rows that changed. Readers at the same place share one answer."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self.end = 0
        """The place of the next change."""
        self._ring = np.zeros(entries_max, np.intp)
        self._span = (0, 0)
        self._rows = np.zeros(0, np.intp)

    def add(self, row: int) -> None:
        """Record that this row changed."""
        self._ring[self.end % self._ring.size] = row
        self.end += 1

    def extend(self, rows: Sequence[int] | Rows) -> None:
        """Record that these rows changed."""
        size = self._ring.size
        newest = np.asarray(rows[-size:], np.intp)
        at = (self.end + len(rows) - newest.size) % size
        before = newest[: size - at]
        self._ring[at : at + before.size] = before
        self._ring[: newest.size - before.size] = newest[before.size :]
        self.end += len(rows)

    def distinct(self, place: int) -> Rows | None:
        """The rows changed since this place, each once, ascending; None if no longer known."""
        if self._span != (place, self.end):
            size = self._ring.size
            if place < max(0, self.end - size):
                return None
            parts = self._ring[place % size :][: self.end - place]
            rest = self._ring[: self.end - place - parts.size]
            self._span, self._rows = (place, self.end), _distinct(np.concatenate([parts, rest]))
            self._rows.setflags(write=False)
        return self._rows


def _distinct(rows: Rows) -> Rows:
    """Each row once, ascending: many rows are marked, few are sorted."""
    if rows.size > MANY:
        marks = np.zeros(int(rows.max()) + 1, np.bool_)
        marks[rows] = True
        return np.flatnonzero(marks)
    if rows.size <= FEW:
        return np.array(sorted(set(rows.tolist())), np.intp)
    rows.sort()
    first = np.ones(rows.size, np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return rows[first]
