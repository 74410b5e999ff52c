"""The page of a job: its state, why it waits, its runs, its log."""

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_common.domain.secret_values import without_sealed
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.lookups import job_lookup
from fairlead_lookout.http.pages.jobs import job_events, permitted_actions, run_timelines
from fairlead_lookout.http.pages.logs import log_pages
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page, its stream, and redirects to it."""
    deps = sender.deps
    sender.add_page(router, "/jobs/{job_id}", "job.html", "jobsets", _job)

    @router.get("/jobs/{queue}/{job_set:path}/{client_id}")
    async def named_job(request: Request, queue: str, job_set: str, client_id: str) -> Response:
        """A redirect to the page of a job that the caller may view, or an error page."""
        named = f"{queue}/{job_set}/{client_id}"
        try:
            found = await job_lookup.find_job(deps, await deps.visibility(request), named)
        except (Problem, WorldError) as error:
            return sender.error_page(request, error)
        return RedirectResponse(f"/jobs/{found.row['id']}", 303)


async def _job(deps: Deps, job_id: str, choice: log_pages.Choice) -> Fragment:
    """A job with its runs; around it, its pod spec and the log of a run."""

    async def read(visible_queues: QueueScope) -> Values:
        found = await job_lookup.find_job(deps, visible_queues, job_id)
        described = await job_lookup.describe_job(deps, found, spec=False)
        requests = shapes.decode(found.submitted.shape).requests
        return {
            "live": f"/live/jobs/{job_id}",
            "job": described,
            "member": found.submitted.group,
            "actions": permitted_actions.list_possible(
                [described.state],
                stopping=described.stopping,
                waits_in_array=found.waits_in_array,
            ),
            "events": job_events.list_events(described),
            "timeline": run_timelines.draw_timeline(described, clock.now_ms()),
            "requests": ", ".join(
                f"{quantities.format_quantity(name, amount)} {name}"
                for name, amount in sorted(requests.items())
            ),
        }

    async def read_spec(visible_queues: QueueScope) -> Values:
        found = await job_lookup.find_job(deps, visible_queues, job_id)
        spec = without_sealed(found.submitted.spec)
        described = choice.describe(job_id, f"/jobs/{job_id}")
        return described | {"spec": msgspec.json.format(bytes(spec)).decode()}

    async def read_own(caller: Caller, values: Values) -> Values:
        queue = values["job"].queue
        return {"permitted": await permitted_actions.list_permitted(deps.visibility, caller, queue)}

    return Fragment("_job.html", (job_id,), read, read_more=read_spec, read_own=read_own)
