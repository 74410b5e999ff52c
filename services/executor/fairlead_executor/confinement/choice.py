"""Finds the method of confinement that works on this machine."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from fairlead_executor.confinement import child

ATTEMPT_S_MAX: Final = 30.0


class Choice(msgspec.Struct, frozen=True):
    """`method` of `child.Plan`; `why`: the reason where it is OFF. `abi`: that of Landlock."""

    method: str
    why: str = ""
    abi: int = 0

    @property
    def confines(self) -> bool:
        """Whether jobs are confined."""
        return self.method != child.OFF


class _Attempt(msgspec.Struct, frozen=True):
    error: str


def choose(wanted: str, folder: Path) -> Choice:
    """The best method that closes this folder, or the wanted one; OFF if no method works.

    Tests each method in its own process. Blocks for about 0.1 s.
    """
    if wanted == child.OFF:
        return Choice(child.OFF, "it is switched off (FAIRLEAD_CONFINEMENT)")
    if sys.platform != "linux":
        return Choice(child.OFF, "only Linux can confine them")
    abi = child.landlock_abi()
    if abi < child.ABI_MIN:
        return Choice(
            child.OFF, "this kernel has no Landlock (Linux 5.19 has, unless switched off)"
        )
    errors = []
    for method in (child.NAMESPACES, child.LANDLOCK):
        if wanted in ("auto", method):
            error = _attempt(method, folder)
            if not error:
                return Choice(method, abi=abi)
            errors.append(f"{method}: {error}")
    return Choice(child.OFF, "; ".join(errors), abi)


def _attempt(method: str, folder: Path) -> str:
    command = [sys.executable, "-I", "-S", child.__file__, method, str(folder)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={"PATH": os.defpath},
            timeout=ATTEMPT_S_MAX,
            check=False,
        )
        return msgspec.json.decode(done.stdout, type=_Attempt).error
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        return f"the attempt failed: {error}"
