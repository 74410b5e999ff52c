"""How long the folders of ended runs are kept: the newest so many, of so many bytes at most."""

import contextlib
import os
import shutil
from collections import deque
from pathlib import Path

import msgspec


class _Folder(msgspec.Struct, frozen=True):
    path: Path
    bytes: int


class Retention:
    """Knows the kept folders from oldest to newest. Its methods block for as long as disks do."""

    def __init__(self, kept: Path, runs_max: int, bytes_max: int) -> None:
        self._kept = kept
        self._runs_max = runs_max
        self._bytes_max = bytes_max
        self._folders: deque[_Folder] = deque()
        self._bytes = 0

    def load(self) -> None:
        """Find what was kept before."""
        with os.scandir(self._kept) as there:
            found = sorted((entry.stat().st_mtime_ns, entry.path) for entry in there)
        for _, path in found:
            self.add(Path(path))

    def add(self, path: Path) -> None:
        """This folder is kept from now on; the oldest go as far as they must."""
        folder = _Folder(path, _size(path))
        self._folders.append(folder)
        self._bytes += folder.bytes
        while self._folders and (
            len(self._folders) > self._runs_max or self._bytes > self._bytes_max
        ):
            oldest = self._folders.popleft()
            self._bytes -= oldest.bytes
            shutil.rmtree(oldest.path, ignore_errors=True)


def _size(folder: Path) -> int:
    """Bytes on disk of the files directly inside."""
    total = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as there:
        for entry in there:
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat().st_blocks * 512
    return total
