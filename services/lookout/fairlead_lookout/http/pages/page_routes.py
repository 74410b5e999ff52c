"""The pages: job sets, a job set, a queue, a job. The same HTML over SSE updates open pages.

A page and its stream render one fragment with one function, so they never differ.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from fairlead_common.domain import ids, quantities, shapes
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_lookout.http import responses
from fairlead_lookout.http.api import fairness_routes, job_routes, log_routes, report_routes
from fairlead_lookout.http.deps import Deps, Slot
from fairlead_lookout.http.json_answers import SSE
from fairlead_lookout.http.long_polls import find_job_set
from fairlead_lookout.http.pages import rendering, share_charts
from fairlead_lookout.http.pages.error_pages import PAGE_HEADERS, build_address, build_error_page
from fairlead_lookout.http.pages.live_fragments import SharedFragment
from fairlead_lookout.http.request_parameters import parse_job_id
from fairlead_lookout.store.queries.list_filters import JobFilter, JobSetFilter

PAGE: Final = 50
LIVE_S_MAX: Final = 900.0
"""A stream ends after this; the browser opens a new one, which is authenticated again."""
LOG_LINES: Final = 500
LOG_BYTES_MAX: Final = 512 * 1024
LOG_S_MAX: Final = 10.0
_STATIC_HEADERS: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}

Values = dict[str, Any]
Text = Annotated[str | None, Query(max_length=300)]
Flag = Annotated[bool, Query()]


class Fragment(msgspec.Struct, frozen=True):
    """The part of a page that is updated: the template, and how to read its values.

    `key` distinguishes it from other fragments of its template. `partition`: the only partition
    with which it changes, if there is one.
    """

    template: str
    key: tuple[object, ...]
    read: Callable[[QueueScope], Awaitable[Values]]
    partition: int | None = None


def make_router(deps: Deps) -> APIRouter:
    """The routes of the pages, their streams and static files."""
    router = APIRouter(include_in_schema=False)
    files = rendering.load_assets()
    pages = _Pages(deps, rendering.Templates(files))

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        asset = files.get(name)
        if asset is None:
            raise Problem("not-found", f"File {name!r} does not exist.")
        return Response(asset.content, media_type=asset.media_type, headers=_STATIC_HEADERS)

    _job_set_pages(router, pages)
    _job_pages(router, pages)
    _queue_pages(router, pages)
    return router


def _job_set_pages(router: APIRouter, pages: "_Pages") -> None:
    @router.get("/")
    async def job_sets(
        request: Request,
        queue: Text = None,
        q: Text = None,
        active: Flag = False,
        cursor: Text = None,
    ) -> Response:
        fragment = pages.job_sets(queue or None, q or None, active, cursor)

        async def extra(visible_queues: QueueScope) -> Values:
            return {
                "section": "jobsets",
                "filter": {"queue": queue, "q": q, "active": active},
                "queues": await pages.deps.view.read_queues(visible_queues),
            }

        return await pages.page(request, "jobsets.html", fragment, extra)

    @router.get("/live/jobsets")
    async def live_job_sets(
        request: Request,
        queue: Text = None,
        q: Text = None,
        active: Flag = False,
        cursor: Text = None,
    ) -> Response:
        return await pages.live(request, pages.job_sets(queue, q, active, cursor))

    @router.get("/jobsets/{queue}/{job_set:path}")
    async def job_set(
        request: Request, queue: str, job_set: str, state: Text = None, cursor: Text = None
    ) -> Response:
        fragment = pages.job_set(queue, job_set, state, cursor)
        return await pages.page(request, "jobset.html", fragment)

    @router.get("/live/jobsets/{queue}/{job_set:path}")
    async def live_job_set(
        request: Request, queue: str, job_set: str, state: Text = None, cursor: Text = None
    ) -> Response:
        return await pages.live(request, pages.job_set(queue, job_set, state, cursor))


def _queue_pages(router: APIRouter, pages: "_Pages") -> None:
    @router.get("/queues/{queue}")
    async def queue(request: Request, queue: str) -> Response:
        return await pages.page(request, "queue.html", pages.queue(queue))

    @router.get("/live/queues/{queue}")
    async def live_queue(request: Request, queue: str) -> Response:
        return await pages.live(request, pages.queue(queue))


def _job_pages(router: APIRouter, pages: "_Pages") -> None:
    @router.get("/jobs/{job_id}")
    async def job(
        request: Request, job_id: str, run: int | None = None, stream: Text = None
    ) -> Response:
        chosen = "stderr" if stream == "stderr" else "stdout"

        async def extra(visible_queues: QueueScope) -> Values:
            found = await job_routes.describe_job(pages.deps, job_id, visible_queues, spec=True)
            query = {"stream": chosen} | ({} if run is None else {"run": str(run)})
            return {
                "spec": _format_spec(found.spec),
                "stream": chosen,
                "log_run": run,
                "log_url": f"/jobs/{job_id}/log?{urlencode(query)}",
            }

        return await pages.page(request, "job.html", pages.job(job_id), extra)

    @router.get("/jobs/{queue}/{job_set:path}/{client_id}")
    async def named_job(request: Request, queue: str, job_set: str, client_id: str) -> Response:
        return await pages.jobbuild_address(request, parse_job_id(f"{queue}/{job_set}/{client_id}"))

    @router.get("/live/jobs/{job_id}")
    async def live_job(request: Request, job_id: str) -> Response:
        return await pages.live(request, pages.job(job_id))

    @router.get("/jobs/{job_id}/log")
    async def log(
        request: Request, job_id: str, run: int | None = None, stream: Text = None
    ) -> Response:
        chosen = "stderr" if stream == "stderr" else "stdout"
        return await pages.log(request, job_id, run, chosen)


class _Pages:
    """Reads the fragments and sends pages and streams."""

    def __init__(self, deps: Deps, templates: rendering.Templates) -> None:
        self.deps = deps
        self._templates = templates
        self._error_page = build_error_page(templates, deps.issuers)

    # The fragment of each page.

    def job_sets(
        self, queue: str | None, name: str | None, active: bool, cursor: str | None
    ) -> Fragment:
        """The job sets that match, and totals."""
        query = {"queue": queue, "q": name, "active": "true" if active else None}

        async def read(visible_queues: QueueScope) -> Values:
            view = self.deps.view
            wanted = JobSetFilter(
                visible_queues=visible_queues, queue=queue, active=active or None, q=name
            )
            found = await view.read_job_sets(wanted, PAGE, cursor)
            return {
                "live": build_address("/live/jobsets", query | {"cursor": cursor}),
                "totals": await view.count_jobs_by_state(visible_queues, queue),
                "sets": responses.describe_job_sets(found).job_sets,
                "filtered": bool(queue or name or active or cursor),
                "next": build_address("/", query | {"cursor": found.next}) if found.next else None,
            }

        return Fragment("_jobsets.html", (queue, name, active, cursor), read)

    def job_set(self, queue: str, job_set: str, state: str | None, cursor: str | None) -> Fragment:
        """A job set and a page of its jobs."""
        chosen = state if state in JobState.__members__ else None

        async def read(visible_queues: QueueScope) -> Values:
            found = await find_job_set(self.deps, visible_queues, queue, job_set)
            (counted,) = await self.deps.view.count_states([found])
            states = (chosen,) if chosen else ()
            wanted = JobFilter(
                visible_queues=visible_queues, queue=queue, job_set=job_set, states=states
            )
            page = await self.deps.lists.read_page(wanted, PAGE, cursor)
            address = rendering.job_set_url(queue, job_set)
            query = {"state": chosen}
            return {
                "live": build_address(f"/live{address}", query | {"cursor": cursor}),
                "set": responses.describe_job_set(counted, clock.now_ms()),
                "state": chosen,
                "jobs": responses.describe_jobs(page.jobs),
                "next": build_address(address, query | {"cursor": page.next})
                if page.next
                else None,
            }

        partition = ids.job_set_partition(queue, job_set)
        return Fragment("_jobset.html", (queue, job_set, chosen, cursor), read, partition)

    def queue(self, queue: str) -> Fragment:
        """The shares of a queue over the last day, why its jobs wait, what they used."""

        async def read(visible_queues: QueueScope) -> Values:
            if queue not in visible_queues:
                raise Problem("not-found", f"Queue {queue!r} does not exist.")
            deps, now_ms = self.deps, clock.now_ms()
            found = await fairness_routes.describe_fairness(
                deps, queue, now_ms - fairness_routes.SPAN_MS, now_ms, now_ms
            )
            return {
                "live": f"/live/queues/{quote(queue, safe='')}",
                "queue": queue,
                "totals": await deps.view.count_jobs_by_state(visible_queues, queue),
                "report": report_routes.describe_queue_report(deps, queue),
                "charts": share_charts.draw_charts(found),
                "used": found.used,
                "lost": found.lost,
            }

        return Fragment("_queue.html", (queue,), read)

    def job(self, job_id: str) -> Fragment:
        """A job with its runs."""

        async def read(visible_queues: QueueScope) -> Values:
            found = await job_routes.find_job(self.deps, job_id, visible_queues)
            described = await job_routes.describe_job(self.deps, job_id, visible_queues, spec=False)
            requests = shapes.decode(found.submitted.shape).requests
            return {
                "live": f"/live/jobs/{job_id}",
                "job": described,
                "requests": ", ".join(
                    f"{quantities.format_quantity(name, amount)} {name}"
                    for name, amount in sorted(requests.items())
                ),
            }

        return Fragment("_job.html", (job_id,), read)

    # Sending pages and streams.

    async def page(
        self,
        request: Request,
        template: str,
        fragment: Fragment,
        extra: Callable[[QueueScope], Awaitable[Values]] | None = None,
    ) -> Response:
        """A whole page, or an error page."""
        try:
            caller = await self.deps.visibility.find_caller(request)
            visible_queues = await self.deps.visibility.find_visible_queues(caller)
            values = await fragment.read(visible_queues)
            values |= {"section": "", "who": caller.name, "signed_in": caller.is_session}
            if extra is not None:
                values |= await extra(visible_queues)
        except (Problem, WorldError) as error:
            return self._error_page(request, error)
        return HTMLResponse(self._templates.render(template, **values), headers=PAGE_HEADERS)

    async def jobbuild_address(self, request: Request, job_id: str) -> Response:
        """A redirect to the page of a job that the caller may view, or an error page."""
        try:
            await job_routes.find_job(self.deps, job_id, await self.deps.visibility(request))
        except (Problem, WorldError) as error:
            return self._error_page(request, error)
        return RedirectResponse(f"/jobs/{job_id}", 303)

    async def live(self, request: Request, fragment: Fragment) -> Response:
        """The stream of a fragment. Raises `Problem`: only a program reads that."""
        visible_queues = await self.deps.visibility(request)
        slot = Slot(self.deps, "streams")
        slot.check()
        shared = SharedFragment(
            (fragment.template, fragment.key, visible_queues),
            lambda: self._render(fragment, visible_queues),
            fragment.partition,
        )
        # Raises a problem for what does not exist or what the caller may not view.
        await self.deps.live.wait_until_rendered(shared)
        return StreamingResponse(
            self._stream(shared, slot),
            media_type=SSE,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _render(self, fragment: Fragment, visible_queues: QueueScope) -> bytes:
        return _encode_sse(
            self._templates.render(fragment.template, **await fragment.read(visible_queues))
        )

    async def _stream(self, shared: SharedFragment, slot: Slot) -> AsyncIterator[bytes]:
        """The fragment, each time it has changed."""
        with slot:
            ends_s = clock.monotonic_s() + LIVE_S_MAX
            async with contextlib.aclosing(self.deps.live.follow(shared)) as changes:
                async for some in changes:
                    yield some or b": keep-alive\n\n"
                    if clock.monotonic_s() > ends_s:
                        return

    async def log(self, request: Request, job_id: str, run: int | None, stream: str) -> Response:
        """The end of a run's log. The browser reads it every 2 s until the run has ended."""
        values: Values = {"text": "", "problem": None, "cut": False, "lines": LOG_LINES}
        headers = dict(PAGE_HEADERS)
        ended = True
        visible_queues = await self.deps.visibility(request)
        try:
            found = await job_routes.find_job(self.deps, job_id, visible_queues)
            chosen = [row for row in found.runs if run is None or row["number"] == run]
            ended = not chosen or chosen[0]["ended_ms"] is not None
            parameters = {"stream": stream, "follow": "false", "tail": str(LOG_LINES)}
            async with asyncio.timeout(LOG_S_MAX):
                body = await log_routes.open_log(self.deps, job_id, run, parameters, visible_queues)
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
        text = self._templates.render("_log.html", ended=ended, **values)
        return HTMLResponse(text, headers=headers)


def _encode_sse(text: str) -> bytes:
    lines = "\n".join(f"data: {line}" for line in text.splitlines())
    return f"{lines}\n\n".encode()


def _format_spec(spec: msgspec.Raw | None) -> str:
    return "" if spec is None else msgspec.json.format(bytes(spec)).decode()


async def _read_end(body: AsyncIterator[bytes]) -> str:
    """The log as text, at most `LOG_BYTES_MAX` of its end."""
    end = bytearray()
    async for part in body:
        end += part
        del end[:-LOG_BYTES_MAX]
    return end.decode(errors="replace")
