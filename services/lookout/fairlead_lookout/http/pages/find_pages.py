"""The page that finds pages, queues, job sets, groups, arrays and jobs by name or id.

The command palette of the other pages shows its results alone.
"""

from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from fairlead_common.domain import ids
from fairlead_common.domain.permissions import QueueScope
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages import rendering
from fairlead_lookout.http.pages.error_pages import PAGE_HEADERS
from fairlead_lookout.http.pages.navigation import PAGES
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.store.queries import array_lists, group_lists
from fairlead_lookout.store.queries.list_filters import JobSetFilter

PATH: Final = "/find"
EACH_MAX: Final = 8
"""Results of each kind."""
Words = Annotated[str, Query(max_length=256)]


class FoundLink(msgspec.Struct, frozen=True):
    """A result. `kind`: Page, Queue, Job set, ...; `detail` distinguishes equal titles."""

    kind: str
    title: str
    address: str
    detail: str = ""


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page, and its results alone."""

    @router.get(PATH)
    async def find(request: Request, q: Words = "") -> Response:
        return await sender.send_page(request, "find.html", "find", _fragment(sender.deps, q))

    @router.get(f"{PATH}/results")
    async def results(request: Request, q: Words = "") -> Response:
        visible_queues = await sender.deps.visibility(request)
        values = await _fragment(sender.deps, q).read(visible_queues)
        return HTMLResponse(sender.templates.render("_find.html", **values), headers=PAGE_HEADERS)


def _fragment(deps: Deps, q: str) -> Fragment:
    text = q.strip()

    async def read(visible_queues: QueueScope) -> Values:
        found = _find_pages(text)
        if text:
            found += await _find_jobs(deps, visible_queues, text)
            found += await _find_queues(deps, visible_queues, text)
            found += await _find_job_sets(deps, visible_queues, text)
            found += await _find_groups(deps, visible_queues, text)
            found += await _find_arrays(deps, visible_queues, text)
        return {"q": text, "found": found}

    return Fragment("_find.html", (text,), read)


def _find_pages(text: str) -> list[FoundLink]:
    return [
        FoundLink("Page", page.title, page.address, f"g {page.key}")
        for page in PAGES
        if page.address != PATH and text.lower() in page.title.lower()
    ]


async def _find_queues(deps: Deps, visible_queues: QueueScope, text: str) -> list[FoundLink]:
    created = {queue.name for queue in deps.configuration.read_queues()}
    names = sorted(
        name
        for name in created.union(await deps.view.read_queues(visible_queues))
        if name in visible_queues and text.lower() in name.lower()
    )
    # Names that begin with the text come first.
    names.sort(key=lambda name: not name.lower().startswith(text.lower()))
    return [
        FoundLink("Queue", name, f"/queues/{quote(name, safe='')}") for name in names[:EACH_MAX]
    ]


async def _find_job_sets(deps: Deps, visible_queues: QueueScope, text: str) -> list[FoundLink]:
    """The newest job sets whose names contain the text."""
    page = await deps.view.read_job_sets(
        JobSetFilter(visible_queues=visible_queues, q=text), EACH_MAX, None
    )
    keys = [counted.job_set.key for counted in page.job_sets]
    return [
        FoundLink("Job set", job_set, rendering.job_set_url(queue, job_set), f"queue {queue}")
        for queue, job_set in keys
    ]


async def _find_groups(deps: Deps, visible_queues: QueueScope, text: str) -> list[FoundLink]:
    rows = await group_lists.find_groups(deps.view, visible_queues, text, EACH_MAX)
    return [
        FoundLink(
            "Group",
            row["client_id"] or row["id"],
            f"/groups/{row['id']}",
            f"{row['shown'].lower()} in {row['queue']}/{row['job_set']}",
        )
        for row in rows
    ]


async def _find_arrays(deps: Deps, visible_queues: QueueScope, text: str) -> list[FoundLink]:
    found = await array_lists.find_arrays(deps.view, visible_queues, text, EACH_MAX)
    return [
        FoundLink(
            "Array",
            array.row["client_id"] or array.row["id"],
            f"/arrays/{array.row['id']}",
            f"{rendering.summarize_states(array.counts)} in"
            f" {array.row['queue']}/{array.row['job_set']}",
        )
        for array in found
    ]


async def _find_jobs(deps: Deps, visible_queues: QueueScope, text: str) -> list[FoundLink]:
    """The job with this id, or the jobs that can be this `queue/jobSet/clientId`."""
    try:
        named = ids.job_ids_of(text)
    except ValueError:
        return []
    rows = (await deps.view.read_jobs(named)).rows
    return [
        FoundLink("Job", row["client_id"] or row["id"], f"/jobs/{row['id']}", row["state"].lower())
        for row in rows
        if row["queue"] in visible_queues
    ]
