"""A cache with a bound in bytes: what would go beyond it empties it first."""

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Kept(Generic[V]):
    """Values by key; `size` is what the caller thinks that a key and its value take."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._values: dict[Hashable, V] = {}
        self.get = self._values.get

    def put(self, key: Hashable, value: V, size: int) -> V:
        """Keep the value, and return it."""
        if self._bytes + size > self._bytes_max:
            self._values.clear()
            self._bytes = 0
        self._bytes += size
        self._values[key] = value
        return value
