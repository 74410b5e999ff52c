"""Reads the jobs of a simulation from a file for `fairlead submit`.

The submissions, with their pod specs and defaults, are decoded by a function of the service submit,
which it registers in the entry point group `fairlead.submissions`. All jobs are submitted at the
start and run for the time that the caller gives, because such a file contains neither; `hold`,
`startAfter` and `maxQueueSeconds` are ignored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId, is_array_id, task_ids
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import index_sets
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_scheduler.simulate.input import yaml_documents
from fairlead_scheduler.simulate.input.input_errors import InputErrors
from fairlead_scheduler.simulate.input.job_lines import to_ms
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings, list_classes
from fairlead_scheduler.simulate.input.yaml_documents import Document
from fairlead_scheduler.simulate.model.trace import JOBS_MAX, NEVER, Trace

SUFFIXES: Final = (".yaml", ".yml", ".json")
GROUP: Final = "fairlead.submissions"
_SPEC: Final = msgspec.Raw(b"{}")
_NOT_INSTALLED: Final = "needs the package fairlead-submit to read this file; install it"

_Submitted = ev.JobSubmitted | ev.ArraySubmitted
Prepare = Callable[
    [Mapping[str, Any], tuple[PriorityClass, ...], Mapping[str, Any], int],
    tuple[Sequence[_Submitted], dict[JobId, str], list[FieldError]],
]
"""A submission, classes, defaults of jobs and a number -> events, jobs and arrays outside the
submission, errors."""


class FileSubmission(NamedTuple):
    """One submission of the file."""

    document: Document
    queue: str
    job_set: str
    jobs: Sequence[_Submitted]
    outside: dict[JobId, str]


def read_submissions(
    path: Path,
    run_s: float,
    pool: str,
    settings: SimulationSettings,
    errors: InputErrors,
    *,
    trace: Trace,
    group: str = GROUP,
) -> int:
    """Add the jobs of a file in its order, with a run time of `run_s`.

    Returns the number of its jobs of other pools, which are not added.
    """
    documents = yaml_documents.read_documents(path, errors)
    prepare = _find_prepare(group)
    if prepare is None:
        errors.add(str(path), 0, "", _NOT_INSTALLED)
        return 0
    found: list[FileSubmission] = []
    number = 0
    for document in documents:
        submitted = _prepare(document, prepare, settings, number, errors)
        if submitted is not None:
            found.append(submitted)
            number += len(submitted.jobs)
    return 0 if errors.count else _add(trace, found, run_s, pool, errors)


def _find_prepare(group: str) -> Prepare | None:
    points = metadata.entry_points(group=group)
    found: Prepare | None = next((point.load() for point in points), None)
    return found


def _prepare(
    document: Document,
    prepare: Prepare,
    settings: SimulationSettings,
    number: int,
    errors: InputErrors,
) -> FileSubmission | None:
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("jobs"), list):
        reason = "is not a submission (`queue`, `jobSet`, `jobs`)"
        errors.add(document.file, document.line(), "", reason)
        return None
    value.setdefault("queue", "default")
    value.setdefault("jobSet", "simulated")
    try:
        jobs, outside, wrong = prepare(
            value, list_classes(settings.scheduler), settings.job_defaults, number
        )
    except msgspec.ValidationError as error:
        errors.add("--settings", 0, "submit.jobDefaults", str(error))
        return None
    for field_error in wrong:
        place = _split_pointer(field_error.pointer)
        inner = place[2:] if place[:1] == ("jobs",) else place
        field = ".".join(map(str, inner))
        errors.add(document.file, document.line(*place), field, field_error.detail)
    return FileSubmission(document, str(value["queue"]), str(value["jobSet"]), jobs, outside)


def _split_pointer(pointer: str) -> tuple[str | int, ...]:
    """The names and numbers of a JSON pointer."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return tuple(int(part) if part.isdigit() else part for part in parts)


