"""This machine as a node: its name, its processors, its memory."""

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import quantities
from fairlead_common.service.settings import SettingsError

RESERVED_BYTES: Final = 768 * 2**20
"""Memory reserved for Fairlead and the system; a small machine reserves half of its memory."""
_LIMITS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def this_machine(
    executor: str, pool: str, labels: Mapping[str, str], resources: Mapping[str, str]
) -> Node:
    """The one node of this cluster. `resources` replaces detected amounts.

    Raises `SettingsError`.
    """
    allocatable = {
        quantities.CPU: 1000 * (len(processors()) or os.cpu_count() or 1),
        quantities.MEMORY: max(_memory_bytes() // 2, _memory_bytes() - RESERVED_BYTES),
    }
    errors: list[FieldError] = []
    for name, amount in resources.items():
        try:
            allocatable[name] = quantities.parse_quantity(name, amount, round_up=False)
        except ValueError as error:
            errors.append(FieldError("FAIRLEAD_RESOURCES", f"{name}: {error}"))
    if errors:
        raise SettingsError(errors)
    name = _name()
    return Node(
        executor=executor,
        name=name,
        allocatable=allocatable,
        pool=pool,
        labels={
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": platform.system().lower(),
            "kubernetes.io/arch": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            HOST_USER: host_user(),
            **labels,
        },
    )


_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


HOST_USER: Final = "fairlead.dev/host-user"
"""A label of the node that identifies the machine, and the user who runs commands."""
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def host_user() -> str:
    """A digest of the boot id and the name of this machine, and of the user.

    A client with the same digest (`fairlead.calls.job_location`) sees the same files and is able
    to send its current folder as `workingDir`.
    """
    try:
        boot = Path(_BOOT_ID).read_text().strip()
    except OSError:
        boot = ""
    text = f"{boot}\0{platform.node()}\0{os.getuid()}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _name() -> str:
    name = re.sub(r"[^a-z0-9.-]+", "-", platform.node().lower())[:63].strip("-.")
    return name or "this-machine"


def processors() -> set[int]:
    """The processors that this process is permitted to use; empty if the system cannot tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _memory_bytes() -> int:
    """The memory of this machine, or of the container of this process if that is less."""
    total: int = psutil.virtual_memory().total
    for path in _LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total
