"""The route of a run's log."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_lookout.http import executor_logs, list_filters
from fairlead_lookout.http.api import job_routes
from fairlead_lookout.http.deps import Parts, Place
from fairlead_lookout.http.long_polls import JobIdOf, coming
from fairlead_lookout.http.openapi import answers

Bytes = Annotated[
    int | None,
    Query(ge=0, le=2**53, description="Go on behind so many bytes, which were read already."),
]


def add_routes(router: APIRouter, parts: Parts) -> None:
    """The log, as the executor that ran it has it."""
    Seen = Annotated[QueueScope, Depends(parts.sight)]

    @router.get(
        "/jobs/{job:path}/logs",
        summary="What a run has written, as long as the executor has it",
        responses=answers(str, "The log's bytes.", 400, 404, media="text/plain"),
        dependencies=[coming(parts)],
    )
    async def get_logs(
        reach: Seen,
        job_id: JobIdOf,
        run: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
        container: Annotated[str | None, Query(max_length=63)] = None,
        stream: Literal["stdout", "stderr"] = "stdout",
        tail: Annotated[int | None, Query(ge=0, le=1_000_000, description="Lines.")] = None,
        since: Bytes = None,
        since_bytes: Annotated[
            int | None, Query(alias="sinceBytes", ge=0, le=2**53, description="As `since`.")
        ] = None,
        follow: bool = False,
    ) -> StreamingResponse:
        place = Place(parts, "streams")
        parameters = {"stream": stream, "follow": "true" if follow else "false"}
        behind = since if since is not None else since_bytes
        for name, value in (("tail", tail), ("since_bytes", behind), ("container", container)):
            if value is not None:
                parameters[name] = str(value)
        with place:
            body = await open_log(parts, job_id, run, parameters, reach)
        return StreamingResponse(
            _counted(body, place),
            media_type="text/plain; charset=utf-8",
            headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
        )


async def _counted(body: AsyncIterator[bytes], place: Place) -> AsyncIterator[bytes]:
    """The body, in a place among the open streams."""
    with place:
        async for part in body:
            yield part


async def open_log(
    parts: Parts,
    job_id: str,
    run: int | None,
    parameters: dict[str, str],
    reach: QueueScope = ALL_QUEUES,
) -> AsyncIterator[bytes]:
    """The log of a run, by default the newest. Raises `Problem`."""
    found = await job_routes.find(parts, job_id, reach)
    container = parameters.get("container")
    names = executor_logs.containers(found.submitted.spec)
    if container is not None and container not in names:
        known = ", ".join(names) or "none with a name"
        raise list_filters.refusal(
            "container", f"The job has no container {container!r}, but {known}."
        )
    wanted = [row for row in found.runs if run is None or row["number"] == run]
    if not wanted:
        which = "has not run yet" if run is None else f"has no run {run}"
        raise Problem("not-found", f"The job {job_id} {which}, so there is no log.")
    newest: Any = wanted[0]
    return await parts.logs.open(newest, job_id, parameters)
