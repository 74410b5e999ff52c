"""The route of shares over time: the share of a queue, its demand, and what it used and lost."""

from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.service import clock
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import after_position
from fairlead_lookout.http.lookups import fairness_lookup, queue_lookup
from fairlead_lookout.http.lookups.fairness_lookup import SPAN_MS
from fairlead_lookout.http.request_parameters import Time, parse_time_ms
from fairlead_lookout.http.responses import fairness_responses
from fairlead_lookout.http.responses.json_answers import document_responses, json_response
from fairlead_lookout.store.queries.list_filters import invalid_parameter

SPAN_MS_MAX: Final = 400 * 24 * HOUR_MS
OptionalTime = Annotated[Time | None, Query(max_length=40, description="RFC 3339.")]


def add_routes(router: APIRouter, deps: Deps) -> None:
    """`GET /fairness`."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/fairness",
        summary="The share of a queue over time, and the resource-hours that it used and lost",
        dependencies=[after_position(deps)],
        responses=document_responses(
            fairness_responses.FairnessResponse, "Means by time, and resource-hours.", 400, 404
        ),
    )
    async def get_fairness(
        visible_queues: VisibleQueues,
        queue: Annotated[str, Query(max_length=256)],
        from_: Annotated[OptionalTime, Query(alias="from")] = None,
        to: OptionalTime = None,
    ) -> Response:
        await queue_lookup.require_queue(deps, visible_queues, queue)
        now_ms = clock.now_ms()
        to_ms = now_ms if to is None else parse_time_ms(to)
        from_ms = to_ms - SPAN_MS if from_ is None else parse_time_ms(from_)
        if not 0 < to_ms - from_ms <= SPAN_MS_MAX:
            raise invalid_parameter("from", "It must be before `to`, by at most 400 days.")
        found = await fairness_lookup.describe_fairness(deps, queue, from_ms, to_ms, now_ms)
        users = await fairness_lookup.rank_users(deps, queue, from_ms, to_ms, now_ms)
        return json_response(msgspec.structs.replace(found, users=users))
