"""Actions on existing jobs: by ids, or on all jobs that match a filter."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from fairlead.calls import call_effects, request_building
from fairlead.calls.call_effects import Flow
from fairlead.models.job_models import Acted, Action, Filter, FoundJob, Started, several

POLL_S: Final = 0.5
IDS_MAX: Final = 1_000
"""Ids in one request."""

Jobs: TypeAlias = Sequence[str] | Filter
"""Which jobs: their ids, or a filter with a queue."""


def cancel(jobs: Jobs, *, reason: str = "", dry_run: bool = False) -> Flow[Acted]:
    """Cancel jobs: queued ones end at once, running ones are stopped first.

    Raises `NotFound` for ids that do not exist. With `dry_run` nothing changes: the result has the
    number of jobs that would be cancelled and names some of them.
    """
    return (yield from _act("cancel", jobs, {"reason": reason}, dry_run=dry_run))


def preempt(jobs: Jobs, *, reason: str = "", dry_run: bool = False) -> Flow[Acted]:
    """Stop the runs of jobs, which then wait again or end, as their `on_preemption` says.

    Raises `NotFound` for ids that do not exist.
    """
    return (yield from _act("preempt", jobs, {"reason": reason}, dry_run=dry_run))


def reprioritize(
    jobs: Jobs, priority: int, *, reason: str = "", dry_run: bool = False
) -> Flow[Acted]:
    """Change the priority of jobs: jobs of a higher priority are scheduled first in their queue.

    Raises `NotFound` for ids that do not exist.
    """
    body = {"priority": priority, "reason": reason}
    return (yield from _act("reprioritize", jobs, body, dry_run=dry_run))


def release(ids: Sequence[str]) -> Flow[Acted]:
    """Lift the hold of jobs that were submitted with `hold`. Raises `NotFound`."""
    return (yield from _act("release", ids, {}))


def resubmit(jobs: Jobs, job_set: str, *, queue: str | None = None) -> Flow[Started]:
    """Submit new jobs like these into a job set, of another `queue` if one is given.

    Returns before the jobs are submitted; `action(started.action)` returns the progress.
    """
    body = {
        **_target(jobs),
        "jobSet": job_set,
        "clientId": f"{(yield from call_effects.draw()):016x}",
    }
    if queue is not None:
        body["queue"] = queue
    return (yield from request_building.ask(request_building.post("/jobs/resubmit", body), Started))


def resubmit_failed(queue: str, job_set: str) -> Flow[Started]:
    """Resubmit the jobs of a job set that failed, or were cancelled because another job failed.

    The new jobs are `trial~2` for `trial`, and supersede the old ones: a second call resubmits
    only jobs that failed since.
    """
    body = {
        "filter": Filter(queue=queue, job_set=job_set),
        "failed": True,
        "clientId": f"{(yield from call_effects.draw()):016x}",
    }
    return (yield from request_building.ask(request_building.post("/jobs/resubmit", body), Started))


def action(action_id: str) -> Flow[Action]:
    """The progress of an action that continues after its response."""
    return (
        yield from request_building.ask(
            request_building.get(f"/actions/{request_building.part(action_id)}"), Action
        )
    )


def watch_action(action_id: str) -> Flow[None]:
    """Iterates over the progress of an action until it is done."""
    while True:
        found = yield from action(action_id)
        yield from call_effects.emit(found)
        if found.is_done:
            return
        yield from call_effects.pause(POLL_S)


def _act(name: str, jobs: Jobs, body: dict[str, object], *, dry_run: bool = False) -> Flow[Acted]:
    """One request for a filter, one per `IDS_MAX` ids; their results are added up."""
    targets: list[Jobs] = [jobs]
    if not isinstance(jobs, Filter | str):
        targets = [jobs[start : start + IDS_MAX] for start in range(0, len(jobs), IDS_MAX)]
    query = request_building.tried(dry_run)
    matched: int | None = 0
    position: str | None = None
    sample: list[FoundJob] = []
    for target in targets:
        request = request_building.post(f"/jobs/{name}", {**_target(target), **body}, query=query)
        answer = yield from request_building.ask(request, Acted)
        position = answer.position
        matched = None if matched is None or answer.matched is None else matched + answer.matched
        sample += answer.sample
    return Acted(position=position, matched=matched, sample=tuple(sample))


def _target(jobs: Jobs) -> dict[str, object]:
    if isinstance(jobs, Filter):
        return {"filter": jobs}
    several("ids", jobs)
    return {"ids": list(jobs)}
