"""Append batches, which are never split, and the bounded appends that hold them. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from fairlead_common.domain.errors import RecordTooLarge
from fairlead_common.domain.ids import partition_of_job
from fairlead_common.domain.records import events as ev
from fairlead_common.log.append_limits import check_append
from fairlead_common.log.protocol import RECORD_BYTES_MAX, Record
from fairlead_scheduler.rules.lease_changes import LeaseChange
from fairlead_scheduler.state.job_table import BY_SCHEDULER, JobSet

LEASES_PER_APPEND_MAX: Final = 2_500
APPEND_BYTES_MAX: Final = 16 * 1_048_576
UNKNOWN_JOB_SET = JobSet("", "")
"""For an event about a job that is known only by its id."""


class AppendBatch(msgspec.Struct, frozen=True, gc=False):
    """Events and leases that go into one append: of a job or gang and the runs it preempts."""

    facts: tuple[tuple[JobSet, ev.AnyEvent], ...]
    leases: tuple[LeaseChange, ...] = ()

    @property
    def size(self) -> int:
        """Its approximate size in bytes."""
        return sum(len(change.record.value or b"") for change in self.leases) + 256 * len(
            self.facts
        )


class Append(NamedTuple):
    """The records of one atomic append, and its changes of leases."""

    records: list[Record]
    leases: list[LeaseChange]


def group_into_appends(batches: Iterable[AppendBatch]) -> Iterator[Append]:
    """Group batches into atomic appends, in order; events of one job set share messages."""
    facts: dict[JobSet, list[ev.AnyEvent]] = {}
    leases: list[LeaseChange] = []
    count = size = 0
    for batch in batches:
        more = batch.size
        if (count or leases) and (
            count + len(batch.facts) > 2 * LEASES_PER_APPEND_MAX
            or len(leases) + len(batch.leases) > LEASES_PER_APPEND_MAX
            or size + more > APPEND_BYTES_MAX
        ):
            yield _make_append(facts, leases)
            facts, leases, count, size = {}, [], 0, 0
        for job_set, event in batch.facts:
            found = facts.get(job_set)
            if found is None:
                facts[job_set] = [event]
            else:
                found.append(event)
        leases += batch.leases
        count += len(batch.facts)
        size += more
    if facts or leases:
        yield _make_append(facts, leases)


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


def _make_append(facts: dict[JobSet, list[ev.AnyEvent]], leases: list[LeaseChange]) -> Append:
    records: list[Record] = []
    for (queue, name), events in facts.items():
        if name:
            records += ev.records(queue, name, BY_SCHEDULER, events)
            continue
        for event in events:
            assert isinstance(event, ev.JobEvent), "only a job's id says where it belongs"
            partition = partition_of_job(event.job_id)
            records += ev.records(queue, name, BY_SCHEDULER, [event], partition=partition)
    return Append(records + [change.record for change in leases], leases)
