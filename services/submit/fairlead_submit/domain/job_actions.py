"""Cancel, preempt, reprioritise, release: from a request to the events that ask for it. Pure.

By ids, each job gets an event in its partition. By filter, one event with the filter goes to every
partition that may hold such jobs, all in one append; each fold applies it to the jobs it knows.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JOB_ENDED, JOB_HELD, JobState
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.records import events
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_submit.domain import name_rules, validation
from fairlead_submit.domain.callers import RequestContext
from fairlead_submit.domain.job_terms import check_labels
from fairlead_submit.domain.request_types import Action, Filter, Release, Reprioritization

LABEL_BYTES_MAX: Final = 5_000
LIVE: Final = frozenset(JobState) - JOB_ENDED

ForJob = Callable[[JobId], events.AnyEvent]
ForFilter = Callable[[events.JobFilter], events.AnyEvent]
AnyAction = Action | Reprioritization | Release


class Kind(msgspec.Struct, frozen=True):
    """One way of asking something of jobs: its route's name, its body, who may, what it concerns.

    `for_job` and `for_filter` make the events from a request (`Any`: each has a type of its own).
    """

    name: str
    summary: str
    body: type[AnyAction]
    verb: Verb
    concerned: frozenset[JobState]
    for_job: Callable[[Any], ForJob]
    for_filter: Callable[[Any], ForFilter] | None = None


def _cancel_job(asked: Action) -> ForJob:
    return lambda job: events.JobCancelRequested(job_id=job, reason=asked.reason or "")


def _cancel_all(asked: Action) -> ForFilter:
    return lambda found: events.JobsCancelRequested(filter=found, reason=asked.reason or "")


def _preempt_job(asked: Action) -> ForJob:
    return lambda job: events.JobPreemptRequested(job_id=job, reason=asked.reason or "")


def _preempt_all(asked: Action) -> ForFilter:
    return lambda found: events.JobsPreemptRequested(filter=found, reason=asked.reason or "")


def _move_job(asked: Reprioritization) -> ForJob:
    place, why = asked.priority or 0, asked.reason or ""
    return lambda job: events.JobReprioritized(job_id=job, priority=place, reason=why)


def _move_all(asked: Reprioritization) -> ForFilter:
    place, why = asked.priority or 0, asked.reason or ""
    return lambda found: events.JobsReprioritized(filter=found, priority=place, reason=why)


def _release_job(_: Release) -> ForJob:
    return lambda job: events.JobReleased(job_id=job)


KINDS: Final = (
    Kind("cancel", "Cancel jobs", Action, Verb.CANCEL, LIVE, _cancel_job, _cancel_all),
    Kind(
        "preempt",
        "Stop the runs of jobs",
        Action,
        Verb.PREEMPT,
        JOB_HELD,
        _preempt_job,
        _preempt_all,
    ),
    Kind(
        "reprioritize",
        "Change the place of jobs within their queue",
        Reprioritization,
        Verb.REPRIORITIZE,
        LIVE,
        _move_job,
        _move_all,
    ),
    Kind("release", "Lift the hold on jobs", Release, Verb.SUBMIT, LIVE, _release_job),
)


def check(asked: AnyAction, ids_max: int) -> list[FieldError]:
    """What is wrong with a request that decoding could not see."""
    found: list[FieldError] = []
    if isinstance(asked, Reprioritization) and asked.priority is None:
        found.append(FieldError("/priority", "is missing"))
    if isinstance(asked, Release):
        if asked.ids is None:
            return [*found, FieldError("/ids", "is missing")]
        return found + check_ids(asked.ids, ids_max)
    return found + check_target(asked.ids, asked.filter, ids_max)


def check_target(
    given: Sequence[str] | None, chosen: Filter | None, ids_max: int
) -> list[FieldError]:
    """What is wrong with what names the jobs: either ids or a filter."""
    match given, chosen:
        case (None, None) | (list(), Filter()):
            return [FieldError("", "names either `ids` or a `filter`")]
        case (list(), None):
            return check_ids(given, ids_max)
        case (None, Filter()):
            return check_filter(chosen)
    raise AssertionError("ids are a list")


def check_ids(given: Sequence[str], ids_max: int) -> list[FieldError]:
    """What is wrong with a list of jobs: ids, or `queue/jobSet/clientId`."""
    if not given:
        return [FieldError("/ids", "names no job")]
    if len(given) > ids_max:
        return [FieldError("/ids", f"names {len(given)} jobs; at most {ids_max} are allowed")]
    found = []
    for index, text in enumerate(given):
        try:
            ids.job_id_of(text)
        except ValueError:
            detail = f"{validation.shown(text)} is neither a job id nor queue/jobSet/clientId"
            found.append(FieldError(f"/ids/{index}", detail))
    return found


def check_filter(chosen: Filter) -> list[FieldError]:
    """What is wrong with a filter; whether its queue exists is not known here."""
    found: list[FieldError] = []
    if chosen.queue is None:
        found.append(FieldError("/filter/queue", "is missing"))
    elif detail := name_rules.queue(chosen.queue):
        found.append(FieldError("/filter/queue", detail))
    if chosen.job_set is not None and (detail := name_rules.job_set(chosen.job_set)):
        found.append(FieldError("/filter/jobSet", detail))
    if chosen.labels:
        check_labels(chosen.labels, "/filter/labels", LABEL_BYTES_MAX, found)
    for index, name in enumerate(chosen.classes or ()):
        if detail := name_rules.queue(name):
            found.append(FieldError(f"/filter/classes/{index}", detail))
    for field in ("cluster", "node"):
        text = getattr(chosen, field)
        if text is not None and (detail := name_rules.printable(text)):
            found.append(FieldError(f"/filter/{field}", detail))
    return found


def for_ids(given: Sequence[str], make: ForJob, context: RequestContext) -> list[Record]:
    """The messages that ask this of jobs by id. They stand in no job set: the ids say it all."""
    by_partition: dict[int, list[events.AnyEvent]] = defaultdict(list)
    for text in given:
        job_id = JobId(text)
        by_partition[ids.partition_of_job(job_id)].append(make(job_id))
    return [
        record
        for partition, told in sorted(by_partition.items())
        for record in _records("", "", told, context, partition)
    ]


def for_filter(chosen: events.JobFilter, make: ForFilter, context: RequestContext) -> list[Record]:
    """The messages that ask this of all jobs of a filter, in every partition concerned."""
    told = [make(chosen)]
    if chosen.job_set is not None:
        return _records(chosen.queue, chosen.job_set, told, context)
    return [
        record
        for partition in range(JOB_PARTITIONS)
        for record in _records(chosen.queue, "", told, context, partition)
    ]


def _records(
    queue: str,
    job_set: str,
    told: Sequence[events.AnyEvent],
    context: RequestContext,
    partition: int | None = None,
) -> list[Record]:
    return events.records(
        queue,
        job_set,
        context.caller.name,
        told,
        request=context.request,
        traceparent=context.traceparent,
        partition=partition,
    )


def job_filter(chosen: Filter) -> events.JobFilter:
    """The filter as folds read it."""
    assert chosen.queue is not None
    return events.JobFilter(
        queue=chosen.queue,
        job_set=chosen.job_set,
        states=tuple(chosen.states or ()),
        classes=tuple(chosen.classes or ()),
        labels=chosen.labels or {},
        executor=chosen.cluster,
        node=chosen.node,
    )
