"""Submitting jobs: any number of them, safe to repeat."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from fairlead import errors
from fairlead.calls import call_effects, request_building, submission_batches
from fairlead.calls.call_effects import Flow, Request
from fairlead.calls.submission_batches import AnyJob
from fairlead.models.job_models import (
    Checked,
    CheckedJob,
    FieldError,
    Problem,
    Submitted,
    SubmittedJob,
)


def submit(
    queue: str,
    job_set: str,
    jobs: Iterable[AnyJob],
    *,
    defaults: AnyJob | None = None,
    on_progress: Callable[[int], object] = lambda _: None,
) -> Flow[Submitted]:
    """Submit any number of jobs; `defaults` holds the fields that all of them share.

    Long lists are sent in several requests; `on_progress` is called after each with the number of
    jobs accepted so far. Jobs without a client id get one, so that repeating a request creates no
    job twice. If a request is refused, `Refused.accepted` has the jobs of the earlier requests.
    """
    name = f"c{(yield from call_effects.draw()):016x}"
    accepted: list[SubmittedJob] = []
    position = ""
    for batch in submission_batches.cut(jobs, name):
        request = _submission(queue, job_set, defaults, batch)
        answer = yield from _placed(request, batch, Submitted, accepted)
        accepted += answer.jobs
        if not all(job.duplicate for job in answer.jobs):
            position = answer.position
            yield from call_effects.wrote(queue, job_set, position)
        elif not position:  # duplicates are not written to the log
            position = answer.position
        on_progress(len(accepted))
    return Submitted(position=position, jobs=tuple(accepted))


def check(
    queue: str, job_set: str, jobs: Iterable[AnyJob], *, defaults: AnyJob | None = None
) -> Flow[Checked]:
    """Let the server validate jobs, and check whether each could ever run, without creating them.

    Raises `Invalid` with all field errors of the first request that has one.
    """
    checked: list[CheckedJob] = []
    for batch in submission_batches.cut(jobs, "dry-run"):
        request = _submission(queue, job_set, defaults, batch, dry_run=True)
        checked += (yield from _placed(request, batch, Checked)).jobs
    return Checked(jobs=tuple(checked))


def _placed(
    request: Request,
    batch: submission_batches.Batch,
    kind: type[request_building.A],
    accepted: Sequence[SubmittedJob] = (),
) -> Flow[request_building.A]:
    """Send the request of a batch. Raises `Refused` with pointers into the whole list."""
    try:
        return (yield from request_building.ask(request, kind))
    except errors.Refused as error:
        raise errors.refusal(_shifted(error.problem, batch.first), accepted) from None


def _submission(
    queue: str,
    job_set: str,
    defaults: AnyJob | None,
    batch: submission_batches.Batch,
    *,
    dry_run: bool = False,
) -> Request:
    body: dict[str, object] = {"queue": queue, "jobSet": job_set}
    if defaults is not None:
        body["defaults"] = defaults
    query = request_building.tried(dry_run)
    return request_building.post("/jobs", {**body, "jobs": batch.jobs}, query=query)


def _shifted(problem: Problem, first: int) -> Problem:
    """The problem with pointers into the caller's list instead of the batch."""
    if not first:
        return problem
    return msgspec.structs.replace(
        problem, errors=tuple(_shift_field_error(error, first) for error in problem.errors)
    )


def _shift_field_error(error: FieldError, first: int) -> FieldError:
    head, _, rest = error.pointer.removeprefix("/jobs/").partition("/")
    if not error.pointer.startswith("/jobs/") or not head.isdecimal():
        return error
    pointer = f"/jobs/{int(head) + first}" + (f"/{rest}" if rest else "")
    return msgspec.structs.replace(error, pointer=pointer)
