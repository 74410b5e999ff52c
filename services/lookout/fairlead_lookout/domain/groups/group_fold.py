"""The fold of groups: the rows that a batch writes about them, and their public events.

Nothing of a group is read back: every row is written with a condition in its statement, so that
the first submission of an id counts and a group that has ended stays as it is.
"""

from collections.abc import Container, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import GroupChangeKind
from fairlead_lookout.domain.groups.group_records import (
    GroupChange,
    GroupChanges,
    GroupEventRow,
    GroupRow,
    MemberRow,
)
from fairlead_lookout.domain.model import EditedJobSets, JobSetKey, Message
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
    events.GroupCancelRequested: "groupCancelling",
    events.GroupRestartRequested: "groupRestartRequested",
    events.GroupRunning: "groupRunning",
    events.GroupRestarting: "groupRestarting",
    events.GroupSucceeded: "groupSucceeded",
    events.GroupFailed: "groupFailed",
    events.GroupCancelled: "groupCancelled",
}
_CHANGES: Final[dict[GroupChangeKind, EventType]] = {
    GroupChangeKind.SCALED: "groupScaled",
    GroupChangeKind.UPDATED: "groupUpdated",
    GroupChangeKind.RECREATED: "groupRecreated",
}
_encode: Final = msgspec.json.Encoder().encode


class GroupFold:
    """Collects what a batch changes of groups, and writes their public events.

    `known_jobs`: the ids of all jobs that exist, in any of these.
    """

    def __init__(
        self,
        writer: EventWriter,
        job_sets: EditedJobSets,
        known_jobs: Sequence[Container[str]],
    ) -> None:
        self.changes: Final = GroupChanges([], [], {}, [])
        self._writer = writer
        self._job_sets = job_sets
        self._known_jobs = known_jobs

    def add_member(self, event: events.JobSubmitted) -> None:
        """Note which member a new job is, if it is one."""
        member = event.group
        if member is not None:
            row = MemberRow(
                event.job_id, member.group, member.role, member.index, member.generation
            )
            self.changes.members.append(row)

    def count_restart(self, event: events.JobRequeued) -> None:
        """Count the restart of a member that uses up a restart of its group."""
        if event.restarts_of is not None:
            self._edit(event.restarts_of).restarts += 1

    def fold(self, message: Message, index: int, event: GroupEvent) -> None:
        """Fold an event of a message, and write its public event."""
        key = (message.sequence.queue, message.sequence.job_set)
        if isinstance(event, events.GroupSubmitted):
            following = message.sequence.events[index + 1 : index + 2]
            if any(
                isinstance(job, events.JobSubmitted) and job.job_id in jobs
                for job in following
                for jobs in self._known_jobs
            ):
                return  # a repeated request
            self.changes.new.append(_make_row(key, message.time_ms, event))
            self._write(message, event, "groupSubmitted", event.terms)
        elif isinstance(event, events.GroupChanged):
            kind = _CHANGES[event.kind]
            change = self._change(message, event, kind)
            if change is not None:
                change.terms = _encode(event.terms).decode()
                if kind == "groupRecreated":
                    change.state, change.restarts, change.is_recreated = "QUEUED", 0, True
                self._write(message, event, kind, event.terms)
        else:
            kind = _TYPES[type(event)]
            change = self._change(message, event, kind)
            if change is not None:
                change.state = _STATES.get(type(event), change.state)
                if isinstance(event, events.GroupRestarting):
                    change.restarts += event.counted
                self._write(message, event, kind, None)

    def _change(self, message: Message, event: GroupEvent, kind: EventType) -> GroupChange | None:
        """The row of the change, if the group has not ended within this batch."""
        change = self._edit(event.group)
        if change.state in FINAL:
            return None
        change.change, change.reason, change.by = kind, _reason(event), message.sequence.by
        change.changed_ms = message.time_ms
        return change

    def _write(
        self, message: Message, event: GroupEvent, kind: EventType, terms: events.Group | None
    ) -> None:
        """Write the public event. `terms`: the new ones, if it changed them."""
        key, by = (message.sequence.queue, message.sequence.job_set), message.sequence.by
        line = self._writer.write(
            self._job_sets.edit(key), kind, None, group=event.group, reason=_reason(event), by=by
        )
        roles = None if terms is None else _encode(terms.roles).decode()
        place = (event.group, line.position, line.item, line.time_ms)
        self.changes.events.append(GroupEventRow(*place, kind, roles, line.json.decode()))

    def _edit(self, group_id: str) -> GroupChange:
        return self.changes.changes.setdefault(group_id, GroupChange(group_id))


def _reason(event: GroupEvent) -> str | None:
    return getattr(event, "reason", None) or None


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
