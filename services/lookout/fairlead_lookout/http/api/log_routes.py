"""The route of a run's log."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_lookout.http import executor_logs
from fairlead_lookout.http.api import job_routes
from fairlead_lookout.http.deps import Deps, Slot
from fairlead_lookout.http.executor_logs import ExecutorLog
from fairlead_lookout.http.long_polls import after_position
from fairlead_lookout.http.request_parameters import JobReference, Start, parse_start_ms
from fairlead_lookout.http.responses.json_answers import document_responses
from fairlead_lookout.store.queries.list_filters import invalid_parameter

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
            log = await open_log(deps, job, run, parameters, visible_queues)
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


async def open_log(
    deps: Deps,
    job: str,
    run: int | None,
    parameters: dict[str, str],
    visible_queues: QueueScope = ALL_QUEUES,
) -> ExecutorLog:
    """The log of a run, by default the newest. Raises `Problem`."""
    found = await job_routes.find_job(deps, job, visible_queues)
    container = parameters.get("container")
    names = executor_logs.list_containers(found.submitted.spec)
    if container is not None and container not in names:
        known = (
            f"Its containers are {', '.join(names)}." if names else "Its containers have no names."
        )
        raise invalid_parameter("container", f"The job has no container {container!r}. {known}")
    wanted = [row for row in found.runs if run is None or row["number"] == run]
    if not wanted:
        which = "has not run yet" if run is None else f"has no run {run}"
        raise Problem("not-found", f"Job {job} {which}, so it has no log.")
    newest: Any = wanted[0]
    return await deps.logs.open(newest, found.row["id"], parameters)
