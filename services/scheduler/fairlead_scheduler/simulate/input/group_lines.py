"""Groups of roles in the file of jobs (rules G): a line with `roles` is a group.

Its members are jobs with the ids `<id>/<role>-<index>`, submitted together. Members that ran and
are preempted begin again, as other jobs do.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fairlead_common.domain.ids import GroupId, client_job_id
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.cases import case_file
from fairlead_scheduler.simulate.input.line_fields import (
    Id,
    LinePart,
    Name,
    PositiveSeconds,
    RunTime,
    Seconds,
)

MEMBERS_MAX: Final = 10_000
Count = Annotated[int, Meta(ge=0, le=MEMBERS_MAX)]


class RoleLine(LinePart, frozen=True, kw_only=True):
    """A role: `max` members, by default `min`; the group needs `min` of them."""

    name: Name
    min: Count
    max: Count | None = None
    run_seconds: Seconds | RunTime
    cpu: case_file.Amount | None = None
    memory: case_file.Amount | None = None
    gpu: case_file.Amount | None = None
    checkpoint_seconds: PositiveSeconds | None = None
    stop_seconds: Seconds = 0.0

    @property
    def member_count(self) -> int:
        """How many members the role has."""
        return self.min if self.max is None else self.max


class GroupLine(LinePart, frozen=True, kw_only=True):
    """One group."""

    id: Id
    queue: Name
    submit_seconds: Seconds
    roles: Annotated[tuple[RoleLine, ...], Meta(min_length=1, max_length=100)]
    priority_class: Name = "default"
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    freeze_seconds: Annotated[int, Meta(ge=0)] = 0
    step_max: Count = 0

    def terms(self) -> ev.Group:
        """The terms of the event that announces it."""
        roles = tuple(ev.GroupRole(role.name, role.min, role.member_count) for role in self.roles)
        return ev.Group(roles=roles, freeze_s=self.freeze_seconds, step_max=self.step_max)

    def find_errors(self) -> list[tuple[str, str]]:
        """What is wrong with it beyond types, as (field, reason)."""
        found: list[tuple[str, str]] = []
        names = [role.name for role in self.roles]
        found += [
            (f"roles.{role.name}.max", f"is {role.max}, below `min`, which is {role.min}")
            for role in self.roles
            if role.member_count < role.min
        ]
        if len(set(names)) < len(names):
            found.append(("roles", "two roles have the same name"))
        total = sum(role.member_count for role in self.roles)
        if not 1 <= total <= MEMBERS_MAX:
            found.append(("roles", f"have {total} members; 1 to {MEMBERS_MAX:,} are permitted"))
        elif not any(role.min for role in self.roles):
            found.append(("roles", "need no member; a `min` of at least 1 is expected"))
        return found


decoder: Final = msgspec.json.Decoder(GroupLine)


def make_members(line: GroupLine) -> list[tuple[dict[str, object], ev.GroupMember]]:
    """The members of a group: the fields of a job's line, and its place in the group."""
    group = GroupId(client_job_id(0, line.queue, "", str(line.id)))
    return [
        (
            {
                "id": f"{line.id}/{role.name}-{index}",
                "queue": line.queue,
                "submit_seconds": line.submit_seconds,
                "run_seconds": role.run_seconds,
                "cpu": role.cpu,
                "memory": role.memory,
                "gpu": role.gpu,
                "priority_class": line.priority_class,
                "priority": line.priority,
                "checkpoint_seconds": role.checkpoint_seconds,
                "stop_seconds": role.stop_seconds,
            },
            ev.GroupMember(group, role.name, index),
        )
        for role in line.roles
        for index in range(role.member_count)
    ]
