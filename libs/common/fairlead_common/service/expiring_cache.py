"""A cache of limited size whose values expire."""

from typing import Generic, TypeVar

V = TypeVar("V")


class ExpiringCache(Generic[V]):
    """Values by digest, each until its expiry time; at most `size_max`, the oldest leave first."""

    def __init__(self, size_max: int = 10_000) -> None:
        self._size_max = size_max
        self._values: dict[bytes, tuple[float, V]] = {}

    def get(self, key: bytes, now_s: float) -> V | None:
        """The value, unless it has expired."""
        kept = self._values.get(key)
        return kept[1] if kept is not None and kept[0] > now_s else None

    def put(self, key: bytes, value: V, until_s: float) -> V:
        """Store the value until then, and return it."""
        self._values.pop(key, None)
        if len(self._values) >= self._size_max:
            del self._values[next(iter(self._values))]
        self._values[key] = (until_s, value)
        return value

    def forget(self, key: bytes) -> None:
        """Remove one value."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()
