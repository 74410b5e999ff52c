"""The pages: job sets, a job set, a job. Rendered here; kept current by the same HTML over SSE.

A page and its stream render one fragment from one function, so they never disagree.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from fairlead_common.domain import ids, quantities, shapes
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.service.access_settings import Issuer
from fairlead_common.web import problem_documents
from fairlead_lookout.http.api import fairness_routes, job_routes, log_routes
from fairlead_lookout.http.deps import Parts, Place
from fairlead_lookout.http.list_filters import JobFilter
from fairlead_lookout.http.long_polls import SSE, find_set, named_job_id
from fairlead_lookout.http.pages import rendering, share_charts
from fairlead_lookout.http.pages.live_fragments import Shared
from fairlead_lookout.store.queries.view_reader import SetFilter

PAGE: Final = 50
LIVE_S_MAX: Final = 900.0
"""A stream ends after this; the browser opens another, and is asked again who it is."""
LOG_LINES: Final = 500
LOG_BYTES_MAX: Final = 512 * 1024
LOG_S_MAX: Final = 10.0
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FOREVER: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}

Values = dict[str, Any]
Text = Annotated[str | None, Query(max_length=300)]
Flag = Annotated[bool, Query()]


class Fragment(msgspec.Struct, frozen=True):
    """The part of a page that is alive: the template, and how to read its values.

    `about` tells it apart from others of its template. It changes only with `partition`, if that
    is given.
    """

    template: str
    about: tuple[object, ...]
    read: Callable[[QueueScope], Awaitable[Values]]
    partition: int | None = None


def routes(parts: Parts) -> APIRouter:
    """The routes of the pages, their streams and static files."""
    router = APIRouter(include_in_schema=False)
    files = rendering.assets()
    pages = _Pages(parts, rendering.Templates(files))

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        asset = files.get(name)
        if asset is None:
            raise Problem("not-found", f"There is no file {name!r}.")
        return Response(asset.content, media_type=asset.media_type, headers=_FOREVER)

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

        async def extra(reach: QueueScope) -> Values:
            return {
                "section": "jobsets",
                "filter": {"queue": queue, "q": q, "active": active},
                "queues": await pages.parts.view.queues(reach),
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

        async def extra(reach: QueueScope) -> Values:
            found = await job_routes.describe(pages.parts, job_id, reach, spec=True)
            query = {"stream": chosen} | ({} if run is None else {"run": str(run)})
            return {
                "spec": _pretty(found.spec),
                "stream": chosen,
                "log_run": run,
                "log_url": f"/jobs/{job_id}/log?{urlencode(query)}",
            }

        return await pages.page(request, "job.html", pages.job(job_id), extra)

    @router.get("/jobs/{queue}/{job_set:path}/{client_id}")
    async def named_job(request: Request, queue: str, job_set: str, client_id: str) -> Response:
        return await pages.job_address(request, named_job_id(f"{queue}/{job_set}/{client_id}"))

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
    """What all pages share."""

    def __init__(self, parts: Parts, templates: rendering.Templates) -> None:
        self.parts = parts
        self._templates = templates
        self._excuse = excuses(templates, parts.settings.oidc)

    # What is alive on each page.

    def job_sets(
        self, queue: str | None, name: str | None, active: bool, cursor: str | None
    ) -> Fragment:
        """All job sets that match, and totals."""
        query = {"queue": queue, "q": name, "active": "true" if active else None}

        async def read(reach: QueueScope) -> Values:
            view = self.parts.view
            wanted = SetFilter(reach=reach, queue=queue, active=active or None, q=name)
            found = await view.job_sets(wanted, PAGE, cursor)
            return {
                "live": _address("/live/jobsets", query | {"cursor": cursor}),
                "totals": await view.totals(reach, queue),
                "sets": found.job_sets,
                "filtered": bool(queue or name or active or cursor),
                "next": _address("/", query | {"cursor": found.next}) if found.next else None,
            }

        return Fragment("_jobsets.html", (queue, name, active, cursor), read)

    def job_set(self, queue: str, job_set: str, state: str | None, cursor: str | None) -> Fragment:
        """A job set and a page of its jobs."""
        chosen = state if state in JobState.__members__ else None

        async def read(reach: QueueScope) -> Values:
            known = await find_set(self.parts, reach, queue, job_set)
            states = (chosen,) if chosen else ()
            wanted = JobFilter(reach=reach, queue=queue, job_set=job_set, states=states)
            jobs, following = await self.parts.lists.page(wanted, PAGE, cursor)
            address = rendering.set_url(queue, job_set)
            query = {"state": chosen}
            return {
                "live": _address(f"/live{address}", query | {"cursor": cursor}),
                "set": await self.parts.view.show_set(known),
                "state": chosen,
                "jobs": jobs,
                "next": _address(address, query | {"cursor": following}) if following else None,
            }

        partition = ids.job_set_partition(queue, job_set)
        return Fragment("_jobset.html", (queue, job_set, chosen, cursor), read, partition)

    def queue(self, queue: str) -> Fragment:
        """A queue's standing over the last day, why its jobs wait, what they used."""

        async def read(reach: QueueScope) -> Values:
            if queue not in reach:
                raise Problem("not-found", f"There is no queue {queue!r}.")
            parts, now_ms = self.parts, clock.now_ms()
            found = await fairness_routes.over_time(
                parts, queue, now_ms - fairness_routes.SPAN_MS, now_ms, now_ms
            )
            return {
                "live": f"/live/queues/{quote(queue, safe='')}",
                "queue": queue,
                "totals": await parts.view.totals(reach, queue),
                "report": parts.reports.of_queue(queue, parts.configured.queue(queue)),
                "pictures": share_charts.pictures(found),
                "used": found.used,
                "lost": found.lost,
            }

        return Fragment("_queue.html", (queue,), read)

    def job(self, job_id: str) -> Fragment:
        """A job with its runs."""

        async def read(reach: QueueScope) -> Values:
            found = await job_routes.find(self.parts, job_id, reach)
            described = await job_routes.describe(self.parts, job_id, reach, spec=False)
            asked = shapes.decode(found.submitted.shape).requests
            return {
                "live": f"/live/jobs/{job_id}",
                "job": described,
                "requests": ", ".join(
                    f"{quantities.format_quantity(name, amount)} {name}"
                    for name, amount in sorted(asked.items())
                ),
            }

        return Fragment("_job.html", (job_id,), read)

    # How it is sent.

    async def page(
        self,
        request: Request,
        template: str,
        fragment: Fragment,
        extra: Callable[[QueueScope], Awaitable[Values]] | None = None,
    ) -> Response:
        """A whole page, or a page that says why not."""
        try:
            caller = await self.parts.sight.caller(request)
            reach = await self.parts.sight.of(caller)
            values = await fragment.read(reach)
            values |= {"section": "", "who": caller.name, "signed_in": caller.is_session}
            if extra is not None:
                values |= await extra(reach)
        except (Problem, WorldError) as error:
            return self._excuse(request, error)
        return HTMLResponse(self._templates.render(template, **values), headers=HEADERS)

    async def job_address(self, request: Request, job_id: str) -> Response:
        """A redirect to the page of a job that the caller may view, or a page that says why not."""
        try:
            await job_routes.find(self.parts, job_id, await self.parts.sight(request))
        except (Problem, WorldError) as error:
            return self._excuse(request, error)
        return RedirectResponse(f"/jobs/{job_id}", 303)

    async def live(self, request: Request, fragment: Fragment) -> Response:
        """The stream of a fragment. Raises `Problem`: nobody reads that but a program."""
        reach = await self.parts.sight(request)
        place = Place(self.parts, "streams")
        place.check()
        shared = Shared(
            (fragment.template, fragment.about, reach),
            lambda: self._render(fragment, reach),
            fragment.partition,
        )
        # What is not there, or not for this caller, has no stream.
        await self.parts.live.ready(shared)
        return StreamingResponse(
            self._stream(shared, place),
            media_type=SSE,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _render(self, fragment: Fragment, reach: QueueScope) -> bytes:
        return _sse(self._templates.render(fragment.template, **await fragment.read(reach)))

    async def _stream(self, shared: Shared, place: Place) -> AsyncIterator[bytes]:
        """The fragment each time it has changed."""
        with place:
            ends_s = clock.monotonic_s() + LIVE_S_MAX
            async with contextlib.aclosing(self.parts.live.follow(shared)) as changes:
                async for some in changes:
                    yield some or b": still here\n\n"
                    if clock.monotonic_s() > ends_s:
                        return

    async def log(self, request: Request, job_id: str, run: int | None, stream: str) -> Response:
        """The end of a run's log; asked for again and again until the run has ended."""
        values: Values = {"text": "", "problem": None, "cut": False, "lines": LOG_LINES}
        headers = dict(HEADERS)
        ended = True
        reach = await self.parts.sight(request)
        try:
            found = await job_routes.find(self.parts, job_id, reach)
            chosen = [row for row in found.runs if run is None or row["number"] == run]
            ended = not chosen or chosen[0]["ended_ms"] is not None
            parameters = {"stream": stream, "follow": "false", "tail": str(LOG_LINES)}
            async with asyncio.timeout(LOG_S_MAX):
                body = await log_routes.open_log(self.parts, job_id, run, parameters, reach)
                values["text"] = await _read(body)
            values["cut"] = values["text"].count("\n") >= LOG_LINES
            query = {"stream": stream, "run": None if run is None else str(run)}
            values["whole"] = _address(f"/api/v1/jobs/{job_id}/logs", query)
        except Problem as problem:
            values["problem"] = problem.detail
        except (WorldError, TimeoutError) as error:
            values["problem"] = str(error) or "The log did not come in time."
        if ended:
            # Replaces the element that asks every two seconds by one that does not.
            headers["HX-Reswap"] = "outerHTML"
        text = self._templates.render("_log.html", ended=ended, **values)
        return HTMLResponse(text, headers=headers)


def excuses(
    templates: rendering.Templates, issuers: Sequence[Issuer] = ()
) -> Callable[[Request, Problem | WorldError], Response]:
    """Makes pages that say what is wrong, and what to do about it."""

    def excuse(request: Request, error: Problem | WorldError) -> Response:
        status, title, text, command = 503, "Something is away", str(error), None
        headers = dict(HEADERS)
        if isinstance(error, Problem):
            plain = problem_documents.build_response(request, error)
            status = plain.status_code
            title, text = _TITLES.get(status, "This does not work"), error.detail
            headers |= {name: plain.headers[name] for name in _TOLD if name in plain.headers}
        if status == 401 and request.url.path == "/sign-in":
            text, command = text.partition(". ")[0] + ". This prints another:", SIGN_IN
        elif status == 401 and not request.url.path.startswith("/sign-in/"):
            text = (
                "This browser is not signed in. On the machine that runs Fairlead, this prints a"
                " link that signs it in:"
            )
            command = SIGN_IN
        target = _page_of(request)
        ways = [_way(issuer, target) for issuer in issuers if issuer.client_id]
        body = templates.render(
            "message.html",
            title=title,
            text=text,
            command=command,
            home=status == 404,
            asks=status == 401,
            ways=ways,
            target=target,
            section="",
            who="",
            signed_in=False,
        )
        return HTMLResponse(body, status_code=status, headers=headers)

    return excuse


SIGN_IN: Final = "fairlead token link"
_TOLD: Final = ("www-authenticate", "retry-after", "allow")
"""What a browser understands of a refusal: to ask for a password, say."""


_TITLES: Final = {
    400: "This address cannot be read",
    401: "Sign in to see this",
    403: "You may not see this",
    404: "There is nothing here",
    503: "Something is away",
}


def _page_of(request: Request) -> str:
    """The page that was asked for, to return to after signing in."""
    if request.method != "GET" or request.url.path.startswith(("/sign-in", "/live/")):
        return "/"
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _way(issuer: Issuer, target: str) -> dict[str, str]:
    """A link to sign in with a provider."""
    address = _address("/sign-in/oidc", {"issuer": issuer.issuer, "next": target})
    return {"title": issuer.title or urlsplit(issuer.issuer).netloc, "address": address}


def _address(path: str, query: dict[str, str | None]) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def _sse(text: str) -> bytes:
    lines = "\n".join(f"data: {line}" for line in text.splitlines())
    return f"{lines}\n\n".encode()


def _pretty(spec: msgspec.Raw | None) -> str:
    return "" if spec is None else msgspec.json.format(bytes(spec)).decode()


async def _read(body: AsyncIterator[bytes]) -> str:
    """The log as text, at most `LOG_BYTES_MAX` of its end."""
    kept = bytearray()
    async for part in body:
        kept += part
        del kept[:-LOG_BYTES_MAX]
    return kept.decode(errors="replace")
