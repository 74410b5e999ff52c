"""`GET /logs/{run}`: the output of runs, for callers with a short-lived token of lookout."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JOB_ID_LENGTH, RunId
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import log_parts
from fairlead_common.service import clock
from fairlead_common.web import auth
from fairlead_common.web.routing import DeferredRoute
from fairlead_executor.domain.cluster_protocol import Cluster
from fairlead_executor.domain.run_logs import (
    FOLLOW_LINES_MAX,
    LogEndRequest,
    LogRequest,
    NoLineTimes,
    NoLog,
    Stream,
)

RUN: Final = re.compile(rf"[0-9a-z]{{{JOB_ID_LENGTH}}}-[0-9]{{1,9}}")
BEARER: Final = "Bearer "
LAST_BYTES_MAX: Final = 32 * 2**20


def routes(cluster: Cluster, signing_key: str) -> APIRouter:
    """`GET /logs/{run_id}`; without a signing key every request is refused."""
    router = APIRouter(route_class=DeferredRoute)

    @router.get("/logs/{run_id}", summary="What a run wrote")
    async def logs(
        run_id: str,
        authorization: Annotated[str, Header()] = "",
        stream: Stream = Stream.STDOUT,
        tail: Annotated[int | None, Query(ge=0, le=FOLLOW_LINES_MAX)] = None,
        since_bytes: Annotated[int | None, Query(ge=0)] = None,
        since_ms: Annotated[int | None, Query(ge=0)] = None,
        last_bytes: Annotated[int | None, Query(ge=1, le=LAST_BYTES_MAX)] = None,
        before_bytes: Annotated[int | None, Query(ge=0)] = None,
        follow: bool = False,
        container: Annotated[str | None, Query(max_length=63)] = None,
    ) -> StreamingResponse:
        token = authorization.removeprefix(BEARER)
        if auth.verify(signing_key, token, clock.now_ms()) != f"logs:{run_id}":
            raise Problem(
                "unauthenticated",
                "This log link is invalid or has expired. Open the job page again for a new one.",
            )
        if not RUN.fullmatch(run_id):
            raise Problem(
                "not-found",
                f"{run_id!r} is not a run id. A run id is a job id, a hyphen and a number.",
            )
        run = RunId(run_id)
        headers = {}
        try:
            if last_bytes is None:
                chunks = cluster.logs(
                    run,
                    LogRequest(
                        stream=stream,
                        tail=tail,
                        since_bytes=since_bytes,
                        since_ms=since_ms,
                        follow=follow,
                        container=container,
                    ),
                )
            else:
                end = await cluster.log_end(
                    run,
                    LogEndRequest(
                        stream=stream,
                        lines_max=tail,
                        bytes_max=last_bytes,
                        before=before_bytes,
                        container=container,
                    ),
                )
                chunks, headers = end.chunks, {log_parts.HEADER: log_parts.encode(end.part)}
            first = await anext(chunks, b"")
        except NoLineTimes as error:
            refusal = FieldError("/query/since_ms", str(error))
            raise Problem("invalid", "A parameter is not valid.", [refusal]) from error
        except NoLog as error:
            raise Problem("not-found", f"There is no log of run {run_id}: {error}.") from error
        return StreamingResponse(
            _all(first, chunks), media_type="text/plain; charset=utf-8", headers=headers
        )

    return router


async def _all(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for part in parts:
        yield part
