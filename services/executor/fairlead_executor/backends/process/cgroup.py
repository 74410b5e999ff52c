"""Control groups (v2) for the memory and processor time of runs, where this process's own group
was delegated to it.

The kernel lets a group have either processes or limited children, so this process first moves into
a child of its group; that works only if it is the only process there (a systemd unit with
`Delegate=yes`, a container). Otherwise `find` returns None, and the executor measures memory.
"""

import contextlib
import os
from pathlib import Path

from fairlead_common.domain.ids import RunId

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
PERIOD_US = 100_000


class ControlGroups:
    """A delegated group under which each run gets its own."""

    def __init__(self, group: Path, *, limits_cpu: bool) -> None:
        self._group = group
        self.limits_cpu = limits_cpu

    def make(self, run: RunId, memory_bytes: int, cpu_milli: int) -> str:
        """The folder of a new group with these limits (0: no limit); "" if it cannot be created."""
        folder = self._group / f"run-{run}"
        try:
            folder.mkdir(exist_ok=True)
            if memory_bytes:
                (folder / "memory.max").write_text(str(memory_bytes))
            if self.limits_cpu and cpu_milli:
                quota_us = max(1_000, cpu_milli * PERIOD_US // 1000)
                (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            with contextlib.suppress(OSError):  # not every kernel has these
                (folder / "memory.oom.group").write_text("1")
                (folder / "memory.swap.max").write_text("0")
        except OSError:
            return ""
        return str(folder)


def find(root: Path = ROOT, own: Path = OWN, *, limit_cpu: bool = True) -> ControlGroups | None:
    """The group of this process, prepared for children with memory limits and, if `limit_cpu` and
    the kernel permit it, limits of processor time; None if the group is not delegated."""
    try:
        lines = own.read_text().splitlines()
        name = next(line[3:] for line in lines if line.startswith("0::"))
        group = root / name.lstrip("/")
        if "memory" not in (group / "cgroup.controllers").read_text().split():
            return None
        members = (group / "cgroup.procs").read_text().split()
        if members and members != [str(os.getpid())]:
            return None
        child = group / "executor"
        child.mkdir(exist_ok=True)
        (child / "cgroup.procs").write_text(str(os.getpid()))
        (group / "cgroup.subtree_control").write_text("+memory")
    except (OSError, StopIteration):
        return None
    if limit_cpu:
        try:
            (group / "cgroup.subtree_control").write_text("+cpu")
        except OSError:
            limit_cpu = False
    return ControlGroups(group, limits_cpu=limit_cpu)
