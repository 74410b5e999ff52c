"""The location of jobs: whether they can read the caller's files, and whether they use images."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

HOST_USER: Final = "fairlead.dev/host-user"
"""The label of a node of the process backend: the user and machine that its commands run as."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
PROCESS: Final = "process"
WITHOUT_IMAGES: Final = frozenset({PROCESS, "simulated"})
"""Backends that do not use images."""


class Location(msgspec.Struct, frozen=True):
    """Where jobs run. `is_here`: on this machine, as the caller's user. `has_images`: a backend
    uses the images of jobs, or no backend has reported yet.
    """

    is_here: bool
    has_images: bool


UNKNOWN: Final = Location(is_here=False, has_images=True)


def host_user() -> str:
    """A digest of the boot id, the machine's name and the user: the same as the executor's."""
    import hashlib  # late: only servers on this machine are compared
    import platform

    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    text = f"{boot}\0{platform.node()}\0{os.getuid()}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def are_here(labels: Iterable[Mapping[str, str]]) -> bool:
    """Whether nodes with these labels (at least one) run commands as this user on this machine."""
    found = {each.get(HOST_USER) for each in labels}
    return found == {host_user()}
