"""The page of preemptions: who lost what to whom and why, and the same as CSV or NDJSON."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ROWS, ListExport, Rows
from fairlead_lookout.http.pages import rendering
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.saved_view_pages import (
    PERIODS,
    format_start,
    read_views,
    resolve_within,
)
from fairlead_lookout.http.request_parameters import parse_time_ms
from fairlead_lookout.http.responses import job_responses, response_base
from fairlead_lookout.store.queries.preemption_lists import (
    TIME_MAX_MS,
    PreemptionFilter,
    read_preemptions,
)

PATH: Final = "/preemptions"
PAGE_SIZE: Final = 50
From = Annotated[str | None, Query(alias="from", max_length=40)]
CAUSES: Final = {
    "fair-share": "its queue had more than its fair share",
    "urgency": "a more urgent job needed the capacity",
    "gang": "another member of its gang was preempted",
    "surplus": "a surplus member of its group, for others that need the capacity",
    "request": "a user requested it",
    "group": "its group has ended, restarts or was scaled down",
}
"""Sentences for people, by cause."""


class PreemptionResponse(response_base.ResponseBody, frozen=True, kw_only=True):
    """A preempted run. `lost`: what it had used, in cores, bytes and units times hours; None while
    it has not ended, or where the run was removed. `forJob`: the job that got its place, if the
    caller is permitted to view it."""

    time: str
    queue: str
    job_set: str | None = None
    job: str
    client_id: str | None = None
    run: int
    state: str | None = None
    cause: str
    reason: str | None = None
    requested_by: str | None = None
    cluster: str | None = None
    node: str | None = None
    pool: str | None = None
    leased: str | None = None
    ended: str | None = None
    held_ms: int | None = None
    lost: dict[str, float] | None = None
    for_queue: str | None = None
    for_job: str | None = None
    for_client_id: str | None = None


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page, its stream and its export, and the target of saved views."""
    sender.add_page(router, PATH, "preemptions.html", "preemptions", _preemptions, is_exported=True)

    @router.get(f"{PATH}/filter")
    async def choose_filter(request: Request) -> Response:
        """A redirect to the page, with a time for a number of hours."""
        try:
            query = resolve_within(request.query_params, "fromWithin", "from", clock.now_ms())
        except Problem as error:
            return sender.error_page(request, error)
        return RedirectResponse(build_address(PATH, query), 303)


async def _preemptions(
    deps: Deps, queue: Text = None, from_: From = None, to: Text = None, cursor: Text = None
) -> Fragment:
    """The preemptions of a queue (or all) between two times."""
    query = {"queue": queue or None, "from": from_ or None, "to": to or None}

    async def read(visible_queues: QueueScope) -> Values:
        wanted = _parse_filter(visible_queues, queue, from_, to)
        page = await read_preemptions(deps.view, wanted, PAGE_SIZE, cursor)
        return {
            "live": build_address(f"/live{PATH}", query | {"cursor": cursor}),
            "preemptions": [describe_preemption(row, visible_queues) for row in page.rows],
            "causes": CAUSES,
            "summarize_lost": summarize_lost,
            "filtered": any(query.values()),
            "first": build_address(PATH, query) if cursor else None,
            "next": build_address(PATH, query | {"cursor": page.next}) if page.next else None,
        }

    async def read_more(visible_queues: QueueScope) -> Values:
        now_ms = clock.now_ms()
        return {
            "query": query,
            "queues": await deps.view.read_queues(visible_queues),
            "periods": [
                (title, build_address(PATH, {**query, "from": format_start(now_ms, hours)}))
                for title, hours in PERIODS
            ],
            "exports": build_address(f"/export{PATH}", query),
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, PATH, _parse_time("from", from_) if from_ else None)

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        wanted = _parse_filter(visible_queues, queue, from_, to)

        async def read_page(cursor: str | None) -> tuple[Rows, str | None]:
            page = await read_preemptions(deps.view, wanted, ROWS, cursor)
            return [describe_preemption(row, visible_queues) for row in page.rows], page.next

        return [ListExport("preemptions", PreemptionResponse, read_page)]

    return Fragment(
        "_preemptions.html",
        (queue, from_, to, cursor),
        read,
        read_more=read_more,
        read_own=read_own,
        list_exports=list_exports,
    )


def _parse_filter(
    visible_queues: QueueScope, queue: str | None, from_: str | None, to: str | None
) -> PreemptionFilter:
    """Raises a 422 `Problem` for an invalid time."""
    return PreemptionFilter(
        visible_queues=visible_queues,
        queue=queue or None,
        from_ms=_parse_time("from", from_) if from_ else 0,
        to_ms=_parse_time("to", to) if to else TIME_MAX_MS,
    )


def _parse_time(name: str, text: str) -> int:
    """A time, also as a form sends it: without seconds and in UTC."""
    try:
        return parse_time_ms(f"{text}:00Z" if len(text) == len("2026-01-31T12:00") else text)
    except ValueError as error:
        field_error = FieldError(f"/query/{name}", str(error))
        raise Problem("invalid", "A parameter is not valid.", [field_error]) from None


def describe_preemption(row: Any, visible_queues: QueueScope) -> PreemptionResponse:
    """A preemption. The job that got its place is left out if it is not visible."""
    held_ms, lost = None, None
    if row["leased_ms"] is not None and row["ended_ms"] is not None:
        held_ms = max(row["ended_ms"] - row["leased_ms"], 0)
        requests = job_responses.decode_amounts(row["requests"]) if row["requests"] else {}
        lost = response_base.to_resource_hours({n: held_ms * each for n, each in requests.items()})
    sees_other = row["for_queue"] is not None and row["for_queue"] in visible_queues
    time = response_base.format_time(row["time_ms"])
    assert time is not None
    return PreemptionResponse(
        time=time,
        queue=row["queue"],
        job_set=row["job_set"],
        job=row["job_id"],
        client_id=row["client_id"],
        run=row["run"],
        state=row["state"],
        cause=row["cause"],
        reason=row["reason"] if sees_other or row["for_job"] is None else None,
        requested_by=row["requested_by"],
        cluster=row["executor"],
        node=row["node"],
        pool=row["pool"],
        leased=response_base.format_time(row["leased_ms"]),
        ended=response_base.format_time(row["ended_ms"]),
        held_ms=held_ms,
        lost=lost,
        for_queue=row["for_queue"] if sees_other else None,
        for_job=row["for_job"] if sees_other else None,
        for_client_id=row["for_client_id"] if sees_other else None,
    )


def summarize_lost(lost: Mapping[str, float] | None) -> str:
    """Resource-hours as text: CPU first, then the others by name."""
    names = sorted(lost or {}, key=lambda name: (name != "cpu", name))
    return ", ".join(
        f"{name} {rendering.format_resource_hours(name, (lost or {})[name])}" for name in names
    )
