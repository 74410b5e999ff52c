"""Append batches, which are never split, and the bounded appends in which they are written.
Pure."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from fairlead_common.domain.errors import RecordTooLarge
from fairlead_common.domain.ids import partition_of_job
from fairlead_common.domain.records import events as ev
from fairlead_common.log.append_limits import check_append
from fairlead_common.log.protocol import RECORD_BYTES_MAX, Record
from fairlead_scheduler.rules.lease_changes import LeaseChange
from fairlead_scheduler.rules.member_records import GroupRecordChange
from fairlead_scheduler.state.jobs.job_table import BY_SCHEDULER, JobSet

LEASES_PER_APPEND_MAX: Final = 2_500
APPEND_BYTES_MAX: Final = 16 * 1_048_576
BYTES_PER_FACT: Final = 256
"""About the size of an event in its message."""
JOBS_PER_BATCH: Final = 100
"""Jobs that share an append batch although they are independent: one batch each would cost more."""
UNKNOWN_JOB_SET = JobSet("", "")
"""For an event about a job that is known only by its id."""


class AppendBatch(msgspec.Struct, frozen=True, gc=False):
    """Events and leases that must be in one append, for example of a gang that starts and of the
    runs that it preempts."""

    facts: tuple[tuple[JobSet, ev.AnyEvent], ...]
    leases: tuple[LeaseChange, ...] = ()
    group_records: tuple[GroupRecordChange, ...] = ()
    facts_size: int = 0
    """The size of the facts in bytes; 0 if each has about `BYTES_PER_FACT`."""

    @property
    def size(self) -> int:
        """Its approximate size in bytes."""
        records = sum([len(change.record.value or b"") for change in self.leases])
        records += sum([len(change.record.value or b"") for change in self.group_records])
        return records + max(self.facts_size, BYTES_PER_FACT * len(self.facts))


class Append(NamedTuple):
    """The records of one atomic append, and its changes of leases and of records of groups."""

    records: list[Record]
    leases: list[LeaseChange]
    group_records: list[GroupRecordChange]


def group_into_appends(batches: Iterable[AppendBatch]) -> Iterator[Append]:
    """Group batches into atomic appends, in order; events of one job set share messages."""
    facts: dict[JobSet, list[ev.AnyEvent]] = {}
    leases: list[LeaseChange] = []
    group_records: list[GroupRecordChange] = []
    count = size = 0
    for batch in batches:
        more = batch.size
        keyed = len(batch.leases) + len(batch.group_records)
        if (count or leases or group_records) and (
            count + len(batch.facts) > 2 * LEASES_PER_APPEND_MAX
            or len(leases) + len(group_records) + keyed > LEASES_PER_APPEND_MAX
            or size + more > APPEND_BYTES_MAX
        ):
            yield _make_append(facts, leases, group_records)
            facts, leases, group_records, count, size = {}, [], [], 0, 0
        for job_set, event in batch.facts:
            found = facts.get(job_set)
            if found is None:
                facts[job_set] = [event]
            else:
                found.append(event)
        leases += batch.leases
        group_records += batch.group_records
        count += len(batch.facts)
        size += more
    if facts or leases or group_records:
        yield _make_append(facts, leases, group_records)


def explain_too_large(batch: AppendBatch) -> str | None:
    """Why the log would refuse the batch; None if it accepts it."""
    if batch.size <= RECORD_BYTES_MAX:
        return None
    try:
        for append in group_into_appends([batch]):
            check_append(append.records)
    except RecordTooLarge as error:
        return str(error)
    return None


def _make_append(
    facts: dict[JobSet, list[ev.AnyEvent]],
    leases: list[LeaseChange],
    group_records: list[GroupRecordChange],
) -> Append:
    records: list[Record] = []
    for (queue, name), events in facts.items():
        if name:
            records += ev.records(queue, name, BY_SCHEDULER, events)
            continue
        for event in events:
            assert isinstance(event, ev.JobEvent), "only a job's id says where it belongs"
            partition = partition_of_job(event.job_id)
            records += ev.records(queue, name, BY_SCHEDULER, [event], partition=partition)
    records += [change.record for change in leases]
    records += [change.record for change in group_records]
    return Append(records, leases, group_records)
