"""The fold of groups: the rows that a batch writes about them, and their public events.

Nothing of a group is read back: every row is written with a condition in its statement, so that
the first submission of an id counts and a group that has ended stays as it is.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_common.domain.records import events
from fairlead_lookout.domain.group_records import GroupChange, GroupChanges, GroupRow, MemberRow
from fairlead_lookout.domain.model import Job, JobSet, JobSetKey, Message
from fairlead_lookout.domain.public_events import EventType, EventWriter

GroupEvent = (
    events.GroupSubmitted
    | events.GroupChanged
    | events.GroupCancelRequested
    | events.GroupRestartRequested
    | events.GroupRunning
    | events.GroupRestarting
    | events.GroupSucceeded
    | events.GroupFailed
    | events.GroupCancelled
)
FINAL: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
_STATES: Final[dict[type, str]] = {
    events.GroupRunning: "RUNNING",
    events.GroupRestarting: "QUEUED",
    events.GroupSucceeded: "SUCCEEDED",
    events.GroupFailed: "FAILED",
    events.GroupCancelled: "CANCELLED",
}
_TYPES: Final[dict[type, EventType]] = {
    events.GroupSubmitted: "groupSubmitted",
    events.GroupChanged: "groupScaled",
    events.GroupCancelRequested: "groupCancelling",
    events.GroupRestartRequested: "groupRestartRequested",
    events.GroupRunning: "groupRunning",
    events.GroupRestarting: "groupRestarting",
    events.GroupSucceeded: "groupSucceeded",
    events.GroupFailed: "groupFailed",
    events.GroupCancelled: "groupCancelled",
}
_encode: Final = msgspec.json.Encoder().encode


class GroupFold:
    """Collects what a batch changes of groups, and writes their public events."""

    def __init__(
        self,
        writer: EventWriter,
        edit_set: Callable[[JobSetKey], JobSet],
        find_job: Callable[[str], Job | None],
    ) -> None:
        self.changes: Final = GroupChanges([], [], {})
        self._writer = writer
        self._edit_set = edit_set
        self._find_job = find_job

    def add_member(self, event: events.JobSubmitted) -> None:
        """Note which member a new job is, if it is one."""
        member = event.group
        if member is not None:
            row = MemberRow(event.job_id, member.group, member.role, member.index)
            self.changes.members.append(row)

    def count_restart(self, event: events.JobRequeued) -> None:
        """Count the restart of a member that uses up a restart of its group."""
        if event.restarts_of is not None:
            self._edit(event.restarts_of).restarts += 1

    def fold(self, message: Message, index: int, event: GroupEvent) -> None:
        """Fold an event of a message, and write its public event."""
        key, by = (message.sequence.queue, message.sequence.job_set), message.sequence.by
        kind: EventType = _TYPES[type(event)]
        reason: str | None = getattr(event, "reason", None) or None
        if isinstance(event, events.GroupSubmitted):
            following = message.sequence.events[index + 1 : index + 2]
            if any(
                isinstance(job, events.JobSubmitted) and self._find_job(job.job_id) is not None
                for job in following
            ):
                return  # a repeated request
            self.changes.new.append(_make_row(key, message.time_ms, event))
        else:
            change = self._edit(event.group)
            if change.state in FINAL:
                return
            state = _STATES.get(type(event))
            change.state = change.state if state is None else state
            if isinstance(event, events.GroupChanged):
                change.terms = _encode(event.terms).decode()
            if isinstance(event, events.GroupRestarting):
                change.restarts += event.counted
            change.change, change.reason, change.by = kind, reason, by
            change.changed_ms = message.time_ms
        self._writer.write(self._edit_set(key), kind, None, group=event.group, reason=reason, by=by)

    def _edit(self, group_id: str) -> GroupChange:
        return self.changes.changes.setdefault(group_id, GroupChange(group_id))


def _make_row(key: JobSetKey, time_ms: int, event: events.GroupSubmitted) -> GroupRow:
    return GroupRow(
        group_id=event.group,
        queue=key[0],
        job_set=key[1],
        client_id=event.client_id,
        digest=event.digest,
        terms=_encode(event.terms).decode(),
        labels=_encode(event.labels).decode(),
        submitted_ms=time_ms,
    )
