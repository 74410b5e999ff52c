"""Reports as records of `fairlead.jobs`: one message per job set and plan."""

from collections import defaultdict
from collections.abc import Iterable

from fairlead_common.domain.records import events as ev
from fairlead_common.log.protocol import Record
from fairlead_executor.domain.reconciliation import Report, RunReport


def report_records(executor: str, reports: Iterable[Report]) -> list[Record]:
    """The messages with these reports; the events of a job set keep their order."""
    by_set: defaultdict[tuple[str, str], list[RunReport]] = defaultdict(list)
    for report in reports:
        lease = report.wanted.lease
        by_set[lease.queue, lease.job_set].append(report.event)
    by = f"executor {executor}"
    made: list[Record] = []
    for (queue, job_set), events in by_set.items():
        made += ev.records(queue, job_set, by, events)
    return made
