"""Removal of the folders that commands have written to."""

import contextlib
import shutil
import subprocess
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """Remove a folder and everything in it, as far as possible.

    `rmtree` recurses with an open file per level, so it fails for trees of some thousand levels,
    and for folders without permission to write, such as Go's cache of modules: the programs of the
    system remove these too.
    """
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for command in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
            subprocess.run((*command, "--", str(folder)), check=False, stderr=subprocess.DEVNULL)
