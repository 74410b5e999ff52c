# Generated from fairlead/asynchronous/job_action_methods.py (`make client`).
"""Actions on existing jobs: by ids, or on all jobs that match a filter."""

from collections.abc import Iterator, Sequence
from typing import Final

from fairlead.blocking.client_connection import Connection
from fairlead.calls import job_parameters, request_building
from fairlead.calls.job_parameters import Jobs
from fairlead.models.job_models import Action, ActionResult, Filter, JobMatch, StartedAction

POLL_S: Final = 0.5


class JobActionMethods(Connection):
    """The methods that change jobs."""

    def cancel(self, jobs: Jobs, *, reason: str = "", dry_run: bool = False) -> ActionResult:
        """Cancel jobs: queued ones end at once, running ones are stopped first.

        Raises `NotFound` for ids that do not exist. With `dry_run` nothing changes: the result has
        the number of jobs that would be cancelled and names some of them.
        """
        return self._act("cancel", jobs, {"reason": reason}, dry_run=dry_run)

    def preempt(self, jobs: Jobs, *, reason: str = "", dry_run: bool = False) -> ActionResult:
        """Stop the runs of jobs, which then wait again or end, as their `on_preemption` says.

        Raises `NotFound` for ids that do not exist.
        """
        return self._act("preempt", jobs, {"reason": reason}, dry_run=dry_run)

    def reprioritize(
        self, jobs: Jobs, priority: int, *, reason: str = "", dry_run: bool = False
    ) -> ActionResult:
        """Change the priority of jobs: jobs of a higher priority are scheduled first in their
        queue.

        Raises `NotFound` for ids that do not exist.
        """
        body = {"priority": priority, "reason": reason}
        return self._act("reprioritize", jobs, body, dry_run=dry_run)

    def release(self, ids: Sequence[str]) -> ActionResult:
        """Lift the hold of jobs that were submitted with `hold`. Raises `NotFound`."""
        return self._act("release", ids, {})

    def resubmit(
        self,
        jobs: Jobs,
        job_set: str,
        *,
        queue: str | None = None,
        memory_factor: float | None = None,
    ) -> StartedAction:
        """Submit new jobs like these into a job set, of another `queue` if one is given.

        `memory_factor`, from 1 to 16, multiplies the memory that the old jobs requested. Returns
        before the jobs are submitted; `action(started.action)` returns the progress.
        """
        body = {**job_parameters.make_target(jobs), "jobSet": job_set}
        if queue is not None:
            body["queue"] = queue
        return self._resubmit(body, memory_factor)

    def resubmit_failed(
        self, queue: str, job_set: str, *, memory_factor: float | None = None
    ) -> StartedAction:
        """Resubmit the jobs of a job set that failed, or were cancelled because another job failed.

        The new jobs are `trial~2` for `trial`, and supersede the old ones: a second call resubmits
        only jobs that failed since. `memory_factor`: as for `resubmit`.
        """
        body = {"filter": Filter(queue=queue, job_set=job_set), "failed": True}
        return self._resubmit(body, memory_factor)

    def action(self, action_id: str) -> Action:
        """The progress of an action that continues after its response."""
        path = f"/actions/{request_building.escape_segment(action_id)}"
        return self._request(request_building.build_get(path), Action)

    def watch_action(self, action_id: str) -> Iterator[Action]:
        """Iterates over the progress of an action until it is done."""
        while True:
            found = self.action(action_id)
            yield found
            if found.is_done:
                return
            self._transport.sleep(POLL_S)

    def _resubmit(self, body: dict[str, object], memory_factor: float | None) -> StartedAction:
        """Start a resubmission; a client id makes it safe to repeat."""
        named = {**body, "clientId": f"{self._transport.random_bits():016x}"}
        if memory_factor is not None:
            named["memoryFactor"] = memory_factor
        return self._request(request_building.build_post("/jobs/resubmit", named), StartedAction)

    def _act(
        self, name: str, jobs: Jobs, body: dict[str, object], *, dry_run: bool = False
    ) -> ActionResult:
        """One request for a filter, one per `IDS_MAX` ids; their results are added up."""
        query = request_building.make_dry_run_query(dry_run)
        matched: int | None = 0
        position: str | None = None
        sample: list[JobMatch] = []
        for target in job_parameters.make_targets(jobs):
            request = request_building.build_post(f"/jobs/{name}", {**target, **body}, query=query)
            answer = self._request(request, ActionResult)
            position = answer.position
            both = matched is not None and answer.matched is not None
            matched = (matched or 0) + (answer.matched or 0) if both else None
            sample += answer.sample
        return ActionResult(position=position, matched=matched, sample=tuple(sample))
