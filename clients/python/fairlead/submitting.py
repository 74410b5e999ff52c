"""Submitting jobs: any number of them, safe to repeat."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from fairlead import asking, batches, errors, steps
from fairlead.batches import AnyJob
from fairlead.models import Checked, CheckedJob, Fault, Problem, Submitted, SubmittedJob
from fairlead.steps import Flow, Request


def submit(
    queue: str,
    job_set: str,
    jobs: Iterable[AnyJob],
    *,
    defaults: AnyJob | None = None,
    told: Callable[[int], object] = lambda _: None,
) -> Flow[Submitted]:
    """Submit jobs, however many; `defaults` holds what all of them share.

    Long lists go in several requests; `told` is called after each with how many jobs were taken so
    far. Jobs without a client id get one, so that nothing is created twice when a request has to be
    repeated. `Refused.accepted` names the jobs that earlier requests created when a later one is
    refused.
    """
    name = f"c{(yield from steps.draw()):016x}"
    accepted: list[SubmittedJob] = []
    position = ""
    for batch in batches.cut(jobs, name):
        request = _submission(queue, job_set, defaults, batch)
        answer = yield from _placed(request, batch, Submitted, accepted)
        accepted += answer.jobs
        if not all(job.duplicate for job in answer.jobs):
            position = answer.position
            yield from steps.wrote(queue, job_set, position)
        elif not position:  # jobs that were there already were written nowhere
            position = answer.position
        told(len(accepted))
    return Submitted(position=position, jobs=tuple(accepted))


def check(
    queue: str, job_set: str, jobs: Iterable[AnyJob], *, defaults: AnyJob | None = None
) -> Flow[Checked]:
    """Have the server validate jobs without creating them, and say whether each could ever run.

    Raises `Invalid` with every fault of the first request that has one.
    """
    checked: list[CheckedJob] = []
    for batch in batches.cut(jobs, "dry-run"):
        request = _submission(queue, job_set, defaults, batch, dry_run=True)
        checked += (yield from _placed(request, batch, Checked)).jobs
    return Checked(jobs=tuple(checked))


def _placed(
    request: Request,
    batch: batches.Batch,
    kind: type[asking.A],
    accepted: Sequence[SubmittedJob] = (),
) -> Flow[asking.A]:
    """Ask about a batch. Raises `Refused` with pointers into the whole list."""
    try:
        return (yield from asking.ask(request, kind))
    except errors.Refused as error:
        raise errors.refusal(_shifted(error.problem, batch.first), accepted) from None


def _submission(
    queue: str,
    job_set: str,
    defaults: AnyJob | None,
    batch: batches.Batch,
    *,
    dry_run: bool = False,
) -> Request:
    body: dict[str, object] = {"queue": queue, "jobSet": job_set}
    if defaults is not None:
        body["defaults"] = defaults
    query = asking.tried(dry_run)
    return asking.post("/jobs", {**body, "jobs": batch.jobs}, query=query)


def _shifted(problem: Problem, first: int) -> Problem:
    """The problem with pointers into the caller's list instead of one request's."""
    if not first:
        return problem
    return msgspec.structs.replace(
        problem, errors=tuple(_shifted_fault(fault, first) for fault in problem.errors)
    )


def _shifted_fault(fault: Fault, first: int) -> Fault:
    head, _, rest = fault.pointer.removeprefix("/jobs/").partition("/")
    if not fault.pointer.startswith("/jobs/") or not head.isdecimal():
        return fault
    pointer = f"/jobs/{int(head) + first}" + (f"/{rest}" if rest else "")
    return msgspec.structs.replace(fault, pointer=pointer)
