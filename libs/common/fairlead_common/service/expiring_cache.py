"""Answers that hold for a while: a bounded cache in which the oldest make room."""

from typing import Generic, TypeVar

V = TypeVar("V")


class ExpiringCache(Generic[V]):
    """Values by digest, each until its time; at most `size_max`."""

    def __init__(self, size_max: int = 10_000) -> None:
        self._size_max = size_max
        self._values: dict[bytes, tuple[float, V]] = {}

    def get(self, key: bytes, now_s: float) -> V | None:
        """The value, if it still holds."""
        kept = self._values.get(key)
        return kept[1] if kept is not None and kept[0] > now_s else None

    def put(self, key: bytes, value: V, until_s: float) -> V:
        """Keep the value until then, and return it."""
        self._values.pop(key, None)
        if len(self._values) >= self._size_max:
            del self._values[next(iter(self._values))]
        self._values[key] = (until_s, value)
        return value

    def forget(self, key: bytes) -> None:
        """Let go of one."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Let go of all."""
        self._values.clear()
