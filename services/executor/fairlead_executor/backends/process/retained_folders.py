"""The folders of removed runs: the newest are retained, limited in number and in bytes."""

import contextlib
import os
from collections import deque
from pathlib import Path

import msgspec

from fairlead_executor.backends.process import logs
from fairlead_executor.backends.process.tree_removal import remove_tree


class _Folder(msgspec.Struct, frozen=True):
    path: Path
    bytes: int


class RetainedFolders:
    """The retained folders from oldest to newest. Its methods block on disk operations."""

    def __init__(self, root: Path, runs_max: int, bytes_max: int) -> None:
        self._root = root
        self._runs_max = runs_max
        self._bytes_max = bytes_max
        self._folders: deque[_Folder] = deque()
        self._bytes = 0

    def load(self) -> None:
        """Read the folders that an earlier executor retained."""
        with os.scandir(self._root) as entries:
            found = sorted((entry.stat().st_mtime_ns, entry.path) for entry in entries)
        for _, path in found:
            self.add(Path(path))

    def add(self, path: Path) -> None:
        """Retain this folder; delete the oldest ones that exceed a limit.

        A folder that exceeds the limit alone loses the beginning of its outputs, or is deleted if
        that is not enough; the others stay.
        """
        folder = _Folder(path, _size(path))
        if folder.bytes > self._bytes_max:
            logs.trim_outputs([path], self._bytes_max // 4)
            folder = _Folder(path, _size(path))
        if folder.bytes > self._bytes_max:
            remove_tree(path)
            return
        self._folders.append(folder)
        self._bytes += folder.bytes
        while self._folders and (
            len(self._folders) > self._runs_max or self._bytes > self._bytes_max
        ):
            oldest = self._folders.popleft()
            self._bytes -= oldest.bytes
            remove_tree(oldest.path)


def _size(folder: Path) -> int:
    """Bytes on disk of the files directly in the folder."""
    total = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat().st_blocks * 512
    return total
