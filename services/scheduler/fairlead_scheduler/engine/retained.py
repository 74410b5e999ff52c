"""A value that is made again only when its key changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Retained(Generic[T]):
    """The last value that was made, with its key."""

    def __init__(self) -> None:
        self._key: object = None
        self._value: T | None = None

    def get(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """The value for this key; `make` makes it if the last one was for another key."""
        if self._value is None or self._key != key:
            self._key, self._value = key, make()
        return self._value
