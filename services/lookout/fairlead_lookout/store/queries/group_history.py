"""The public events of a group, how it was scaled, and how many of its members ran over time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from fairlead_common.domain.ids import partition_of_job
from fairlead_common.domain.records.group_terms import GroupRole
from fairlead_lookout.domain.groups.group_scalings import (
    MemberRun,
    RoleTerms,
    Scaling,
    list_scalings,
)
from fairlead_lookout.domain.public_events import PublicEvent
from fairlead_lookout.store.queries.job_set_events import EventRange, Events
from fairlead_lookout.store.queries.view_reader import ViewReader
from fairlead_lookout.store.view_progress import ViewProgress

ROWS: Final = 256
POLL_S_MIN: Final = 0.5
"""A stream reads the table at most this often."""
QUIET_S: Final = 5.0
SPANS: Final = 300
"""Members are counted in this many spans of the shown time."""
EVENTS_MAX: Final = 200
"""The newest events are read."""
RUNS_MAX: Final = 1_000
"""The runs that changed last are examined for what the scheduler scaled."""
_decode_event: Final = msgspec.json.Decoder(PublicEvent).decode
_decode_roles: Final = msgspec.json.Decoder(tuple[GroupRole, ...]).decode


class GroupHistory(msgspec.Struct, frozen=True):
    """What happened to a group: its newest events with their times (ms), newest first; its roles
    over time; and what the scheduler scaled and restarted, newest first."""

    events: list[tuple[int, PublicEvent]]
    terms: list[RoleTerms]
    scalings: list[Scaling]


async def read_events(
    view: ViewReader, progress: ViewProgress, group: str, wanted: EventRange
) -> AsyncIterator[Events]:
    """Batches of (id, line). An empty batch: no event for some seconds.

    `until_finished`: until the group has ended.
    """
    seen, partition = wanted.seen, partition_of_job(group)
    follow = wanted.follow or wanted.until_finished
    while True:
        at = progress.positions
        ended = wanted.until_finished and await _has_ended(view, group)
        while rows := await view.fetch("group_events", group, *seen, ROWS):
            some = [((row["position"], row["item"]), row["line"].encode()) for row in rows]
            seen = some[-1][0]
            yield some
        if ended or not follow:
            return
        await asyncio.sleep(POLL_S_MIN)
        if at.get(partition) == progress.positions.get(partition):
            await progress.wait_for_change(at, QUIET_S)
        yield []


async def _has_ended(view: ViewReader, group: str) -> bool:
    """Whether the group has ended, or does not exist any more."""
    rows = await view.fetch("group_ended", group)
    return not rows or rows[0]["ended_ms"] is not None


async def read_history(view: ViewReader, group: str) -> GroupHistory:
    """The newest events of a group, and what was scaled."""
    rows = await view.fetch("newest_group_events", group, EVENTS_MAX)
    events = [_decode_event(row["line"]) for row in rows]
    runs = await view.fetch("member_runs", group, RUNS_MAX)
    terms = [
        RoleTerms(
            row["time_ms"],
            {role.name: role for role in _decode_roles(row["roles"])},
            event.by,
            event.reason,
        )
        for row, event in zip(reversed(rows), reversed(events), strict=True)
        if row["roles"] is not None
    ]
    found = [
        MemberRun(
            row["role"],
            row["number"],
            row["leased_ms"],
            row["ended_ms"],
            row["cause"],
            row["reason"],
            row["follows_failure"],
            row["is_repeated"],
        )
        for row in runs
    ]
    return GroupHistory(
        events=[(row["time_ms"], event) for row, event in zip(rows, events, strict=True)],
        terms=terms,
        scalings=list_scalings(found, terms),
    )


async def read_running_members(
    view: ViewReader, group: str, begin_ms: int, end_ms: int
) -> list[Any]:
    """(role, time_ms, running) in order, at most `SPANS` and two more of each role."""
    return await view.fetch("running_members", group, begin_ms, end_ms, SPANS)
