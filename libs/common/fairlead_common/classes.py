"""Priority classes: how urgent a job is, and by which rules its run may be stopped.

A setting (`priorityClasses`) that submit and the scheduler must agree on; the default list serves
until somebody configures others.
"""

from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.clusters import Taint


class Preemption(StrEnum):
    """`any`: for balance and urgency; `urgency`: never to balance shares; `none`: never."""

    ANY = "any"
    URGENCY = "urgency"
    NONE = "none"


class AwayNodeType(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """Nodes kept for others on which the class may run as a guest, at a lower value."""

    taints: tuple[Taint, ...]
    value: int


class PriorityClass(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """`value`: greater is more urgent. `limits`: resource -> fraction of the pool per queue."""

    name: str
    value: int
    preemption: Preemption = Preemption.ANY
    limits: dict[str, float] = {}
    away_node_types: tuple[AwayNodeType, ...] = ()


DEFAULT_CLASS: Final = "default"

DEFAULT_CLASSES: Final = (
    PriorityClass(name="low", value=-1000),
    PriorityClass(name=DEFAULT_CLASS, value=0),
    PriorityClass(name="high", value=1000),
    PriorityClass(name="urgent", value=2000, preemption=Preemption.URGENCY),
    PriorityClass(name="non-preemptible", value=0, preemption=Preemption.NONE),
)
