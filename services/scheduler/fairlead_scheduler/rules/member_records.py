"""Makes the records by which executors learn where the members of a group run. Pure.

Each executor with a run of a group gets one record, which names all live members. It is appended
before the leases of the same cycle. So when a group starts again, no executor still has a record
that counts its earlier runs (C4).
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, partition_of_job
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import leases
from fairlead_common.domain.records.leases import GroupMembers, LiveMember
from fairlead_common.log.protocol import RECORD_BYTES_MAX, Record
from fairlead_scheduler.state.jobs import groups, job_table
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.view import View

MEMBERS_PER_CYCLE_MAX: Final = 20_000
"""The number of described members after which a cycle describes only groups whose members wait for
others; the rest follows in the next cycle."""


VALUE_BYTES_MAX: Final = RECORD_BYTES_MAX - 1_024
"""The most bytes of the value of a record of a group."""


class GroupRecordChange(msgspec.Struct, frozen=True, gc=False):
    """A record about a group for one executor, and its digest (None: the record ends)."""

    group: GroupId
    executor: str
    digest: bytes | None
    record: Record


class GroupRecords:
    """The digests of the records that executors have, by group and executor."""

    def __init__(self) -> None:
        self.by_group: dict[GroupId, dict[str, bytes]] = {}

    def read_back(self, executor: str, group: GroupId, value: bytes) -> None:
        """Restore the record in the topic of an executor."""
        self.by_group.setdefault(group, {})[executor] = make_digest(value)

    def apply(self, changes: Sequence[GroupRecordChange]) -> None:
        """Apply the changes of a completed append."""
        for change in changes:
            known = self.by_group.setdefault(change.group, {})
            if change.digest is None:
                known.pop(change.executor, None)
            else:
                known[change.executor] = change.digest
            if not known:
                del self.by_group[change.group]


def make_digest(value: bytes) -> bytes:
    """The digest of a record, which is retained instead of the record because that can be large."""
    return hashlib.blake2b(value, digest_size=16).digest()


def list_all(view: View, known: GroupRecords) -> set[GroupId]:
    """The groups that a new leader compares with what executors have."""
    return view.groups.keys() | known.by_group.keys()


def decide_group_records(
    view: View, known: GroupRecords, members_max: int = MEMBERS_PER_CYCLE_MAX
) -> Iterator[GroupRecordChange]:
    """The records that differ from what executors have, of the groups that are due."""
    described = 0
    for group in sorted(view.group_records_due, key=lambda group: not _has_waiting(view, group)):
        if partition_of_job(group) in view.stopped:
            continue
        if described >= members_max and not _has_waiting(view, group):
            break
        view.group_records_due.discard(group)
        state = view.groups.get(group)
        rows = [] if state is None else _list_live_members(view, state)
        described += len(rows)
        yield from _make_changes(view, group, state, rows, known.by_group.get(group, {}))


def _has_waiting(view: View, group: GroupId) -> bool:
    """Whether members of the group wait until others run."""
    state = view.groups.get(group)
    return state is not None and bool(state.terms.startup or state.terms.network.rendezvous)


def _list_live_members(view: View, state: GroupState) -> list[int]:
    """The rows of the members with a live run."""
    jobs = view.jobs
    rows = (jobs.rows[job_id] for job_id in view.gang_members.get(state.gang_name, ()))
    return [row for row in rows if job_table.LIVE_RUN[jobs.run_state.item(row)]]


def _make_changes(
    view: View,
    group: GroupId,
    state: GroupState | None,
    rows: Sequence[int],
    known: dict[str, bytes],
) -> Iterator[GroupRecordChange]:
    executors = {_node(view, row).executor for row in rows}
    if state is not None and rows:
        members = shorten_members(describe_members(view, state, rows))
        for executor in sorted(executors):
            record = leases.group_record(executor, group, members)
            digest = make_digest(record.value or b"")
            if known.get(executor) != digest:
                yield GroupRecordChange(group, executor, digest, record)
    for executor in sorted(known.keys() - executors):
        record = leases.group_record(executor, group, None)
        yield GroupRecordChange(group, executor, None, record)


def shorten_members(members: GroupMembers, bytes_max: int = VALUE_BYTES_MAX) -> GroupMembers:
    """The members, shortened so that the log accepts the record: without the names of nodes, and if
    that is not enough, without the last members."""
    if len(msgspec.json.encode(members)) <= bytes_max:
        return members
    rows = tuple(LiveMember(m.role, m.index, m.state, "", m.address) for m in members.members)
    members = msgspec.structs.replace(members, members=rows)
    size = len(msgspec.json.encode(members))
    if size > bytes_max:
        count = len(rows) * bytes_max // (2 * size)
        members = msgspec.structs.replace(members, members=rows[:count])
    return members


def describe_members(view: View, state: GroupState, rows: Sequence[int]) -> GroupMembers:
    """The live members of a group, and the roles that have started. `rows`: of these members."""
    jobs = view.jobs
    order = {role.name: place for place, role in enumerate(state.terms.roles)}
    places: list[tuple[int, int, int]] = []
    for row in rows:
        member = jobs.rare_properties[row].member
        assert member is not None, "the members of a group name it"
        places.append((order.get(member.role, len(order)), member.index, row))
    places.sort()
    members = []
    running = dict.fromkeys(order, 0)
    for _, index, row in places:
        rare, job_state = jobs.rare_properties[row], job_table.JOB_STATES[jobs.state.item(row)]
        assert rare.member is not None
        role = rare.member.role
        if job_state is JobState.RUNNING and role in running:
            running[role] += 1
        address = rare.address if jobs.run.item(row) == rare.address_run else ""
        members.append(LiveMember(role, index, job_state, _node(view, row).node, address))
    started = tuple(
        role.name
        for role in state.terms.roles
        if role.name in state.terms.startup
        and running[role.name] >= groups.minimum_left(state, role)
    )
    return GroupMembers(
        group=state.group,
        name=state.client_id or state.group,
        members=tuple(members),
        started=started,
        master_ended=state.terms.network.rendezvous is not None
        and groups.find_master(state) is None,
    )


def _node(view: View, row: int) -> job_table.NodeName:
    return view.jobs.nodes.values[view.jobs.node.item(row)]
