"""Sends pages, their streams and exports. Page and stream render one fragment with one function, so
they never differ.

A page is a template around a fragment. The stream of the fragment sends the same HTML again each
time it has changed, which updates open pages. The exports of a fragment are the lists that it
shows, with the same filters and rights, as CSV or NDJSON.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_lookout.domain.model import JobSetKey
from fairlead_lookout.http.deps import Deps, Slot
from fairlead_lookout.http.list_exports import (
    CSV,
    Accept,
    Format,
    ListExport,
    stream_list,
)
from fairlead_lookout.http.pages import rendering
from fairlead_lookout.http.pages.error_pages import PAGE_HEADERS, build_error_page
from fairlead_lookout.http.pages.live_fragments import SharedFragment
from fairlead_lookout.http.responses.json_answers import SSE
from fairlead_lookout.http.webhook_access import is_operator
from fairlead_lookout.store.queries.list_filters import invalid_parameter

LIVE_S_MAX: Final = 900.0
"""A stream ends after this; the browser opens a new one, which is authenticated again."""

ALIVE: Final = b"event: alive\n\n"
"""Sent where nothing has changed for `RENDER_S_MAX`. A page that hears nothing for longer connects
again: a connection that was lost without an end looks like one without news."""

Values = dict[str, Any]
"""The values of a template. `Any`: of any type that the template knows."""
Text = Annotated[str | None, Query(max_length=300)]
Flag = Annotated[bool, Query()]


class Fragment(msgspec.Struct, frozen=True):
    """The part of a page that is updated: the template, and how to read its values.

    `key` distinguishes it from other fragments of its template. `job_set`: the only job set with
    which it changes, if there is one. `read_more` reads what its page shows around it, `read_own`
    what it shows there of its caller, for the values that have been read. `list_exports`: the lists
    that it shows.
    """

    template: str
    key: tuple[object, ...]
    read: Callable[[QueueScope], Awaitable[Values]]
    job_set: JobSetKey | None = None
    read_more: Callable[[QueueScope], Awaitable[Values]] | None = None
    read_own: Callable[[Caller, Values], Awaitable[Values]] | None = None
    list_exports: Callable[[QueueScope], Sequence[ListExport]] | None = None


class PageSender:
    """Sends the pages and streams of all fragments. `error_page` answers with an error."""

    def __init__(self, deps: Deps, templates: rendering.Templates) -> None:
        self.deps = deps
        self.templates = templates
        self.error_page = build_error_page(templates, deps.issuers)

    def add_page(
        self,
        router: APIRouter,
        path: str,
        template: str,
        section: str,
        make_fragment: Callable[..., Awaitable[Fragment]],
        live_path: str | None = None,
        *,
        is_exported: bool = False,
    ) -> None:
        """A page, and the stream of its fragment: at `/live` and the same path unless given.

        `make_fragment` is called with `deps` and the parameters of the routes. `section`: the
        page's entry of the navigation. `is_exported`: its fragment has exports, which are at
        `/export` and the same path.
        """
        fragment_of = partial(make_fragment, self.deps)

        @router.get(path)
        async def page(
            request: Request, fragment: Annotated[Fragment, Depends(fragment_of)]
        ) -> Response:
            return await self.send_page(request, template, section, fragment)

        @router.get(live_path or f"/live{path}")
        async def live(
            request: Request, fragment: Annotated[Fragment, Depends(fragment_of)]
        ) -> Response:
            return await self.send_live(request, fragment)

        if not is_exported:
            return
        exports = self.deps.exports
        exported = msgspec.structs.replace(self.deps, view=exports.view, lists=exports.lists)

        @router.get(f"/export{path}")
        async def export(
            request: Request,
            fragment: Annotated[Fragment, Depends(partial(make_fragment, exported))],
            table: Text = None,
            format: Format = None,
            accept: Accept = CSV,
        ) -> Response:
            visible_queues = await self.deps.visibility(request)
            assert fragment.list_exports is not None
            chosen = choose_export(fragment.list_exports(visible_queues), table)
            return await stream_list(self.deps, chosen, format, accept)

    async def send_page(
        self, request: Request, template: str, section: str, fragment: Fragment
    ) -> Response:
        """A whole page, or an error page. `section`: its entry of the navigation."""
        try:
            caller = await self.deps.visibility.find_caller(request)
            visible_queues = await self.deps.visibility.find_visible_queues(caller)
            values = await fragment.read(visible_queues)
            values |= {
                "section": section,
                "who": caller.name,
                "signed_in": caller.is_session,
                "is_operator": is_operator(caller),
            }
            if fragment.read_more is not None:
                values |= await fragment.read_more(visible_queues)
            if fragment.read_own is not None:
                values |= await fragment.read_own(caller, values)
        except (Problem, WorldError) as error:
            return self.error_page(request, error)
        return HTMLResponse(self.templates.render(template, **values), headers=PAGE_HEADERS)

    async def send_live(self, request: Request, fragment: Fragment) -> Response:
        """The stream of a fragment. Raises `Problem`: only a program reads that."""
        visible_queues = await self.deps.visibility(request)
        slot = Slot(self.deps, "streams")
        slot.check()
        shared = SharedFragment(
            (fragment.template, fragment.key, visible_queues),
            lambda: self._render(fragment, visible_queues),
            fragment.job_set,
        )
        # Raises a problem for what does not exist or is not visible to the caller.
        await self.deps.live.wait_until_rendered(shared)
        return StreamingResponse(
            self._stream(shared, slot),
            media_type=SSE,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _render(self, fragment: Fragment, visible_queues: QueueScope) -> bytes:
        return _encode_sse(
            self.templates.render(fragment.template, **await fragment.read(visible_queues))
        )

    async def _stream(self, shared: SharedFragment, slot: Slot) -> AsyncIterator[bytes]:
        """The fragment, each time it has changed."""
        with slot:
            ends_s = clock.monotonic_s() + LIVE_S_MAX
            async with contextlib.aclosing(self.deps.live.follow(shared)) as changes:
                async for some in changes:
                    yield some or ALIVE
                    if clock.monotonic_s() > ends_s:
                        return


def choose_export(exports: Sequence[ListExport], name: str | None) -> ListExport:
    """The export of this name; the first without a name. Raises a 422 `Problem`."""
    for export in exports:
        if name in (None, "", export.name):
            return export
    known = ", ".join(each.name for each in exports)
    raise invalid_parameter("table", f"The page has no table {name!r}. Use {known}.")


def _encode_sse(text: str) -> bytes:
    lines = "\n".join(f"data: {line}" for line in text.splitlines())
    return f"{lines}\n\n".encode()
