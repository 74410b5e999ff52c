"""CPU and memory of the processes of a whole Fairlead, by their role."""

from collections.abc import Iterator
from typing import Final

import msgspec
import psutil

from fairlead_standalone.service.testing import StandaloneInstallation, memory_bytes

NAMES: Final = ("web", "scheduler", "executor", "postgres", "valkey")


class Use(msgspec.Struct, frozen=True, rename="camel"):
    """What one role used: seconds of CPU, mean cores, and its share of memory (PSS) at the end."""

    cpu_s: float
    cores: float
    memory_mb: float


class Meter:
    """Reads the use of each role since it was made."""

    def __init__(
        self, standalone: StandaloneInstallation, more: dict[str, int], now_s: float
    ) -> None:
        roots = {name: standalone.child(name) for name in NAMES}
        roots["supervisor"] = standalone.supervisor
        roots["client"] = psutil.Process()
        roots |= {name: psutil.Process(pid) for name, pid in more.items()}
        self._roots = roots
        self._began_s = now_s
        self._before = {name: self._cpu_s(name) for name in roots}

    def read(self, now_s: float) -> dict[str, Use]:
        """The use of every role until now."""
        passed_s = max(now_s - self._began_s, 1e-9)
        found = {}
        for name in self._roots:
            used_s = self._cpu_s(name) - self._before[name]
            memory = sum(map(memory_bytes, self._processes(name))) / 1e6
            found[name] = Use(round(used_s, 2), round(used_s / passed_s, 3), round(memory, 1))
        return found

    def _cpu_s(self, name: str) -> float:
        total = 0.0
        for process in self._processes(name):
            times = process.cpu_times()
            total += times.user + times.system
            if process == self._roots[name] and name == "postgres":
                total += times.children_user + times.children_system
        return total

    def _processes(self, name: str) -> Iterator[psutil.Process]:
        """The process, and for Postgres those that serve its connections."""
        root = self._roots[name]
        yield root
        if name != "postgres":
            return
        for child in root.children(recursive=True):
            if child.is_running():
                yield child
