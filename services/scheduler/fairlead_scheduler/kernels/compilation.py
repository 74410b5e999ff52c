"""Compiles the kernels without delaying the start: until they are ready, rounds run as Python.

Compiling takes about half a minute of one core, once per version, checkout and kind of processor. A
scheduler without compiled kernels runs the same source as ordinary Python, lets a child process
compile it at low priority, and uses the result from the next round on. FAIRLEAD_KERNELS=python runs
everything as Python on purpose. `python -m fairlead_scheduler.kernels` compiles ahead, for images
and set-up steps.
"""

import asyncio
import gc
import logging
import os
import shutil
import sys
import threading
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final

from fairlead_scheduler.kernels import kernel_cache

NICE: Final = 10
"""The niceness of the compiler: other work of the machine goes first."""
FOLDERS_MAX: Final = 32
"""The most folders of kernels (about 5 MB each) that are retained, for other versions, checkouts
and processors. With fewer, a developer with several checkouts would compile each of them
repeatedly."""
_VARIABLE: Final = "FAIRLEAD_KERNELS"
_PYTHON: Final = "python"
_WITH_PARENT: Final = "--with-parent"
"""Makes the compiler end at once when its standard input is closed, because its parent has
ended."""
_logger = logging.getLogger("fairlead.scheduler.kernels")


def choose_kernels(environment: MutableMapping[str, str]) -> None:
    """Use compiled kernels if they exist. Where they are stored is added to the environment."""
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    environment.setdefault("NUMBA_CACHE_DIR", str(Path(cache) / "fairlead" / "numba"))
    marker = _marker()
    if marker is not None and marker.exists():
        if os.access(marker, os.W_OK):
            marker.touch()
        _use_machine_code()


def are_ready() -> bool:
    """Whether there is nothing to compile, also because there is no compiler."""
    marker = _marker()
    return marker is None or marker.exists()


def load_kernels() -> None:
    """Use compiled kernels from now on; those that are not stored are compiled. No round is allowed
    to run meanwhile."""
    from fairlead_scheduler.kernels import warm_up

    if _is_compiler_wanted():
        _use_machine_code()
    warm_up.run_warm_up_rounds()


def _use_machine_code() -> None:
    from fairlead_scheduler.engine.compiler.decorators import use_machine_code

    use_machine_code(kernel_cache.folder())


def _is_compiler_wanted() -> bool:
    return kernel_cache.has_compiler() and os.environ.get(_VARIABLE) != _PYTHON


def remove_unused_folders(marker: Path) -> None:
    """Delete the folders of kernels beside that of `marker` that were used least recently, beyond
    `FOLDERS_MAX`. Another process can do the same at this time."""
    beside = [folder for folder in marker.parent.parent.glob("engine-*") if folder.is_dir()]
    beside.sort(key=_last_used_s, reverse=True)
    for folder in beside[FOLDERS_MAX:]:
        shutil.rmtree(folder, onerror=_raise_unless_missing)


def _raise_unless_missing(_: object, __: str, failure: tuple[Any, Any, Any]) -> None:
    """For `rmtree`. `Any`: types of `sys.exc_info`."""
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]


def _last_used_s(folder: Path) -> float:
    """When a folder was last used: a start touches its marker, and compiling adds files.

    The time of the folder itself counts only while it is empty: deleting files changes it, too. It
    is 0 if the folder has been deleted.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0.0
    return max((_modified_s(folder / name) for name in names), default=0.0) or _modified_s(folder)


def _modified_s(path: Path) -> float:
    """When a file was modified; 0 if it has been deleted."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _marker() -> Path | None:
    """The file that is written once everything is compiled; None if nothing is to be compiled."""
    folder = kernel_cache.folder()
    return folder / "ready" if folder is not None and _is_compiler_wanted() else None


async def compile_in_child() -> bool:
    """Have a child process compile everything. A child that fails (False) is only logged."""
    _logger.info(
        "compiling the engine's kernels; until they are ready rounds run as Python, and slower"
    )
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "fairlead_scheduler.kernels", _WITH_PARENT),
        stdin=asyncio.subprocess.PIPE,
    )
    try:
        code = await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if code != 0:
        _logger.warning("the kernels could not be compiled (exit code %d): rounds stay slow", code)
    return code == 0


def main() -> None:
    """Compile everything that is not compiled yet, and leave the marker."""
    if _WITH_PARENT in sys.argv:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(NICE)
    choose_kernels(os.environ)
    marker = _marker()
    if marker is None or marker.exists():
        return
    sys.stderr.write("compiling the engine's kernels: half a minute, once per version ...\n")
    gc.disable()  # hardly any of what numba makes is garbage
    load_kernels()
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    remove_unused_folders(marker)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
