"""Cancel, preempt, reprioritise, release: from a request to the events that ask for it. Pure.

By ids, each job gets an event in its partition. By filter, one event with the filter goes to every
partition that may hold such jobs, all in one append; each fold applies it to the jobs it knows.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from fairlead_common import events, ids
from fairlead_common.errors import Fault
from fairlead_common.ids import JobId
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_submit import faults, names
from fairlead_submit.requests import Filter
from fairlead_submit.templates import check_labels

LABEL_BYTES_MAX: Final = 5_000

ForJob = Callable[[JobId], events.AnyEvent]
ForFilter = Callable[[events.JobFilter], events.AnyEvent]


def check_ids(given: Sequence[str], ids_max: int) -> list[Fault]:
    """What is wrong with a list of job ids."""
    if not given:
        return [Fault("/ids", "names no job")]
    if len(given) > ids_max:
        return [Fault("/ids", f"names {len(given)} jobs; at most {ids_max} are allowed")]
    found = []
    for index, text in enumerate(given):
        try:
            if ids.partition_of_job(text) < JOB_PARTITIONS:
                continue
        except ValueError:
            pass
        found.append(Fault(f"/ids/{index}", f"{faults.shown(text)} is no job id"))
    return found


def check_filter(chosen: Filter) -> list[Fault]:
    """What is wrong with a filter; whether its queue exists is not known here."""
    found: list[Fault] = []
    if chosen.queue is None:
        found.append(Fault("/filter/queue", "is missing"))
    elif detail := names.queue(chosen.queue):
        found.append(Fault("/filter/queue", detail))
    if chosen.job_set is not None and (detail := names.job_set(chosen.job_set)):
        found.append(Fault("/filter/jobSet", detail))
    if chosen.labels:
        check_labels(chosen.labels, "/filter/labels", LABEL_BYTES_MAX, found)
    for index, name in enumerate(chosen.classes or ()):
        if detail := names.queue(name):
            found.append(Fault(f"/filter/classes/{index}", detail))
    for field in ("cluster", "node"):
        text = getattr(chosen, field)
        if text is not None and (detail := names.printable(text)):
            found.append(Fault(f"/filter/{field}", detail))
    return found


def for_ids(given: Sequence[str], make: ForJob, by: str, request: str) -> list[Record]:
    """The messages that ask this of jobs by id. They stand in no job set: the ids say it all."""
    by_partition: dict[int, list[events.AnyEvent]] = defaultdict(list)
    for text in dict.fromkeys(given):
        job_id = JobId(text)
        by_partition[ids.partition_of_job(job_id)].append(make(job_id))
    return [
        record
        for partition, asked in sorted(by_partition.items())
        for record in events.records("", "", by, asked, request=request, partition=partition)
    ]


def for_filter(chosen: Filter, make: ForFilter, by: str, request: str) -> list[Record]:
    """The messages that ask this of all jobs of a filter, in every partition concerned."""
    assert chosen.queue is not None
    asked = make(
        events.JobFilter(
            queue=chosen.queue,
            job_set=chosen.job_set,
            states=tuple(chosen.states or ()),
            classes=tuple(chosen.classes or ()),
            labels=chosen.labels or {},
            executor=chosen.cluster,
            node=chosen.node,
        )
    )
    if chosen.job_set is not None:
        return events.records(chosen.queue, chosen.job_set, by, [asked], request=request)
    return [
        record
        for partition in range(JOB_PARTITIONS)
        for record in events.records(
            chosen.queue, "", by, [asked], request=request, partition=partition
        )
    ]
