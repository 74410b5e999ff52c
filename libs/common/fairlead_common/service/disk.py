"""The free space of the disk that holds the log and the database, and its limits.

Postgres ends immediately when it cannot extend its write-ahead log, and reads end with it. So new
work is refused while there is still space to finish what runs, and every write is refused while
there is still space for Postgres itself.
"""

import os
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Final

import msgspec

from fairlead_common.domain.errors import LogFull

MIB: Final = 2**20
RETRY_AFTER_S: Final = 10
"""Callers may retry after this time; processes check at least this often."""


class Space(IntEnum):
    """The state of the free space."""

    ENOUGH = 0
    LOW = 1
    """Nothing new is submitted or started; jobs that run are reported, and can be cancelled."""
    FULL = 2
    """Nothing is appended, so the views do not change."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Free bytes below which the space is low or full, and above which it is not any more."""

    low: int = 160 * MIB
    low_ends: int = 224 * MIB
    full: int = 64 * MIB
    full_ends: int = 96 * MIB


def assess(free: int, before: Space, bounds: Bounds) -> Space:
    """The state for this number of free bytes, given the state before: with hysteresis."""
    if free < (bounds.full_ends if before is Space.FULL else bounds.full):
        return Space.FULL
    if free < (bounds.low_ends if before is not Space.ENOUGH else bounds.low):
        return Space.LOW
    return Space.ENOUGH


def free_bytes(path: Path) -> int:
    """The bytes that an ordinary user is able to write on this disk."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


class Disk:
    """Checks the disk of a folder at each call, which takes a microsecond.

    Empty `folder`: the log and the database are on another machine, and the space is always enough.
    """

    def __init__(
        self,
        folder: str = "",
        bounds: Bounds | None = None,
        free: Callable[[Path], int] = free_bytes,
    ) -> None:
        self._folder = folder
        self._bounds = bounds or Bounds()
        self._free = free
        self._space = Space.ENOUGH

    @property
    def is_watched(self) -> bool:
        """Whether there is a disk of this machine to check."""
        return bool(self._folder)

    @property
    def space(self) -> Space:
        """The state of the free space now."""
        if self._folder:
            free = self._free(Path(self._folder))
            self._space = assess(free, self._space, self._bounds)
        return self._space

    def problem(self) -> str | None:
        """The problem in one sentence, if there is one."""
        match self.space:
            case Space.ENOUGH:
                return None
            case space:
                return self._sentence(space)

    def check(self, refused_from: Space) -> None:
        """Raises `LogFull` if the space is in this state or a worse one."""
        space = self.space
        if space >= refused_from:
            raise LogFull(self._sentence(space))

    def _sentence(self, space: Space) -> str:
        free_mib = self._free(Path(self._folder)) // MIB
        ends = self._bounds.low_ends if space is Space.LOW else self._bounds.full_ends
        effect = "nothing new is accepted" if space is Space.LOW else "nothing is written"
        word = "almost full" if space is Space.LOW else "full"
        return (
            f"The disk is {word}: {free_mib} MiB are free, and {effect} until there are"
            f" {ends // MIB} MiB. Nothing was done; free some space and try again."
        )