def _add(
    trace: Trace, found: list[FileSubmission], run_s: float, pool: str, errors: InputErrors
) -> int:
    names = _name_jobs(found)
    others = 0
    places: dict[str, set[str]] = {}
    for submitted in found:
        places.setdefault(submitted.queue, set()).add(submitted.job_set)
        for job_id, pointer in submitted.outside.items():
            if job_id not in names:
                line = submitted.document.line(*_split_pointer(pointer))
                reason = "refers to a job that is not in the file"
                errors.add(submitted.document.file, line, "after", reason)
        if sum(_count_jobs(each) for each in submitted.jobs) > JOBS_MAX:
            errors.add(submitted.document.file, 0, "", f"more than {JOBS_MAX} jobs")
    if errors.count:
        return others
    for submitted in found:
        for submission in submitted.jobs:
            if isinstance(submission, ev.ArraySubmitted):
                others += _add_array(trace, submitted.queue, submission, run_s, pool, names)
                continue
            event = submission
            if event.pool != pool:
                others += 1
                continue
            job = _add_job(trace, names[event.job_id], submitted.queue, event, run_s)
            gang = event.gang
            if gang is not None and len(places[submitted.queue]) > 1:
                gang = msgspec.structs.replace(gang, name=f"{submitted.job_set}/{gang.name}")
            add_optional_fields(trace, job, event, gang, _name_all(event.after, names))
    return others


def _count_jobs(event: _Submitted) -> int:
    return len(index_sets.parse(event.indexes)) if isinstance(event, ev.ArraySubmitted) else 1


def _add_job(trace: Trace, name: str, queue: str, event: ev.JobSubmitted, run_s: float) -> int:
    return trace.add(
        name,
        submit_ms=0,
        run_ms=to_ms(run_s),
        queue=queue,
        shape=trace.shapes.number(bytes(event.shape)),
        priority_class=event.priority_class,
        priority=event.priority,
        runtime_ms_max=1000 * (event.runtime_s_max or 0) or NEVER,
    )


def _add_array(
    trace: Trace,
    queue: str,
    array: ev.ArraySubmitted,
    run_s: float,
    pool: str,
    names: Mapping[JobId, str],
) -> int:
    """Add the tasks of an array; returns how many are of another pool, and so not added."""
    indexes = index_sets.parse(array.indexes)
    if array.template.pool != pool:
        return len(indexes)
    after = tuple(map(JobId, _name_all(array.template.after, names)))
    template = msgspec.structs.replace(
        array.template,
        after=after,
        client_id=names[array.template.job_id],
        spec=_SPEC,
        start_after_ms=None,
    )
    made = msgspec.structs.replace(array, template=template)
    for job_id in task_ids(array.array, indexes):
        job = _add_job(trace, job_id, queue, template, run_s)
        trace.arrays[job] = made
        if template.checkpoint_s is not None:
            trace.checkpoint_ms[job] = 1000 * template.checkpoint_s
    return 0


def add_optional_fields(
    trace: Trace, job: int, event: ev.JobSubmitted, gang: ev.Gang | None, after: list[str]
) -> None:
    """Add the fields that few jobs have."""
    if gang is not None:
        trace.gangs[job] = gang
    if after:
        trace.after[job] = tuple(after)
    if event.retry is not None:
        trace.retry[job] = event.retry
    if event.checkpoint_s is not None:
        trace.checkpoint_ms[job] = 1000 * event.checkpoint_s
    if event.on_preemption == "fail":
        trace.preempted_is_final.add(job)
    if event.when_infeasible == "wait":
        trace.infeasible_waits.add(job)


def _name_all(after: Iterable[JobId], names: Mapping[JobId, str]) -> list[str]:
    """The names of jobs, which are their ids in the simulation; arrays keep their ids."""
    return [other if is_array_id(other) else names[other] for other in after]


def _name_jobs(found: list[FileSubmission]) -> dict[JobId, str]:
    """The name of each job in the results: its client id, with the job set if it is not unique."""
    names: dict[JobId, str] = {}
    taken: set[str] = set()
    for submitted in found:
        for submission in submitted.jobs:
            is_array = isinstance(submission, ev.ArraySubmitted)
            event = submission.template if isinstance(submission, ev.ArraySubmitted) else submission
            name = event.client_id or f"{'array' if is_array else 'job'}-{len(names)}"
            if name in taken:
                name = f"{submitted.queue}/{submitted.job_set}/{name}"
            taken.add(name)
            names[event.job_id] = name
    return names
