"""Where jobs run: whether they can read the caller's files, and whether they use images."""

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead import errors
from fairlead.calls import administration, call_effects, request_building
from fairlead.calls.call_effects import Flow
from fairlead.models.cluster_models import Cluster, Node

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
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    text = f"{boot}\0{platform.node()}\0{os.getuid()}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def location() -> Flow[Location]:
    """Where jobs run: on this machine only if all nodes of all clusters are this one and user."""
    try:
        clusters = yield from _collected(administration.clusters(), Cluster)
        backends = {cluster.backend for cluster in clusters if cluster.backend}
        has_images = not backends or not backends <= WITHOUT_IMAGES
        if backends != {PROCESS}:
            return Location(is_here=False, has_images=has_images)
        nodes: list[Node] = []
        for cluster in clusters:
            nodes += yield from _collected(administration.nodes(cluster.executor), Node)
    except (errors.Forbidden, errors.NotFound):
        return UNKNOWN
    return Location(is_here=are_here(node.labels for node in nodes), has_images=has_images)


def are_here(labels: Iterable[Mapping[str, str]]) -> bool:
    """Whether nodes with these labels (at least one) run commands as this user on this machine."""
    found = {each.get(HOST_USER) for each in labels}
    return found == {host_user()}


def _collected(flow: Flow[None], kind: type[request_building.A]) -> Flow[list[request_building.A]]:
    """The items that a flow emits, as a list."""
    items: list[request_building.A] = []

    def answered(step: call_effects.Step) -> Flow[call_effects.Answer]:
        if isinstance(step, call_effects.Emit) and isinstance(step.item, kind):
            items.append(step.item)
            return None
        return (yield step)

    yield from call_effects.through(flow, answered)
    return items
