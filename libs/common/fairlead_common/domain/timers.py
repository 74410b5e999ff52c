"""Times at which something becomes due, with few more entries than keys."""

import heapq
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

SPARE: Final = 1_024
"""Entries that no longer count are dropped when they are more than those that do, and this."""

K = TypeVar("K", bound=int | str)


class Timers(Generic[K]):
    """(time in ms, key), the earliest first; each key has one time at most.

    Keys of one time share an entry of the heap, because many are set together. A key that was unset
    or set to another time stays at its old time until that is the earliest, or until all is made
    again.
    """

    def __init__(self) -> None:
        self._times: list[int] = []
        """A heap of the times in `_keys_at`."""
        self._keys_at: dict[int, list[K]] = {}
        self._set: dict[K, int] = {}
        self.held = 0
        """How many keys `_keys_at` holds, with those that no longer count."""

    def set(self, timers: Iterable[tuple[int, K]]) -> None:
        """Set the time of each key, in place of the one it had."""
        for at_ms, key in timers:
            if self._set.get(key) != at_ms:
                self._set[key] = at_ms
                self._add(at_ms, key)
        self._shrink()

    def _add(self, at_ms: int, key: K) -> None:
        keys = self._keys_at.get(at_ms)
        if keys is None:
            self._keys_at[at_ms] = [key]
            heapq.heappush(self._times, at_ms)
        else:
            keys.append(key)
        self.held += 1

    def unset(self, keys: Iterable[K]) -> None:
        """Remove the times of these keys, if they have one."""
        for key in keys:
            self._set.pop(key, None)
        self._shrink()

    def due(self, now_ms: int) -> list[K]:
        """Remove and return the keys whose time has come, the earliest first."""
        found: list[K] = []
        while self._times and self._times[0] <= now_ms:
            at_ms, keys = self._pop()
            for key in keys:
                if self._set.get(key) == at_ms:
                    del self._set[key]
                    found.append(key)
        return found

    def next_ms(self) -> int | None:
        """The earliest time, None if none is set."""
        while self._times:
            at_ms = self._times[0]
            keys = self._keys_at[at_ms]
            while keys:
                if self._set.get(keys[-1]) == at_ms:
                    return at_ms
                keys.pop()
                self.held -= 1
            self._pop()
        return None

    def _pop(self) -> tuple[int, list[K]]:
        """Remove the earliest time with its keys."""
        at_ms = heapq.heappop(self._times)
        keys = self._keys_at.pop(at_ms)
        self.held -= len(keys)
        return at_ms, keys

    def _shrink(self) -> None:
        """Drop what no longer counts once it is more than half of all: each key that is dropped
        pays for one that stays, so the average cost of a timer does not grow."""
        if self.held <= SPARE + 2 * len(self._set):
            return
        self._times, self._keys_at, self.held = [], {}, 0
        for key, at_ms in self._set.items():
            self._add(at_ms, key)

    @property
    def keys(self) -> list[K]:
        """The keys that have a time, in no particular order."""
        return list(self._set)

    def __len__(self) -> int:
        return len(self._set)
