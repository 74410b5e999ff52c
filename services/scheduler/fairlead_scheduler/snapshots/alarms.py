"""Times at which rows must be looked at again: a heap that is right about what it says first.

Whoever is told looks whether the time still means anything; entries are never taken out before.
"""

import heapq
from collections.abc import Iterable


class Alarms:
    """(time in ms, row), the earliest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._set: dict[int, int] = {}

    def set(self, alarms: Iterable[tuple[int, int]]) -> None:
        """Set the alarm of rows; a later call for the same row replaces it."""
        for at_ms, row in alarms:
            if self._set.get(row) != at_ms:
                self._set[row] = at_ms
                heapq.heappush(self._heap, (at_ms, row))
        if len(self._heap) > 1024 + 2 * len(self._set):
            self._heap = [(at_ms, row) for row, at_ms in self._set.items()]
            heapq.heapify(self._heap)

    def unset(self, rows: Iterable[int]) -> None:
        """These rows need no alarm any more."""
        for row in rows:
            self._set.pop(row, None)

    def due(self, now_ms: int) -> list[int]:
        """Rows whose time has come; their alarms are over."""
        found: list[int] = []
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, row = heapq.heappop(self._heap)
            if self._set.get(row) == at_ms:
                del self._set[row]
                found.append(row)
        return found

    def next_ms(self) -> int | None:
        """The earliest time, None without alarms."""
        while self._heap and self._set.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._set)
