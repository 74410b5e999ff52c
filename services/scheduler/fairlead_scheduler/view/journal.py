"""Which rows changed of late, so that who keeps something about all jobs need not look at all.

Bounded: who is too far behind looks at every row instead, which costs no more than what changed.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

ROWS_MAX: Final = 1 << 18
"""Most changes that are kept; the older half goes first."""


class Journal:
    """Row numbers in the order in which their jobs changed; a row may be there many times."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._first = 0

    @property
    def end(self) -> int:
        """The place of the next change."""
        return self._first + len(self._rows)

    def add(self, row: int) -> None:
        """The job of this row changed, or the row changed its job."""
        self._rows.append(row)
        if len(self._rows) > ROWS_MAX:
            self._shorten()

    def extend(self, rows: Iterable[int]) -> None:
        """The jobs of these rows changed."""
        self._rows.extend(rows)
        if len(self._rows) > ROWS_MAX:
            self._shorten()

    def _shorten(self) -> None:
        dropped = len(self._rows) - ROWS_MAX // 2
        del self._rows[:dropped]
        self._first += dropped

    def since(self, place: int) -> npt.NDArray[np.intp] | None:
        """The rows that changed since, ascending, each once; None if that is not known any more."""
        if place < self._first:
            return None
        if place == self.end:
            return np.zeros(0, np.intp)
        return np.unique(np.array(self._rows[place - self._first :], np.intp))
