"""The page of jobs: the jobs of a filter, newest first, or their number by group.

It has the parameters of `GET /api/v1/jobs`, so each page has the same list in the API, which also
exports it; the groups are an export of the page. A parameter without a value does not restrict.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ListExport, Rows, split_rows
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.jobs.permitted_actions import list_permitted, list_possible
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.saved_view_pages import (
    PERIODS,
    format_start,
    read_views,
    resolve_within,
)
from fairlead_lookout.http.request_parameters import (
    GROUP_DIMENSIONS,
    JobFilterQuery,
    parse_dimensions,
)
from fairlead_lookout.http.responses import job_responses
from fairlead_lookout.store.queries.job_lists import COMPARED_ROWS, JobPage
from fairlead_lookout.store.queries.list_filters import (
    ANNOTATION,
    LABEL,
    JobFilter,
    invalid_parameter,
)

PATH: Final = "/jobs"
PAGE_SIZE: Final = 50
GROUPS_MAX: Final = 200
LISTED_MAX: Final = 1_000
"""Jobs that the browser lists at once, for an action on a filter that actions do not know."""
PRESETS: Final = (
    ("Failed in the last 24 hours", {"state": "FAILED"}),
    ("Out of memory in the last 24 hours", {"category": "oom"}),
)
"""Titles and filters of links on the page of all jobs."""
FIELDS: Final = ("q", "queue", "state", "category", "groupBy")
"""Filters with a field in the form. All others are shown as chips."""
MORE_FIELDS: Final = ("jobSet", "class", "cluster", "node")
"""Filters with a field among *More filters*, which has a field for a label as well."""
TITLES: Final = {
    "queue": "Queue",
    "jobSet": "Job set",
    "state": "State",
    "class": "Class",
    "cluster": "Cluster",
    "node": "Node",
    "category": "Failure",
    "submittedAfter": "Submitted after",
    "q": "Name",
}
ACTION_FILTERS: Final = {
    "queue": "queue",
    "jobSet": "jobSet",
    "state": "states",
    "class": "classes",
    "cluster": "cluster",
    "node": "node",
}
"""Filters that bulk actions know, and their fields in the request of an action."""


class FilterChip(msgspec.Struct, frozen=True):
    """A filter of the page, and the address of the page without it."""

    title: str
    value: str
    address: str


class GroupRow(msgspec.Struct, frozen=True):
    """A group. `values`: one for each dimension; None where its jobs have none. `address`: the
    page of its jobs, where a filter can select them."""

    values: list[str | None]
    jobs: int
    fraction: float
    address: str | None


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page, its stream, and the target of its form."""
    sender.add_page(router, PATH, "jobs.html", "jobs", _jobs, is_exported=True)

    @router.get(f"{PATH}/filter")
    async def choose_filter(request: Request) -> Response:
        """A redirect to the page with the fields of the form that have a value."""
        try:
            query = read_form(request.query_params, clock.now_ms())
        except Problem as error:
            return sender.error_page(request, error)
        return RedirectResponse(build_address(PATH, query), 303)


