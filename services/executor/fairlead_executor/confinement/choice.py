"""Which way of confining jobs works on this machine."""

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
        """Whether jobs are kept from the installation."""
        return self.method != child.OFF


class _Attempt(msgspec.Struct, frozen=True):
    fault: str


def choose(wanted: str, folder: Path) -> Choice:
    """The best method that closes this folder, or the one that is wanted; OFF where none does.

    Each is tried in a process of its own. Blocks for some 0.1 s.
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
    faults = []
    for method in (child.NAMESPACES, child.LANDLOCK):
        if wanted in ("auto", method):
            fault = _attempt(method, folder)
            if not fault:
                return Choice(method, abi=abi)
            faults.append(f"{method}: {fault}")
    return Choice(child.OFF, "; ".join(faults), abi)


def _attempt(method: str, folder: Path) -> str:
    words = [sys.executable, "-I", "-S", child.__file__, method, str(folder)]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={"PATH": os.defpath},
            timeout=ATTEMPT_S_MAX,
            check=False,
        )
        return msgspec.json.decode(done.stdout, type=_Attempt).fault
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        return f"the attempt failed: {error}"
