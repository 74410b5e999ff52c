"""A small file system in memory that tests fill. Only root can mount it."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 2**20


@contextmanager
def small_disk(folder: Path, size: str, inodes: int = 0) -> Iterator[Path]:
    """A file system of its own at this new folder; `size` as mount takes it. Skips without root.

    `inodes`: how many files and folders it can hold; 0: any number.
    """
    folder.mkdir(mode=0o700)
    options = f"size={size},nr_inodes={inodes},mode=700"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path, leave: int = 0) -> None:
    """Fill the disk except for this number of bytes."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    size = 0
    try:
        while True:
            found = os.fstatvfs(descriptor)
            piece = min(64 * MIB, found.f_bavail * found.f_frsize - leave)
            if piece <= 0:
                return
            os.posix_fallocate(descriptor, size, piece)
            size += piece
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(descriptor)


def fill_inodes(folder: Path) -> list[Path]:
    """Make new folders in this one until its disk can hold no more; these folders."""
    made: list[Path] = []
    while True:
        new = folder / f"filler-{len(made)}"
        try:
            new.mkdir()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return made
        made.append(new)
