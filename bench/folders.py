"""Temporary folders of benches: removed at the end, or, if the bench was killed, by the next one.

A bench holds the lock of a file in its folder as long as it lives. The folders whose lock is free
belong to benches that were killed; the servers in them have ended with them.
"""

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIX: Final = "fairlead-bench-data-"
LOCK: Final = ".bench-lock"


@contextlib.contextmanager
def temporary_folder(name: str, parent: Path | None = None) -> Iterator[Path]:
    """A new folder, named after its bench, in `parent` or among the temporary files."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    with contextlib.ExitStack() as stack:
        with _locked(parent / f"{PREFIX}{os.getuid()}.lock"):
            _remove_abandoned(parent)
            made = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{name}-", dir=parent)
            folder = Path(stack.enter_context(made))
            stack.enter_context(_locked(folder / LOCK))
        yield folder


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of benches that were killed. The lock for new folders is held."""
    for folder in parent.glob(f"{PREFIX}*/"):
        if folder.stat().st_uid != os.getuid() or _is_in_use(folder):
            continue
        try:
            shutil.rmtree(folder)
        except OSError as error:
            # Its servers can be about to end; the next bench tries again.
            print(f"{folder} of an earlier bench was not removed: {error}", file=sys.stderr)


def _is_in_use(folder: Path) -> bool:
    """Whether its bench is running. A folder without the file was removed in part."""
    try:
        with (folder / LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock of a file while the block runs, after waiting for it."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
