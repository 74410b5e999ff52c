"""The rows of groups that a batch writes."""

import msgspec


class GroupRow(msgspec.Struct, frozen=True):
    """A new group. `terms` and `labels` are JSON."""

    group_id: str
    queue: str
    job_set: str
    client_id: str | None
    digest: str
    terms: str
    labels: str
    submitted_ms: int


class MemberRow(msgspec.Struct, frozen=True):
    """A job that is a member of a group: its role there, and its index within the role."""

    job_id: str
    group_id: str
    role: str
    number: int
    generation: int


class GroupEventRow(msgspec.Struct, frozen=True):
    """A public event of a group: its id (position, item), its type and its JSON.

    `roles` (JSON): the roles with minima and maxima from here on, if the event changed them.
    """

    group_id: str
    position: int
    item: int
    time_ms: int
    type: str
    roles: str | None
    line: str


class GroupChange(msgspec.Struct):
    """What a batch changes of a group. `state`, `terms` and `change` None: they stay as they are;
    `restarts`: how many more, after 0 if the group `is_recreated`."""

    group_id: str
    state: str | None = None
    terms: str | None = None
    change: str | None = None
    reason: str | None = None
    by: str | None = None
    restarts: int = 0
    changed_ms: int = 0
    is_recreated: bool = False


class GroupChanges(msgspec.Struct, frozen=True):
    """Everything that a batch changes of groups: new ones, new members, changes by group, and
    public events."""

    new: list[GroupRow]
    members: list[MemberRow]
    changes: dict[str, GroupChange]
    events: list[GroupEventRow]
