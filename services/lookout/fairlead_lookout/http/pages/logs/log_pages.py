"""The log of a run: a fragment on the page of its job, and a page of its own."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records.log_parts import LogPart
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.lookups import job_lookup, log_lookup
from fairlead_lookout.http.pages.error_pages import PAGE_HEADERS, build_address
from fairlead_lookout.http.pages.logs import log_search, log_views
from fairlead_lookout.http.pages.logs.log_search import Searched
from fairlead_lookout.http.pages.logs.log_views import LogView
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values

READ_S_MAX: Final = 10.0
SLOW_EXECUTOR: Final = (
    "The executor did not send the log in time. Reload the page to request it again; the page About"
    " says whether the executor is well."
)


class LogChoice(msgspec.Struct, frozen=True):
    """Which log is shown, and how. `run`: by default the newest; `find`: only lines that have this
    text; `wrap`: whether long lines continue on the next one; `before`: search only what is before
    this offset."""

    run: int | None
    stream: str
    find: str
    wrap: bool
    before: int | None = None

    def address(self, path: str, **changes: object) -> str:
        """The address of a page with this log. `changes`: of fields of the choice."""
        chosen = msgspec.structs.replace(self, **changes)
        query = {
            "stream": chosen.stream,
            "run": None if chosen.run is None else str(chosen.run),
            "find": chosen.find,
            "wrap": None if chosen.wrap else "off",
            "before": None if chosen.before is None else str(chosen.before),
        }
        return build_address(path, query)

    def describe(self, job_id: str, path: str) -> Values:
        """The values of the tools above a log. `path`: of the page with it."""
        plain = LogChoice(self.run, self.stream, "", wrap=True)
        number = "" if self.run is None else f"-{self.run}"
        return {
            "log": self,
            "log_path": path,
            "log_live": self.address(f"/live/jobs/{job_id}/log"),
            "log_page": self.address(f"/jobs/{job_id}/log"),
            "log_whole": plain.address(f"/api/v1/jobs/{job_id}/logs"),
            "log_file": f"{job_id}{number}-{self.stream}.log",
        }


def choose_log(
    run: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    stream: Text = None,
    find: Text = None,
    wrap: Text = None,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> LogChoice:
    """The choice in the parameters of a page."""
    stream = "stderr" if stream == "stderr" else "stdout"
    return LogChoice(run, stream, find or "", wrap != "off", before)


Choice = Annotated[LogChoice, Depends(choose_log)]


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page of a log, and the fragment that the browser reads every 2 s until the run ends."""
    deps = sender.deps

    @router.get("/live/jobs/{job_id}/log")
    async def lines(request: Request, job_id: str, choice: Choice) -> Response:
        values = await _read_log(deps, job_id, choice, await deps.visibility(request))
        # An ended run replaces the element, which reads the log again, by one that does not.
        headers = PAGE_HEADERS | ({"HX-Reswap": "outerHTML"} if values["ended"] else {})
        return HTMLResponse(sender.templates.render("_log.html", **values), headers=headers)

    @router.get("/jobs/{job_id}/log")
    async def page(request: Request, job_id: str, choice: Choice) -> Response:
        async def read(visible_queues: QueueScope) -> Values:
            return await _read_log(deps, job_id, choice, visible_queues)

        fragment = Fragment("_log.html", (), read)
        return await sender.send_page(request, "log.html", "jobsets", fragment)


async def _read_log(
    deps: Deps, job_id: str, choice: LogChoice, visible_queues: QueueScope
) -> Values:
    """The values of a log. Raises a `Problem` if the caller cannot view the job."""
    found = await job_lookup.find_job(deps, visible_queues, job_id)
    chosen = [row for row in found.runs if choice.run is None or row["number"] == choice.run]
    values = choice.describe(job_id, f"/jobs/{job_id}/log") | {
        "job_id": job_id,
        "title": found.submitted.client_id or job_id,
        "ended": not chosen or chosen[0]["ended_ms"] is not None,
        "view": LogView(),
        "searched": None,
        "problem": None,
        "lines_max": log_views.LINES_MAX,
        "run_number": chosen[0]["number"] if chosen else None,
    }
    try:
        if choice.find:
            values["searched"] = await _search_log(deps, job_id, choice, visible_queues)
        else:
            values["view"] = await _view_log(deps, job_id, choice, visible_queues)
    except Problem as problem:
        values["problem"] = problem.detail
    except (WorldError, TimeoutError) as error:
        values["problem"] = str(error) or SLOW_EXECUTOR
    return values


async def _view_log(
    deps: Deps, job_id: str, choice: LogChoice, visible_queues: QueueScope
) -> LogView:
    bounds = {"last_bytes": str(log_views.END_BYTES_MAX), "tail": str(log_views.LINES_MAX)}
    data, _ = await _read_part(deps, job_id, choice, bounds, visible_queues)
    return await asyncio.to_thread(log_views.show_end, data)


async def _search_log(
    deps: Deps, job_id: str, choice: LogChoice, visible_queues: QueueScope
) -> Searched:
    async def read_part(before: int | None) -> tuple[bytes, LogPart | None]:
        bounds = {"last_bytes": str(log_search.PART_BYTES_MAX)}
        if before is not None:
            bounds["before_bytes"] = str(before)
        return await _read_part(deps, job_id, choice, bounds, visible_queues)

    async with deps.logs.searches.place():
        return await log_search.search(read_part, choice.find, choice.before, clock.monotonic_s)


async def _read_part(
    deps: Deps,
    job_id: str,
    choice: LogChoice,
    bounds: Mapping[str, str],
    visible_queues: QueueScope,
) -> tuple[bytes, LogPart | None]:
    """Bytes of a log, and where they are. `bounds`: parameters of the executor."""
    parameters = {"stream": choice.stream, "follow": "false", **bounds}
    async with asyncio.timeout(READ_S_MAX):
        log = await log_lookup.open_log(deps, visible_queues, job_id, choice.run, parameters)
        return await _read_end(log.chunks, int(bounds["last_bytes"])), log.part


async def _read_end(chunks: AsyncIterator[bytes], bytes_max: int) -> bytes:
    """At most this many bytes of the end of a log."""
    end = bytearray()
    async for chunk in chunks:
        end += chunk
        if len(end) > 2 * bytes_max:
            del end[:-bytes_max]
    return bytes(end[-bytes_max:])
