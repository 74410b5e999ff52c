"""The page of saved views, and what each page that can be saved shows of them. Scripts create,
rename and delete them through the API."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_common.domain import timestamps
from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.service import clock
from fairlead_lookout.domain import saved_views
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.lookups import saved_view_lookup
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.store.queries.list_filters import invalid_parameter

PATH: Final = "/saved-views"
VIEWS_MAX: Final = 10
"""Saved views that a page links; all are on the page of saved views."""
PERIODS: Final = (("last hour", 1), ("last 24 hours", 24), ("last 7 days", 168))
"""Names and lengths in hours."""
PERIOD_MS_AGO_MAX: Final = HOUR_MS // 2
"""A time that was a period ago when its link was clicked, at most this long ago, is that period."""
HOURS: Final = re.compile(r"([1-9][0-9]{0,3})h")


class RelativeTime(msgspec.Struct, frozen=True):
    """The time since when a page lists, and the periods that a view can have in its place: value,
    title, and whether it is the time of the page."""

    after: str
    within: str
    time: str
    periods: list[tuple[str, str, bool]]


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page. It has no stream."""

    async def read(_: QueueScope) -> Values:
        return {}

    async def read_own(caller: Caller, _: Values) -> Values:
        views = await saved_view_lookup.read_saved_views(sender.deps, caller)
        pages = [saved_views.find_page(_find_path(view.address)) for view in views]
        return {"views": [(view, page) for view, page in zip(views, pages, strict=True)]}

    @router.get(PATH)
    async def show_saved_views(request: Request) -> Response:
        fragment = Fragment("saved_views.html", (), read, read_own=read_own)
        return await sender.send_page(request, "saved_views.html", "saved-views", fragment)


async def read_views(deps: Deps, caller: Caller, path: str, after_ms: int | None = None) -> Values:
    """What the page at this path shows of its saved views. `after_ms`: since when it lists."""
    views = [
        view
        for view in await saved_view_lookup.read_saved_views(deps, caller)
        if _find_path(view.address) == path
    ]
    return {
        "views": views[:VIEWS_MAX],
        "more_views": len(views[VIEWS_MAX:]),
        "relative_time": _describe_time(path, after_ms, clock.now_ms()),
    }


def resolve_within(
    query: Mapping[str, str], within: str, after: str, now_ms: int
) -> dict[str, str]:
    """The parameters of a page, from the parameters of a view: `within`, a number of hours, becomes
    the time `after` as it is now. Raises a 422 `Problem` if it is not a number of hours."""
    resolved = dict(query)
    if given := resolved.pop(within, None):
        hours = HOURS.fullmatch(given)
        if hours is None:
            raise invalid_parameter(within, f"{given!r} is not a number of hours, as 24h is.")
        resolved[after] = format_start(now_ms, int(hours[1]))
    return resolved


def format_start(now_ms: int, hours: int) -> str:
    """The time this number of hours ago, as an address has it."""
    return f"{timestamps.rfc3339(now_ms - hours * HOUR_MS)[:19]}Z"


def _find_path(address: str) -> str:
    """The path of the page to which the address of a view leads."""
    path = urlsplit(address).path
    is_page = saved_views.find_page(path) is not None
    return path if is_page else path.removesuffix(saved_views.FILTER)


def _describe_time(path: str, after_ms: int | None, now_ms: int) -> RelativeTime | None:
    page = saved_views.find_page(path)
    if after_ms is None or page is None or page.after is None or page.within is None:
        return None
    age_ms = now_ms - after_ms
    return RelativeTime(
        after=page.after,
        within=page.within,
        time=timestamps.rfc3339(after_ms),
        periods=[
            (f"{hours}h", title, 0 <= age_ms - hours * HOUR_MS <= PERIOD_MS_AGO_MAX)
            for title, hours in PERIODS
        ],
    )
