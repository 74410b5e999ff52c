"""The topology of a pool: its levels, their distances, and what a group asks of them (T1, T2).

A level is the key of a node label; groups name it by the key or by what is behind its last `/`.
The last level can be `hostname`, which is the node itself.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.records.group_terms import Topology, TopologyMode

LEVELS_MAX: Final = 8
HOSTNAMES: Final = ("hostname", "kubernetes.io/hostname")
"""Names of the level of single nodes."""
NO_LEVEL: Final = -1
_KEY: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)


class AskedLevel(NamedTuple):
    """What a group asks of the levels of a pool."""

    required: bool
    level: int
    """place in the levels, `NO_LEVEL` where the pool does not have it"""


def short_name(level: str) -> str:
    """The name of a level without the prefix of its label."""
    return level.rpartition("/")[2]


def measure_hops(levels: Sequence[str]) -> tuple[int, ...]:
    """T1: the distance of two nodes by the narrowest level at which they are in one domain, and
    last that of two nodes without a common domain."""
    steps = len(levels)
    if not levels or levels[-1] not in HOSTNAMES:
        steps += 1  # below the narrowest level are the nodes
    return tuple(2 * above for above in [*range(steps - 1, steps - 1 - len(levels), -1), steps])


def find_level(levels: Sequence[str], asked: Topology) -> AskedLevel:
    """The widest level that is permitted for a group (T2).

    With `max_hops` that is the widest one of no greater distance. Where even two nodes without a
    common domain are no farther apart nothing is required.
    """
    required = asked.mode is TopologyMode.REQUIRED
    if asked.max_hops is None:
        named = (i for i, name in enumerate(levels) if asked.level in (name, short_name(name)))
        return AskedLevel(required, next(named, NO_LEVEL))
    hops = measure_hops(levels)
    near = (i for i in range(len(levels)) if hops[i] <= asked.max_hops)
    return AskedLevel(required and asked.max_hops < hops[-1], next(near, NO_LEVEL))


def find_topology_errors(place: str, levels: Sequence[str]) -> list[FieldError]:
    """What is wrong with the levels of a pool; `place` is the setting's name."""
    found = []
    if len(levels) > LEVELS_MAX:
        found.append(FieldError(place, f"has {len(levels)} levels; at most {LEVELS_MAX}"))
    for number, name in enumerate(levels):
        pointer = f"{place}.{number}"
        if not _KEY.fullmatch(name):
            found.append(FieldError(pointer, f"is {name!r}, which is not the key of a node label"))
        elif short_name(name) in map(short_name, levels[:number]):
            detail = f"is {name!r}; another level has the name {short_name(name)!r}"
            found.append(FieldError(pointer, detail))
        elif name in HOSTNAMES and number < len(levels) - 1:
            detail = f"is {name!r}, the node itself, which can only be the last level"
            found.append(FieldError(pointer, detail))
    return found
