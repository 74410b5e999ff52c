"""The route of a run's log."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps, Slot
from fairlead_lookout.http.long_polls import after_position
from fairlead_lookout.http.lookups import log_lookup
from fairlead_lookout.http.request_parameters import JobReference, Start, parse_start_ms
from fairlead_lookout.http.responses.json_answers import document_responses

Bytes = Annotated[
    int | None,
    Query(ge=0, le=2**53, description="Skip this many bytes from the start of the log."),
]


def add_routes(router: APIRouter, deps: Deps) -> None:
    """The log, read from the executor of the run."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/jobs/{job:path}/logs",
        summary="The log of a run, while its executor retains it",
        responses=document_responses(str, "The log's bytes.", 400, 404, media="text/plain"),
        dependencies=[after_position(deps)],
    )
    async def get_logs(
        visible_queues: VisibleQueues,
        job: JobReference,
        run: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
        container: Annotated[str | None, Query(max_length=63)] = None,
        stream: Literal["stdout", "stderr"] = "stdout",
        tail: Annotated[int | None, Query(ge=0, le=1_000_000, description="Lines.")] = None,
        since: Bytes = None,
        since_bytes: Annotated[
            int | None, Query(alias="sinceBytes", ge=0, le=2**53, description="As `since`.")
        ] = None,
        since_time: Annotated[
            Start | None,
            Query(
                alias="sinceTime",
                max_length=40,
                description="Only lines written since then, on Kubernetes: a duration before now"
                " (`10m`, `2h`, `1h30m`) or a time in RFC 3339.",
            ),
        ] = None,
        follow: bool = False,
    ) -> StreamingResponse:
        slot = Slot(deps, "streams")
        parameters = {"stream": stream, "follow": "true" if follow else "false"}
        skip = since if since is not None else since_bytes
        start_ms = None if since_time is None else parse_start_ms(since_time, clock.now_ms())
        for name, value in (
            ("tail", tail),
            ("since_bytes", skip),
            ("since_ms", start_ms),
            ("container", container),
        ):
            if value is not None:
                parameters[name] = str(value)
        with slot:
            log = await log_lookup.open_log(deps, visible_queues, job, run, parameters)
        return StreamingResponse(
            _hold_slot(log.chunks, slot),
            media_type="text/plain; charset=utf-8",
            headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
        )


async def _hold_slot(body: AsyncIterator[bytes], slot: Slot) -> AsyncIterator[bytes]:
    """The body, with a slot among the open streams until it ends."""
    with slot:
        async for part in body:
            yield part