async def _jobs(
    deps: Deps,
    request: Request,
    selected: JobFilterQuery,
    group_by: Annotated[str | None, Query(alias="groupBy", max_length=1_000)] = None,
    cursor: Text = None,
) -> Fragment:
    """The jobs or groups of a filter."""
    query = {
        name: value
        for name, value in request.query_params.items()
        if value and (name in TITLES or name == "groupBy" or name.startswith((LABEL, ANNOTATION)))
    }

    async def read(visible_queues: QueueScope) -> Values:
        by = _parse_groups(group_by) if group_by else []
        wanted = msgspec.structs.replace(selected, visible_queues=visible_queues)
        values = {
            "live": build_address(f"/live{PATH}", query | {"cursor": cursor}),
            "filtered": bool(query.keys() - {"groupBy"}),
            "by": by,
            "titles": TITLES,
            "jobs": [],
            "groups": [],
            "waiting_tasks": 0,
            "first": build_address(PATH, query) if cursor else None,
            "next": None,
        }
        if by:
            found = await deps.lists.count_groups(wanted, by, GROUPS_MAX)
            most = max((jobs for _, jobs in found.groups), default=1)
            rows = [
                _describe_group(query, group, jobs / most, jobs) for group, jobs in found.groups
            ]
            waiting = await _count_waiting_tasks(deps, wanted, found.total)
            return values | {"groups": rows, "count": found.total, "waiting_tasks": waiting}
        page = await deps.lists.read_page(wanted, PAGE_SIZE, cursor)
        following = build_address(PATH, query | {"cursor": page.next}) if page.next else None
        return values | {
            "jobs": job_responses.describe_jobs(page.jobs, deps.clusters),
            "count": await _count_jobs(deps, wanted, page),
            "next": following,
        }

    async def read_more(visible_queues: QueueScope) -> Values:
        now_ms = clock.now_ms()
        without_field = [name for name in query if name not in (*FIELDS, *MORE_FIELDS)]
        return {
            "query": query,
            "hidden": {name: query[name] for name in without_field},
            "chips": [_describe_chip(query, name) for name in query if name not in FIELDS],
            "classes": sorted(deps.class_values),
            "clusters": deps.clusters.list_executors(),
            "queues": await deps.view.read_queues(visible_queues),
            "states": list(JobState),
            "categories": list(FailureCategory),
            "dimensions": GROUP_DIMENSIONS,
            "periods": [
                (
                    title,
                    build_address(PATH, query | {"submittedAfter": format_start(now_ms, hours)}),
                )
                for title, hours in PERIODS
            ],
            "exports": build_address("/api/v1/jobs/export.csv", query | {"groupBy": None}),
            "group_exports": build_address(f"/export{PATH}", query),
            "action_filter": describe_action_filter(query),
            "action_list": build_address(
                "/api/v1/jobs", query | {"groupBy": None, "limit": str(LISTED_MAX)}
            ),
            "presets": () if query else _make_presets(now_ms),
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        permitted = await list_permitted(deps.visibility, caller, selected.queue)
        possible = list_possible(selected.states or JobState)
        views = await read_views(deps, caller, PATH, selected.submitted_after_ms)
        return views | {"actions": [action for action in permitted if action in possible]}

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        return [_export_groups(deps, selected, visible_queues, group_by or "")]

    return Fragment(
        "_jobs.html",
        (*sorted(query.items()), cursor),
        read,
        read_more=read_more,
        read_own=read_own,
        list_exports=list_exports,
    )


async def _count_jobs(deps: Deps, wanted: JobFilter, page: JobPage) -> str:
    """The number of jobs of a filter: of counters, with tasks that wait in their arrays; else what
    the first page has counted, or on later pages among as many of the newest jobs."""
    if page.count is not None and not wanted.is_counted:
        return page.count
    return await deps.lists.count_jobs(wanted, COMPARED_ROWS[0])


def _export_groups(
    deps: Deps, selected: JobFilter, visible_queues: QueueScope, group_by: str
) -> ListExport:
    """The groups of the page, with a column for each dimension."""
    by = _parse_groups(group_by)
    columns = {f"value_{at}": name for at, name in enumerate(by)}
    kind = msgspec.defstruct(
        "GroupLine",
        [*((column, str | None, None) for column in columns), ("jobs", int, 0)],
        rename=columns,
        frozen=True,
        kw_only=True,
    )

    async def read() -> Rows:
        wanted = msgspec.structs.replace(selected, visible_queues=visible_queues)
        found = await deps.lists.count_groups(wanted, by, GROUPS_MAX)
        return [
            kind(**{column: group[name] for column, name in columns.items()}, jobs=jobs)
            for group, jobs in found.groups
        ]

    return ListExport("groups", kind, split_rows(read))


def read_form(fields: Mapping[str, str], now_ms: int) -> dict[str, str]:
    """The parameters of the page for the fields of its form: `label` is `NAME=VALUE` there, and
    `submittedWithin` a number of hours before now.

    Raises a `Problem` if they are not.
    """
    query = {name: value.strip() for name, value in fields.items() if value.strip()}
    query = resolve_within(query, "submittedWithin", "submittedAfter", now_ms)
    if label := query.pop("label", None):
        name, equals, value = label.partition("=")
        if not (name and equals and value):
            raise invalid_parameter("label", f"The label {label!r} is not NAME=VALUE.")
        query[f"{LABEL}{name}"] = value
    return query


async def _count_waiting_tasks(deps: Deps, wanted: JobFilter, grouped: str) -> int:
    """How many tasks that wait in their arrays are in no group: counters of jobs include them, but
    there is nothing to group. 0 where that is not known."""
    if not wanted.is_counted:
        return 0
    counted = await deps.lists.count_jobs(wanted)
    return max(0, int(counted) - int(grouped)) if (counted + grouped).isdecimal() else 0


def describe_action_filter(query: Mapping[str, str]) -> str | None:
    """The filter of a bulk action on the jobs of a page, as JSON. None if an action cannot have it:
    without a queue, or with a filter that actions do not know."""
    labels = {
        name.removeprefix(LABEL): value for name, value in query.items() if name.startswith(LABEL)
    }
    known = {name: value for name, value in query.items() if name in ACTION_FILTERS}
    if len(known) + len(labels) < len(query.keys() - {"groupBy"}) or "queue" not in query:
        return None
    fields: dict[str, object] = {
        ACTION_FILTERS[name]: value.upper().split(",") if name == "state" else value
        for name, value in known.items()
    }
    if "classes" in fields:
        fields["classes"] = known["class"].split(",")
    return msgspec.json.encode(fields | ({"labels": labels} if labels else {})).decode()


def _parse_groups(text: str) -> list[str]:
    try:
        return parse_dimensions(text)
    except ValueError as error:
        raise invalid_parameter("groupBy", str(error)) from None


def _describe_group(
    query: Mapping[str, str], group: Mapping[str, str | None], fraction: float, jobs: int
) -> GroupRow:
    """A row of the table of groups."""
    values = list(group.values())
    narrowed = None
    if None not in values:
        narrowed = build_address(PATH, {**query, **group, "groupBy": None})
    return GroupRow(values, jobs, fraction, narrowed)


def _describe_chip(query: Mapping[str, str], name: str) -> FilterChip:
    rest = {other: value for other, value in query.items() if other != name}
    title = TITLES.get(name) or name.removeprefix(LABEL).removeprefix(ANNOTATION)
    return FilterChip(title, query[name], build_address(PATH, rest))


def _make_presets(now_ms: int) -> list[tuple[str, str]]:
    """The titles and addresses of common lists."""
    since = {"submittedAfter": format_start(now_ms, 24)}
    return [(title, build_address(PATH, chosen | since)) for title, chosen in PRESETS]
