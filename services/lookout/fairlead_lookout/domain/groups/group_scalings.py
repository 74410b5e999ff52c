"""How a group was scaled and restarted, from the runs of its members and its public events. Pure.

Nothing of it is stored: the log has an event for each run, and none for the group.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

import msgspec

from fairlead_common.domain.records.events import PreemptionCause
from fairlead_common.domain.records.group_terms import GroupRole

BY_SCHEDULER: Final = "scheduler"
FREE_CAPACITY: Final = "free capacity"
TAKEN: Final = frozenset(
    {PreemptionCause.SURPLUS, PreemptionCause.FAIR_SHARE, PreemptionCause.URGENCY}
)
"""Causes of preemptions that take surplus from a group; others stop a group or a single run."""


class RoleTerms(msgspec.Struct, frozen=True):
    """The roles of a group by name, since when, and who set them why."""

    time_ms: int
    roles: Mapping[str, GroupRole]
    by: str | None = None
    reason: str | None = None


class MemberRun(msgspec.Struct, frozen=True):
    """A run of a member of a group. `reason`: of its end; `cause`: of its preemption.

    `follows_failure`: the run before it failed or was lost. `is_repeated`: it failed or was lost,
    and the job was queued again.
    """

    role: str
    index: int
    leased_ms: int
    ended_ms: int | None
    cause: str | None
    reason: str | None
    follows_failure: bool
    is_repeated: bool


class Scaling(msgspec.Struct, frozen=True):
    """What was changed of a role at one time, and why.

    `change`: the scheduler `started` or `stopped` surplus members or `restarted` any members after
    a failure (`indexes`), or a user `changed` the minimum or maximum.
    """

    time_ms: int
    role: str
    change: Literal["started", "stopped", "restarted", "changed"]
    indexes: tuple[int, ...] = ()
    by: str = BY_SCHEDULER
    reason: str | None = None


def list_scalings(runs: Iterable[MemberRun], terms: Sequence[RoleTerms]) -> list[Scaling]:
    """What the scheduler did, newest first. `terms`: in order of time; before the first ones, these
    count. Members with the same change, time and reason are one scaling."""
    times = [each.time_ms for each in terms]
    found: dict[Scaling, list[int]] = {}

    def is_surplus(run: MemberRun, time_ms: int) -> bool:
        place = max(0, bisect_right(times, time_ms) - 1)
        role = terms[place].roles.get(run.role) if terms else None
        return role is not None and run.index >= role.min

    for run in runs:
        steps = []
        if not run.follows_failure and is_surplus(run, run.leased_ms):
            steps.append(Scaling(run.leased_ms, run.role, "started", reason=FREE_CAPACITY))
        if run.ended_ms is not None and run.cause in TAKEN and is_surplus(run, run.ended_ms):
            steps.append(Scaling(run.ended_ms, run.role, "stopped", reason=run.reason or run.cause))
        if run.ended_ms is not None and run.is_repeated:
            steps.append(Scaling(run.ended_ms, run.role, "restarted", reason=run.reason))
        for step in steps:
            found.setdefault(step, []).append(run.index)
    scalings = [
        msgspec.structs.replace(step, indexes=tuple(sorted(indexes)))
        for step, indexes in found.items()
    ]
    return sorted(scalings, key=lambda step: (-step.time_ms, step.role, step.indexes))


def find_last_scalings(
    scalings: Iterable[Scaling], terms: Sequence[RoleTerms]
) -> dict[str, Scaling]:
    """The newest scaling of each role, by the scheduler or a user; restarts do not count."""
    every = [*_list_changes(terms), *(each for each in scalings if each.change != "restarted")]
    return {each.role: each for each in sorted(every, key=lambda each: each.time_ms)}


def _list_changes(terms: Sequence[RoleTerms]) -> Iterator[Scaling]:
    """The changes of minima and maxima by users."""
    for before, after in pairwise(terms):
        for name, role in after.roles.items():
            old = before.roles.get(name)
            if old is not None and (old.min, old.max) != (role.min, role.max):
                yield Scaling(
                    after.time_ms, name, "changed", by=after.by or "", reason=after.reason
                )
