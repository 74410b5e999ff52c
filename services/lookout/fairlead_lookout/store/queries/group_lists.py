"""Reads groups: one, lists of them, and their members."""

from typing import Any, Final

import msgspec

from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.queries.view_reader import ViewReader

MEMBERS_MAX: Final = 10_000


class GroupFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups a list contains; an absent field does not restrict it."""

    visible_queues: QueueScope = ALL_QUEUES
    queue: str | None = None
    job_set: str | None = None
    client_id: str | None = None
    states: tuple[str, ...] = ()


class RoleScaling(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How a role was scaled. `change`: the scheduler `started` or `stopped` surplus members (their
    number is `members`), or a user (`by`) `changed` the minimum or maximum."""

    time: str
    change: str
    members: int = 0
    by: str = ""
    reason: str | None = None


class RoleCounts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The members of a role by state. `stopped`: cancelled, preempted or rejected.

    `hops`: the distance of the farthest members that run, of a group with a topology (rule T1).
    `lastScaling`: only of a single group.
    """

    name: str
    min: int
    max: int
    queued: int
    pending: int
    running: int
    succeeded: int
    failed: int
    stopped: int
    hops: int | None = None
    last_scaling: RoleScaling | None = None


class GroupPage(msgspec.Struct, frozen=True):
    """Rows of a page, newest first, and the cursor of the next page."""

    rows: list[Any]
    next: str | None


class MemberRows(msgspec.Struct, frozen=True):
    """The newest member of each index of each role in the present generation, by role and index,
    and how many earlier ones there were: scaled away, or of an earlier generation."""

    rows: list[Any]
    earlier: int


_decode_roles: Final = msgspec.json.Decoder(list[RoleCounts]).decode


def decode_roles(row: Any) -> list[RoleCounts]:
    """The roles of a row of a group."""
    return _decode_roles(row["roles"])


async def read_groups(
    view: ViewReader, wanted: GroupFilter, limit: int, cursor: str | None
) -> GroupPage:
    """A page of groups. Raises a 400 `Problem` for an invalid cursor."""
    query = ("groups", wanted.queue, wanted.job_set, wanted.client_id, *wanted.states)
    place = list_cursors.decode(query, cursor)
    only, but = wanted.visible_queues.arguments()
    rows = await view.fetch(
        "groups",
        only,
        but,
        wanted.queue,
        wanted.job_set,
        wanted.client_id,
        list(wanted.states) or None,
        None if place is None else place[0],
        None if place is None else place[1],
        limit + 1,
    )
    if len(rows) <= limit:
        return GroupPage(rows, None)
    last = rows[limit - 1]
    following = list_cursors.encode(query, last["submitted_ms"], last["id"])
    return GroupPage(rows[:limit], following)


async def read_group(view: ViewReader, group: str) -> Any | None:
    """The row of a group."""
    rows = await view.fetch("groups_by_id", [group])
    return rows[0] if rows else None


async def find_groups(view: ViewReader, visible: QueueScope, text: str, limit: int) -> list[Any]:
    """The rows of the newest groups with this id or with the text in their client id."""
    found = await view.find_ids("groups", visible, text, limit)
    return await view.fetch("groups_by_id", found) if found else []


async def read_members(view: ViewReader, group: str) -> MemberRows:
    """The members of a group."""
    rows = await view.fetch("members", group, MEMBERS_MAX)
    (counted,) = await view.fetch("count_member_jobs", group)
    return MemberRows(rows, counted["jobs"] - len(rows))
