"""Cancel, preempt, reprioritize, release: validation of a request, and the events for it.

By ids, each job gets an event in its partition. By filter, one event with the filter goes to every
partition that can have such jobs, all in one append; each fold applies it to the jobs that it has.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JOB_ENDED, JOB_WITH_RUN, JobState
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.records import events
from fairlead_common.domain.requests import validation
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_submit.domain import name_rules
from fairlead_submit.domain.callers import RequestContext
from fairlead_submit.domain.jobs.job_terms import check_labels
from fairlead_submit.domain.request_types import Action, Filter, Release, Reprioritization

LABEL_BYTES_MAX: Final = 5_000
LIVE: Final = frozenset(JobState) - JOB_ENDED

ForJob = Callable[[JobId], events.AnyEvent]
ForFilter = Callable[[events.JobFilter], events.AnyEvent]
AnyAction = Action | Reprioritization | Release


class ActionKind(msgspec.Struct, frozen=True):
    """An action on jobs: the name of its route, its body, the required permission, the job states.

    `for_job` and `for_filter` make events from a request (`Any`: each has its own type).
    """

    name: str
    summary: str
    body: type[AnyAction]
    verb: Verb
    states: frozenset[JobState]
    for_job: Callable[[Any], ForJob]
    for_filter: Callable[[Any], ForFilter] | None = None


def _cancel_job(request: Action) -> ForJob:
    return lambda job: events.JobCancelRequested(job_id=job, reason=request.reason or "")


def _cancel_all(request: Action) -> ForFilter:
    return lambda found: events.JobsCancelRequested(filter=found, reason=request.reason or "")


def _preempt_job(request: Action) -> ForJob:
    return lambda job: events.JobPreemptRequested(job_id=job, reason=request.reason or "")


def _preempt_all(request: Action) -> ForFilter:
    return lambda found: events.JobsPreemptRequested(filter=found, reason=request.reason or "")


def _reprioritize_job(request: Reprioritization) -> ForJob:
    priority, reason = request.priority or 0, request.reason or ""
    return lambda job: events.JobReprioritized(job_id=job, priority=priority, reason=reason)


def _reprioritize_all(request: Reprioritization) -> ForFilter:
    priority, reason = request.priority or 0, request.reason or ""
    return lambda found: events.JobsReprioritized(filter=found, priority=priority, reason=reason)


def _release_job(_: Release) -> ForJob:
    return lambda job: events.JobReleased(job_id=job)


ACTION_KINDS: Final = (
    ActionKind("cancel", "Cancel jobs", Action, Verb.CANCEL, LIVE, _cancel_job, _cancel_all),
    ActionKind(
        "preempt",
        "Stop the runs of jobs",
        Action,
        Verb.PREEMPT,
        JOB_WITH_RUN,
        _preempt_job,
        _preempt_all,
    ),
    ActionKind(
        "reprioritize",
        "Change the place of jobs within their queue",
        Reprioritization,
        Verb.REPRIORITIZE,
        LIVE,
        _reprioritize_job,
        _reprioritize_all,
    ),
    ActionKind("release", "Lift the hold on jobs", Release, Verb.SUBMIT, LIVE, _release_job),
)


def check_action(request: AnyAction, ids_max: int) -> list[FieldError]:
    """The errors of a request that decoding cannot find."""
    found: list[FieldError] = []
    if isinstance(request, Reprioritization) and request.priority is None:
        found.append(FieldError("/priority", "is missing"))
    if isinstance(request, Release):
        if request.ids is None:
            return [*found, FieldError("/ids", "is missing")]
        return found + check_ids(request.ids, ids_max)
    return found + check_target(request.ids, request.filter, ids_max)


def check_target(
    given: Sequence[str] | None, chosen: Filter | None, ids_max: int
) -> list[FieldError]:
    """The errors of the target of an action: either ids or a filter."""
    match given, chosen:
        case (None, None) | (list(), Filter()):
            return [FieldError("", "must have either `ids` or `filter`")]
        case (list(), None):
            return check_ids(given, ids_max)
        case (None, Filter()):
            return check_filter(chosen)
    raise AssertionError("ids are a list")


def check_ids(given: Sequence[str], ids_max: int) -> list[FieldError]:
    """The errors of a list of jobs: ids, or `queue/jobSet/clientId`."""
    if not given:
        return [FieldError("/ids", "is empty; at least one job is required")]
    if len(given) > ids_max:
        return [FieldError("/ids", f"has {len(given)} jobs; at most {ids_max} are allowed")]
    found = []
    for index, text in enumerate(given):
        try:
            ids.job_ids_of(text)
        except ValueError:
            detail = f"{validation.quote(text)} is not a job id or queue/jobSet/clientId"
            found.append(FieldError(f"/ids/{index}", detail))
    return found


def check_filter(chosen: Filter) -> list[FieldError]:
    """The errors of a filter, except whether its queue exists."""
    found: list[FieldError] = []
    if chosen.queue is None:
        found.append(FieldError("/filter/queue", "is missing"))
    elif detail := name_rules.check_name(chosen.queue):
        found.append(FieldError("/filter/queue", detail))
    if chosen.job_set is not None and (detail := name_rules.check_job_set_name(chosen.job_set)):
        found.append(FieldError("/filter/jobSet", detail))
    if chosen.labels:
        check_labels(chosen.labels, "/filter/labels", LABEL_BYTES_MAX, found)
    for index, name in enumerate(chosen.classes or ()):
        if detail := name_rules.check_name(name):
            found.append(FieldError(f"/filter/classes/{index}", detail))
    for field in ("cluster", "node"):
        text = getattr(chosen, field)
        if text is not None and (detail := name_rules.check_printable(text)):
            found.append(FieldError(f"/filter/{field}", detail))
    return found


def make_records_for_ids(
    given: Sequence[str], make: ForJob, context: RequestContext
) -> list[Record]:
    """The records of an action on jobs by id. They have no job set: each id names its partition."""
    by_partition: dict[int, list[events.AnyEvent]] = defaultdict(list)
    for text in given:
        job_id = JobId(text)
        by_partition[ids.partition_of_job(job_id)].append(make(job_id))
    return [
        record
        for partition, requested in sorted(by_partition.items())
        for record in _make_records("", "", requested, context, partition)
    ]


def make_records_for_filter(
    chosen: events.JobFilter, make: ForFilter, context: RequestContext
) -> list[Record]:
    """The records of an action on all jobs of a filter, in every partition that can have some."""
    requested = [make(chosen)]
    if chosen.job_set is not None:
        return _make_records(chosen.queue, chosen.job_set, requested, context)
    return [
        record
        for partition in range(JOB_PARTITIONS)
        for record in _make_records(chosen.queue, "", requested, context, partition)
    ]


def _make_records(
    queue: str,
    job_set: str,
    requested: Sequence[events.AnyEvent],
    context: RequestContext,
    partition: int | None = None,
) -> list[Record]:
    return events.records(
        queue,
        job_set,
        context.caller.name,
        requested,
        request=context.request,
        traceparent=context.traceparent,
        partition=partition,
    )


def make_job_filter(chosen: Filter) -> events.JobFilter:
    """The filter as events have it."""
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
