"""Reads the jobs of a simulation from a file of `fairlead submit`.

The service submit itself reads the submissions, with their pod specs and defaults: it offers a
function through the entry point group `fairlead.submissions`. All jobs are submitted at the
beginning and run as long as the caller says, because such a file says neither; `hold`, `startAfter`
and `maxQueueSeconds` are ignored.
"""

from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.priority_classes import PriorityClass
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.simulate.input import yaml_documents
from fairlead_scheduler.simulate.input.input_errors import Faults
from fairlead_scheduler.simulate.input.job_lines import ms
from fairlead_scheduler.simulate.input.settings_file import Given, classes_of
from fairlead_scheduler.simulate.input.yaml_documents import Document
from fairlead_scheduler.simulate.model.trace import NEVER, Trace

SUFFIXES: Final = (".yaml", ".yml", ".json")
GROUP: Final = "fairlead.submissions"
_NOT_INSTALLED: Final = "needs the package fairlead-submit to read this file; install it"

Prepare = Callable[
    [Mapping[str, Any], tuple[PriorityClass, ...], Mapping[str, Any], int],
    tuple[list[ev.JobSubmitted], dict[JobId, str], list[FieldError]],
]
"""A submission, classes, defaults of jobs and a number -> events, jobs elsewhere, faults."""


class Submitted(NamedTuple):
    """One submission of the file."""

    document: Document
    queue: str
    job_set: str
    jobs: list[ev.JobSubmitted]
    outside: dict[JobId, str]


def read(
    path: Path,
    run_s: float,
    pool: str,
    given: Given,
    faults: Faults,
    *,
    trace: Trace,
    group: str = GROUP,
) -> int:
    """Add the jobs of a file in its order, each of which runs for `run_s`; how many others of other
    pools the file has.
    """
    documents = yaml_documents.read_all(path, faults)
    prepare = _find_prepare(group)
    if prepare is None:
        faults.add(str(path), 0, "", _NOT_INSTALLED)
        return 0
    found: list[Submitted] = []
    number = 0
    for document in documents:
        one = _prepared(document, prepare, given, number, faults)
        if one is not None:
            found.append(one)
            number += len(one.jobs)
    return 0 if faults.count else _add(trace, found, run_s, pool, faults)


def _find_prepare(group: str) -> Prepare | None:
    points = metadata.entry_points(group=group)
    found: Prepare | None = next((point.load() for point in points), None)
    return found


def _prepared(
    document: Document, prepare: Prepare, given: Given, number: int, faults: Faults
) -> Submitted | None:
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("jobs"), list):
        reason = "is not a submission (`queue`, `jobSet`, `jobs`)"
        faults.add(document.file, document.line(), "", reason)
        return None
    value.setdefault("queue", "default")
    value.setdefault("jobSet", "simulated")
    try:
        jobs, outside, wrong = prepare(
            value, classes_of(given.settings), given.job_defaults, number
        )
    except msgspec.ValidationError as error:
        faults.add("--settings", 0, "submit.jobDefaults", str(error))
        return None
    for fault in wrong:
        place = _place(fault.pointer)
        inner = place[2:] if place[:1] == ("jobs",) else place
        field = ".".join(map(str, inner))
        faults.add(document.file, document.line(*place), field, fault.detail)
    return Submitted(document, str(value["queue"]), str(value["jobSet"]), jobs, outside)


def _place(pointer: str) -> tuple[str | int, ...]:
    """The names and numbers of a JSON pointer."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return tuple(int(part) if part.isdigit() else part for part in parts)


def _add(trace: Trace, found: list[Submitted], run_s: float, pool: str, faults: Faults) -> int:
    names = _names(found)
    others = 0
    places: dict[str, set[str]] = {}
    for one in found:
        places.setdefault(one.queue, set()).add(one.job_set)
        for job_id, pointer in one.outside.items():
            if job_id not in names:
                line = one.document.line(*_place(pointer))
                faults.add(one.document.file, line, "after", "names a job that is not in the file")
    if faults.count:
        return others
    for one in found:
        for event in one.jobs:
            if event.pool != pool:
                others += 1
                continue
            job = trace.add(
                names[event.job_id],
                submit_ms=0,
                run_ms=ms(run_s),
                queue=one.queue,
                shape=trace.shapes.number(bytes(event.shape)),
                priority_class=event.priority_class,
                priority=event.priority,
                runtime_ms_max=1000 * (event.runtime_s_max or 0) or NEVER,
            )
            gang = event.gang
            if gang is not None and len(places[one.queue]) > 1:
                gang = msgspec.structs.replace(gang, name=f"{one.job_set}/{gang.name}")
            add_rare(trace, job, event, gang, [names[other] for other in event.after])
    return others


def add_rare(
    trace: Trace, job: int, event: ev.JobSubmitted, gang: ev.Gang | None, after: list[str]
) -> None:
    """Add what few jobs have."""
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


def _names(found: list[Submitted]) -> dict[JobId, str]:
    """What the results call each job: its client id, with the job set where that is not unique."""
    names: dict[JobId, str] = {}
    taken: set[str] = set()
    for one in found:
        for event in one.jobs:
            name = event.client_id or f"job-{len(names)}"
            if name in taken:
                name = f"{one.queue}/{one.job_set}/{name}"
            taken.add(name)
            names[event.job_id] = name
    return names
