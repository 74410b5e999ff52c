"""The page of a job: its state, why it waits, its runs, its log."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Final
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from fairlead_common.domain import quantities, shapes
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.secret_values import without_sealed
from fairlead_common.service import clock
from fairlead_lookout.http.api import job_routes, log_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages import run_timelines
from fairlead_lookout.http.pages.error_pages import PAGE_HEADERS, build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.request_parameters import parse_job_id

LOG_LINES: Final = 500
LOG_BYTES_MAX: Final = 512 * 1024
LOG_S_MAX: Final = 10.0


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page, its stream, and its log."""
    deps = sender.deps
    sender.add_page(router, "/jobs/{job_id}", "job.html", "jobsets", partial(_job, deps))

    @router.get("/jobs/{queue}/{job_set:path}/{client_id}")
    async def named_job(request: Request, queue: str, job_set: str, client_id: str) -> Response:
        """A redirect to the page of a job that the caller may view, or an error page."""
        job_id = parse_job_id(f"{queue}/{job_set}/{client_id}")
        try:
            await job_routes.find_job(deps, job_id, await deps.visibility(request))
        except (Problem, WorldError) as error:
            return sender.error_page(request, error)
        return RedirectResponse(f"/jobs/{job_id}", 303)

    @router.get("/jobs/{job_id}/log")
    async def log(
        request: Request, job_id: str, run: int | None = None, stream: Text = None
    ) -> Response:
        chosen = "stderr" if stream == "stderr" else "stdout"
        return await _send_log(sender, request, job_id, run, chosen)


async def _job(deps: Deps, job_id: str, run: int | None = None, stream: Text = None) -> Fragment:
    """A job with its runs; around it, its pod spec and the log of a run."""
    chosen = "stderr" if stream == "stderr" else "stdout"

    async def read(visible_queues: QueueScope) -> Values:
        found = await job_routes.find_job(deps, job_id, visible_queues)
        described = await job_routes.describe_record(deps, found, spec=False)
        requests = shapes.decode(found.submitted.shape).requests
        return {
            "live": f"/live/jobs/{job_id}",
            "job": described,
            "timeline": run_timelines.draw_timeline(described, clock.now_ms()),
            "requests": ", ".join(
                f"{quantities.format_quantity(name, amount)} {name}"
                for name, amount in sorted(requests.items())
            ),
        }

    async def read_spec(visible_queues: QueueScope) -> Values:
        found = await job_routes.find_job(deps, job_id, visible_queues)
        spec = without_sealed(found.submitted.spec)
        query = {"stream": chosen} | ({} if run is None else {"run": str(run)})
        return {
            "spec": msgspec.json.format(bytes(spec)).decode(),
            "stream": chosen,
            "log_run": run,
            "log_url": f"/jobs/{job_id}/log?{urlencode(query)}",
        }

    return Fragment("_job.html", (job_id,), read, read_more=read_spec)


async def _send_log(
    sender: PageSender, request: Request, job_id: str, run: int | None, stream: str
) -> Response:
    """The end of a run's log. The browser reads it every 2 s until the run has ended."""
    deps = sender.deps
    values: Values = {"text": "", "problem": None, "cut": False, "lines": LOG_LINES}
    headers = dict(PAGE_HEADERS)
    ended = True
    visible_queues = await deps.visibility(request)
    try:
        found = await job_routes.find_job(deps, job_id, visible_queues)
        chosen = [row for row in found.runs if run is None or row["number"] == run]
        ended = not chosen or chosen[0]["ended_ms"] is not None
        parameters = {"stream": stream, "follow": "false", "tail": str(LOG_LINES)}
        async with asyncio.timeout(LOG_S_MAX):
            body = await log_routes.open_log(deps, job_id, run, parameters, visible_queues)
            values["text"] = await _read_end(body)
        values["cut"] = values["text"].count("\n") >= LOG_LINES
        query = {"stream": stream, "run": None if run is None else str(run)}
        values["whole"] = build_address(f"/api/v1/jobs/{job_id}/logs", query)
    except Problem as problem:
        values["problem"] = problem.detail
    except (WorldError, TimeoutError) as error:
        values["problem"] = str(error) or "The executor did not send the log in time."
    if ended:
        # Replaces the element, which reads the log again, by one that does not.
        headers["HX-Reswap"] = "outerHTML"
    text = sender.templates.render("_log.html", ended=ended, **values)
    return HTMLResponse(text, headers=headers)


async def _read_end(body: AsyncIterator[bytes]) -> str:
    """The log as text, at most `LOG_BYTES_MAX` of its end."""
    end = bytearray()
    async for part in body:
        end += part
        del end[:-LOG_BYTES_MAX]
    return end.decode(errors="replace")
