"""Times at which something becomes due: a heap with few more entries than keys."""

import heapq
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

SPARE: Final = 1_024
"""Entries that no longer count are dropped when they are more than those that do, and this."""

K = TypeVar("K", bound=int | str)


class Timers(Generic[K]):
    """(time in ms, key), the earliest first; each key has one time at most.

    An entry whose key was unset or set to another time stays in the heap until it is the first, or
    until the heap is made again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, K]] = []
        self._set: dict[K, int] = {}

    def set(self, timers: Iterable[tuple[int, K]]) -> None:
        """Set the time of each key, in place of the one it had."""
        for at_ms, key in timers:
            if self._set.get(key) != at_ms:
                self._set[key] = at_ms
                heapq.heappush(self._heap, (at_ms, key))
        self._shrink()

    def unset(self, keys: Iterable[K]) -> None:
        """Remove the times of these keys, if they have one."""
        for key in keys:
            self._set.pop(key, None)
        self._shrink()

    def due(self, now_ms: int) -> list[K]:
        """Remove and return the keys whose time has come, the earliest first."""
        found: list[K] = []
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, key = heapq.heappop(self._heap)
            if self._set.get(key) == at_ms:
                del self._set[key]
                found.append(key)
        return found

    def next_ms(self) -> int | None:
        """The earliest time, None if none is set."""
        while self._heap and self._set.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _shrink(self) -> None:
        """Rebuild the heap from its valid entries once more than half of it is outdated: each entry
        that is dropped pays for one that stays, so the average cost of a timer does not grow."""
        if len(self._heap) > SPARE + 2 * len(self._set):
            self._heap = [(at_ms, key) for key, at_ms in self._set.items()]
            heapq.heapify(self._heap)

    @property
    def held(self) -> int:
        """How many entries the heap holds, with those that no longer count."""
        return len(self._heap)

    @property
    def keys(self) -> list[K]:
        """The keys that have a time, in no particular order."""
        return list(self._set)

    def __len__(self) -> int:
        return len(self._set)
