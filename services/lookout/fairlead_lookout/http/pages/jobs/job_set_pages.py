"""The pages of job sets: all of them, and one with its jobs."""

import asyncio
from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter

from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.service import clock
from fairlead_lookout.domain.model import JobSetKey
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ROWS, ListExport, Rows
from fairlead_lookout.http.lookups import job_set_lookup
from fairlead_lookout.http.pages import rendering
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.jobs.permitted_actions import list_permitted
from fairlead_lookout.http.pages.page_sender import Flag, Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.saved_view_pages import read_views
from fairlead_lookout.http.responses import (
    array_responses,
    group_responses,
    job_responses,
    job_set_responses,
)
from fairlead_lookout.store.queries import array_lists, group_lists
from fairlead_lookout.store.queries.array_lists import ArrayFilter
from fairlead_lookout.store.queries.group_lists import GroupFilter
from fairlead_lookout.store.queries.list_filters import JobFilter, JobSetFilter

PAGE_SIZE: Final = 50
SECTION_SIZE: Final = 10
"""Groups, and arrays, on the page of a job set."""


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The pages and their streams."""
    sender.add_page(router, "/", "jobsets.html", "jobsets", _job_sets, "/live/jobsets")
    path = "/jobsets/{queue}/{job_set:path}"
    sender.add_page(router, path, "jobset.html", "jobsets", _job_set, is_exported=True)


async def _job_sets(
    deps: Deps, queue: Text = None, q: Text = None, active: Flag = False, cursor: Text = None
) -> Fragment:
    """The job sets that match, and totals."""
    query = {"queue": queue, "q": q, "active": "true" if active else None}

    async def read(visible_queues: QueueScope) -> Values:
        wanted = JobSetFilter(
            visible_queues=visible_queues, queue=queue or None, active=active or None, q=q or None
        )
        found = await deps.view.read_job_sets(wanted, PAGE_SIZE, cursor)
        return {
            "live": build_address("/live/jobsets", query | {"cursor": cursor}),
            "totals": None  # not of all job sets that are listed
            if q or active
            else await deps.view.count_jobs_by_state(visible_queues, queue or None),
            "sets": job_set_responses.describe_job_sets(found).job_sets,
            "filtered": bool(queue or q or active or cursor),
            "first": build_address("/", query) if cursor else None,
            "next": build_address("/", query | {"cursor": found.next}) if found.next else None,
        }

    async def read_filters(visible_queues: QueueScope) -> Values:
        return {
            "filter": {"queue": queue, "q": q, "active": active},
            "queues": await deps.view.read_queues(visible_queues),
            "exports": build_address("/api/v1/jobsets/export.csv", query),
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, "/")

    key = (queue, q, active, cursor)
    return Fragment("_jobsets.html", key, read, read_more=read_filters, read_own=read_own)


async def _job_set(
    deps: Deps,
    queue: str,
    job_set: str,
    state: Text = None,
    cursor: Text = None,
    groups: Text = None,
    arrays: Text = None,
) -> Fragment:
    """A job set and a page of its jobs; before its newest jobs of all states, its groups and
    arrays, each after its own cursor."""
    chosen = state if state in JobState.__members__ else None

    async def read(visible_queues: QueueScope) -> Values:
        found = await job_set_lookup.find_job_set(deps, visible_queues, queue, job_set)
        states = (chosen,) if chosen else ()
        wanted = JobFilter(
            visible_queues=visible_queues, queue=queue, job_set=job_set, states=states
        )
        address = rendering.job_set_url(queue, job_set)
        query = {"state": chosen}
        places = {"groups": groups, "arrays": arrays}
        # At the same time: a live page is updated the more often the less time it takes.
        page, (counted,), sections = await asyncio.gather(
            deps.lists.read_page(wanted, PAGE_SIZE, cursor, set_number=found.number),
            deps.view.count_states([found]),
            _read_groups_and_arrays(
                deps,
                visible_queues,
                (queue, job_set),
                places,
                wanted=chosen is None and cursor is None,
            ),
        )
        return sections | {
            "live": build_address(f"/live{address}", query | {"cursor": cursor} | places),
            "exports": _list_addresses(queue, job_set, chosen),
            "set": job_set_responses.describe_job_set(counted, clock.now_ms()),
            "state": chosen,
            "jobs": job_responses.describe_jobs(page.jobs, deps.clusters),
            "first": build_address(address, query) if cursor else None,
            "next": build_address(address, query | {"cursor": page.next}) if page.next else None,
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return {"permitted": await list_permitted(deps.visibility, caller, queue)}

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        return _list_exports(deps, visible_queues, (queue, job_set))

    key = (queue, job_set, chosen, cursor, groups, arrays)
    return Fragment(
        "_jobset.html",
        key,
        read,
        (queue, job_set),
        read_own=read_own,
        list_exports=list_exports,
    )


def _list_addresses(queue: str, job_set: str, state: str | None) -> dict[str, str]:
    """The addresses of the exports of a job set, by what they contain."""
    jobs = {"queue": queue, "jobSet": job_set, "state": state}
    address = f"/export{rendering.job_set_url(queue, job_set)}"
    return {
        "jobs": build_address("/api/v1/jobs/export.csv", jobs),
        "groups": build_address(address, {"table": "groups"}),
        "arrays": build_address(address, {"table": "arrays"}),
    }


def _list_exports(deps: Deps, visible_queues: QueueScope, key: JobSetKey) -> list[ListExport]:
    """The groups and the arrays of a job set."""
    queue, job_set = key

    async def read_groups(cursor: str | None) -> tuple[Rows, str | None]:
        await job_set_lookup.find_job_set(deps, visible_queues, queue, job_set)
        wanted = GroupFilter(visible_queues=visible_queues, queue=queue, job_set=job_set)
        page = await group_lists.read_groups(deps.view, wanted, ROWS, cursor)
        return group_responses.describe_groups(page, deps.reports.find_hops).groups, page.next

    async def read_arrays(cursor: str | None) -> tuple[Rows, str | None]:
        await job_set_lookup.find_job_set(deps, visible_queues, queue, job_set)
        wanted = ArrayFilter(visible_queues=visible_queues, queue=queue, job_set=job_set)
        page = await array_lists.read_arrays(deps.view, wanted, ROWS, cursor)
        return array_responses.describe_arrays(page).arrays, page.next

    return [
        ListExport("groups", group_responses.GroupSummary, read_groups),
        ListExport("arrays", array_responses.ArrayResponse, read_arrays),
    ]


async def _read_groups_and_arrays(
    deps: Deps,
    visible_queues: QueueScope,
    key: JobSetKey,
    places: Mapping[str, str | None],
    *,
    wanted: bool,
) -> Values:
    """A page of the groups and one of the arrays of a job set, after these cursors (`places`), or
    none if they are not wanted."""
    address, (queue, job_set) = rendering.job_set_url(*key), key
    values: Values = {"groups": [], "older_groups": None, "arrays": [], "older_arrays": None}
    if not wanted:
        return values
    # Most job sets have neither, and their lists cost a live page as much as all else.
    if not await deps.view.has_groups_or_arrays(queue, job_set):
        return values
    groups = await group_lists.read_groups(
        deps.view,
        GroupFilter(visible_queues=visible_queues, queue=queue, job_set=job_set),
        SECTION_SIZE,
        places["groups"],
    )
    if groups.next is not None:
        values["older_groups"] = build_address(address, {**places, "groups": groups.next})
    arrays = await array_lists.read_arrays(
        deps.view,
        ArrayFilter(visible_queues=visible_queues, queue=queue, job_set=job_set),
        SECTION_SIZE,
        places["arrays"],
    )
    if arrays.next is not None:
        values["older_arrays"] = build_address(address, {**places, "arrays": arrays.next})
    return values | {
        "groups": group_responses.describe_groups(groups, deps.reports.find_hops).groups,
        "arrays": array_responses.describe_arrays(arrays).arrays,
    }
