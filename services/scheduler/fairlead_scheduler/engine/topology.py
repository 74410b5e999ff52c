"""The topology of a pool as the engine gets it, and what a plan says about nearness (rules T).

Levels of the topology are rows of `Snapshot.label_names`; the values of such a label are *domains*,
numbered by their path from the widest level down, ascending. A node has a domain of a level if it
has the labels of this level and of all wider ones.

Letters used for shapes of arrays are those of snapshot.py, and H levels of the topology.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Byte = npt.NDArray[np.uint8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

NO_LEVEL = -1
"""Instead of a level: the pool does not have the required level."""


class TopologyMode(enum.IntEnum):
    """Whether a gang requires nearness or only prefers it (`Topology.gang_mode`)."""

    NONE = 0
    REQUIRED = 1
    """All members in scope are in one domain of the level (T2)."""
    PREFERRED = 2
    """They are as close as possible."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Topology:
    """The levels of a pool, widest first, and what its gangs require or prefer."""

    names: tuple[str, ...]
    """H names of levels, for texts."""
    label: Int32
    """[H] rows in `Snapshot.label_names`."""
    domains: tuple[tuple[str, ...], ...]
    """By level, the names of its domains by number, for texts."""
    hops: tuple[int, ...]
    """H+1 distances (T1): of two nodes whose narrowest common domain is of each level, and last of
    two without one."""
    gang_mode: Byte
    """[G] a `TopologyMode`."""
    gang_level: Int32
    """[G] the widest level that is permitted; `NO_LEVEL`."""
    gang_whole: Byte
    """[G] whether all roles are one scope, instead of one scope each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nearness:
    """How close members are after a round (T5), and why gangs that wait fit in no domain."""

    role_hops: Int32
    """[K] the greatest distance of two live members of the role, by row of the snapshot; -1 for a
    role without live members, and for one whose gang has no topology."""
    lacking: Int32
    """[G] the resource that no domain of the required level has enough free capacity of; -1 where
    there is no such resource, and for gangs that do not wait for a domain."""
    needed: Int64
    """[G] how much of it the members need together."""
    most: Int64
    """[G] the most of it that is free in any domain."""
    domain: Int32
    """[G] the domain with that amount."""
