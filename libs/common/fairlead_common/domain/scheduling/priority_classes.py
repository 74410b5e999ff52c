"""Priority classes: how urgent a job is, and by which rules its run can be preempted.

Submit and the scheduler must have the same setting `priorityClasses`; without it `DEFAULT_CLASSES`
applies.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.scheduling.shapes import Taint


class Preemption(StrEnum):
    """`any`: for fair share and urgency; `urgency`: never for fair share; `none`: never."""

    ANY = "any"
    URGENCY = "urgency"
    NONE = "none"


class AwayNodeType(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """Nodes for other jobs, on which the class is permitted to run at a lower value."""

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

VALUE_MAX: Final = 2**31 - 1


def find_errors(classes: Sequence[PriorityClass]) -> list[FieldError]:
    """The field errors of a list of classes, by the setting's name."""
    found = [] if classes else [FieldError("priorityClasses", "must contain at least one class")]
    for name, count in Counter(item.name for item in classes).items():
        if count > 1:
            found.append(FieldError("priorityClasses", f"names {name!r} {count} times; keep one"))
    for number, item in enumerate(classes):
        place = f"priorityClasses[{number}]"
        found += [FieldError(f"{place}.{name}", detail) for name, detail in _of_class(item)]
    return found


def _of_class(item: PriorityClass) -> Iterator[tuple[str, str]]:
    if not item.name:
        yield "name", "is empty"
    if abs(item.value) > VALUE_MAX:
        yield "value", f"is {item.value}; -{VALUE_MAX} to {VALUE_MAX} is allowed"
    for resource, fraction in item.limits.items():
        if not 0 <= fraction <= 1:
            yield f"limits.{resource}", f"is {fraction}; a fraction of the pool is from 0 to 1"
    if item.away_node_types and item.preemption is Preemption.NONE:
        yield (
            "awayNodeTypes",
            f"lets jobs of class {item.name!r} run away, but they cannot be preempted for jobs that"
            " are at home on these nodes; omit it, or set preemption to any or urgency",
        )
    for number, away in enumerate(item.away_node_types):
        place = f"awayNodeTypes[{number}]"
        if not away.taints:
            yield f"{place}.taints", "is empty: it names no nodes"
        if away.value >= item.value:
            yield f"{place}.value", f"is {away.value}; it must be below {item.value}, the class's"
