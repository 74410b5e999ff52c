"""The time limit of a round (L6), checked between portions of bounded work in every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.snapshot import EngineSettings, Int64


class TimeLimitReachedError(Exception):
    """Time was up before the model of the round was complete: nothing can be placed."""


class RoundClock:
    """Calls `expired` between portions of work, and no longer after it has returned True."""

    def __init__(self, expired: Callable[[], bool], settings: EngineSettings) -> None:
        self._expired = expired
        self._settings = settings
        self.is_up = False

    def check(self) -> bool:
        """Whether time is up."""
        self.is_up = self.is_up or self._expired()
        return self.is_up

    def require_time(self) -> None:
        """Raise `TimeLimitReachedError` if time is up."""
        if self.check():
            raise TimeLimitReachedError

    def slice_rows(self, rows: int) -> Iterator[slice]:
        """Slices of at most `work_per_check` rows, until time is up."""
        return self._slices(rows, self._settings.work_per_check)

    def slice_pairs(self, rows: int, columns: int) -> Iterator[slice]:
        """Slices of rows that are compared with this number of columns, of at most
        `pairs_per_check` pairs each, until time is up."""
        return self._slices(rows, self._settings.pairs_per_check // max(columns, 1))

    def sort_rows(self, keys: Sequence[npt.NDArray[Any]]) -> Int64:
        """`numpy.lexsort(keys)`; many rows are sorted key by key, each in portions.

        Raises `TimeLimitReachedError` when time is up.
        """
        rows = keys[0].size
        if rows <= self._settings.work_per_check:
            return np.lexsort(keys)
        order: Int64 = np.arange(rows)
        for key in keys:
            order = order[self._sort_values(key[order])]
        return order

    def _sort_values(self, values: npt.NDArray[Any]) -> Int64:
        order: Int64 = np.empty(values.size, np.int64)
        for part in self.slice_rows(values.size):
            order[part] = part.start + np.argsort(values[part], kind="stable")
        self.require_time()
        merged: Int64 = order[np.argsort(values[order], kind="stable")]  # merges the sorted parts
        return merged

    def _slices(self, rows: int, rows_max: int) -> Iterator[slice]:
        step = max(1, rows_max)
        for first in range(0, rows, step):
            if self.check():
                return
            yield slice(first, min(first + step, rows))
