"""The processes of runs: waking a runner, ending the processes that a lost runner left, and the
memory that a run uses."""

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import psutil

from fairlead_common.domain.ids import RunId

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LINUX: Final = sys.platform == "linux"


class Process(msgspec.Struct, frozen=True, gc=False):
    """A process at one moment."""

    parent: int
    session: int
    resident_bytes: int


def read_processes() -> dict[int, Process]:
    """All processes of this machine by process id."""
    if not _LINUX:
        return _read_with_psutil()
    found: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # After the name in brackets: state, parent, group, session, ..., resident pages.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        found[int(name)] = Process(int(fields[1]), int(fields[3]), int(fields[21]) * _PAGE_BYTES)
    return found


def _read_with_psutil() -> dict[int, Process]:
    found: dict[int, Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            session = os.getsid(process.pid)
            found[process.pid] = Process(process.ppid(), session, process.memory_info().rss)
    return found


def resident_bytes(table: dict[int, Process], runners: list[int]) -> dict[int, int]:
    """The resident memory of all descendants of each runner."""
    children: dict[int, list[int]] = {}
    for number, process in table.items():
        children.setdefault(process.parent, []).append(number)
    totals: dict[int, int] = {}
    for runner in runners:
        total, pending = 0, list(children.get(runner, ()))
        while pending:
            number = pending.pop()
            total += table[number].resident_bytes
            pending += children.get(number, ())
        totals[runner] = total
    return totals


def proportional_bytes(table: dict[int, Process], runner: int) -> int:
    """As `resident_bytes`, with shared pages counted once: exact, and expensive."""
    total = 0
    for number in _descendants(table, runner):
        try:
            with open(f"/proc/{number}/smaps_rollup", "rb") as file:
                sizes = [line.split()[1] for line in file if line.startswith(b"Pss:")]
        except OSError:
            sizes = []
        total += int(sizes[0]) * 1024 if sizes else table[number].resident_bytes
    return total


def find_over_limit(watched: Mapping[RunId, tuple[int, int]]) -> list[tuple[RunId, int]]:
    """The runs that exceed their memory limit, and their usage. Blocks: reads all of /proc.

    `watched`: the process id of the runner and the memory limit of each run.
    """
    table = read_processes()
    used = resident_bytes(table, [number for number, _ in watched.values()])
    over: list[tuple[RunId, int]] = []
    for run, (number, limit_bytes) in watched.items():
        if used[number] > limit_bytes:
            exact = proportional_bytes(table, number)
            if exact > limit_bytes:
                over.append((run, exact))
    return over


def _descendants(table: dict[int, Process], runner: int) -> list[int]:
    found: list[int] = []
    parents = {runner}
    while parents:
        children = [number for number, process in table.items() if process.parent in parents]
        found += children
        parents = set(children)
    return found


def wake(runner: int, start: Path) -> None:
    """Send SIGTERM to the process that holds the lock on the start record, if it still does."""
    try:
        handle = os.pidfd_open(runner) if _LINUX else -1
    except ProcessLookupError:
        return
    try:
        if not is_locked(start):
            return
        with contextlib.suppress(ProcessLookupError):
            if _LINUX:
                signal.pidfd_send_signal(handle, signal.SIGTERM)
            else:
                os.kill(runner, signal.SIGTERM)
    finally:
        if handle >= 0:
            os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock on this file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def end_session(leader: int) -> None:
    """End all processes of the session of a runner that no longer exists.

    The kernel does not reuse a process id while a session has it, so every process of the session
    belongs to the run. If a process has the runner's id now, the session was empty, and the id
    has been reused.
    """
    for _ in range(100):
        found = read_processes()
        if leader in found:
            return
        members = [number for number, process in found.items() if process.session == leader]
        if not members:
            return
        for number in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
