"""The route of shares over time: what a queue had, what it waited for, what it used and lost."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Response

from fairlead_common.domain import timestamps
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.records import scheduling_reports
from fairlead_common.service import clock
from fairlead_lookout.domain import fairness_fold, resource_usage
from fairlead_lookout.domain.fairness_fold import MINUTE_MS, BucketKey, Standing, Sums
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.http import list_filters, responses
from fairlead_lookout.http.deps import Parts
from fairlead_lookout.http.long_polls import answer, coming, require_queue
from fairlead_lookout.http.openapi import answers
from fairlead_lookout.service import fairness_loop
from fairlead_lookout.store.fold import table_rows

SPAN_MS: Final = 24 * HOUR_MS
SPAN_MS_MAX: Final = 400 * 24 * HOUR_MS
MINUTES_SPAN_MS: Final = 6 * HOUR_MS
"""Up to such a span there is a point a minute, beyond that one an hour."""
ROWS_MAX: Final = 50_000
SETS_MAX: Final = 10_000
When = Annotated[list_filters.Time | None, Query(max_length=40, description="RFC 3339.")]


def add_routes(router: APIRouter, parts: Parts) -> None:
    """`GET /fairness`."""
    Seen = Annotated[QueueScope, Depends(parts.sight)]

    @router.get(
        "/fairness",
        summary="A queue's share over time, and the resource-hours it used and lost",
        dependencies=[coming(parts)],
        responses=answers(responses.FairnessShown, "Means by time, and resource-hours.", 400, 404),
    )
    async def get_fairness(
        reach: Seen,
        queue: Annotated[str, Query(max_length=256)],
        from_: Annotated[When, Query(alias="from")] = None,
        to: When = None,
    ) -> Response:
        await require_queue(parts, reach, queue)
        now_ms = clock.now_ms()
        to_ms = now_ms if to is None else list_filters.time_ms(to)
        from_ms = to_ms - SPAN_MS if from_ is None else list_filters.time_ms(from_)
        if not 0 < to_ms - from_ms <= SPAN_MS_MAX:
            raise list_filters.refusal("from", "It must be before `to`, by 400 days at most.")
        return answer(await over_time(parts, queue, from_ms, to_ms, now_ms))


async def over_time(
    parts: Parts, queue: str, from_ms: int, to_ms: int, now_ms: int
) -> responses.FairnessShown:
    """A queue's shares and usage between two times, what has not been summed up yet included."""
    width_ms = MINUTE_MS if to_ms - from_ms <= MINUTES_SPAN_MS else HOUR_MS
    first_ms = from_ms - from_ms % width_ms
    sums: dict[BucketKey, Sums] = {}
    ask = parts.view.ask
    for row in await ask(fairness_loop.SQL["standing"], width_ms, queue, first_ms, to_ms, ROWS_MAX):
        key = (width_ms, queue, row["start_ms"], row["pool"])
        sums[key] = Sums(*(row[name] for name in Sums.__struct_fields__))
    for row in await ask(fairness_loop.SQL["standing_now_of"], queue):
        said = scheduling_reports.decode(row["report"])
        assert isinstance(said, scheduling_reports.QueueShare)
        fairness_fold.add(sums, Standing(said, row["summed_ms"]), min(now_ms, to_ms))
    points = [
        responses.standing(start_ms, pool, each)
        for (width, _, start_ms, pool), each in sorted(sums.items(), key=lambda item: item[0][2:])
        if width == width_ms and first_ms <= start_ms < to_ms and each.ms
    ]
    hours = await _usage(parts, queue, resource_usage.hour(from_ms), to_ms, now_ms)
    used, lost = _total(hours, "used"), _total(hours, "lost")
    return responses.FairnessShown(
        queue=queue,
        from_=timestamps.rfc3339(from_ms),
        to=timestamps.rfc3339(to_ms),
        step_seconds=width_ms // 1000,
        points=points,
        usage=[
            responses.UsageShown(
                time=timestamps.rfc3339(hour_ms),
                pool=pool,
                used=responses.resource_hours(each["used"]),
                lost=responses.resource_hours(each["lost"]),
            )
            for (hour_ms, pool), each in sorted(hours.items())
        ],
        used=responses.resource_hours(used),
        lost=responses.resource_hours(lost),
    )


Hours = dict[tuple[int, str], dict[str, dict[str, float]]]
"""(hour, pool) -> `used` and `lost` -> resource -> amount x ms"""


async def _usage(parts: Parts, queue: str, from_ms: int, to_ms: int, now_ms: int) -> Hours:
    hours: Hours = {}

    def add(hour_ms: int, pool: str, kind: str, amounts: Mapping[str, float]) -> None:
        own = hours.setdefault((hour_ms, pool), {"used": {}, "lost": {}})[kind]
        for name, amount in amounts.items():
            own[name] = own.get(name, 0) + amount

    rows: list[Any] = await parts.view.ask(
        fairness_loop.SQL["usage"], queue, from_ms, to_ms, ROWS_MAX
    )
    for row in rows:
        add(row["hour_ms"], row["pool"], "used", {row["resource"]: row["used"]})
        add(row["hour_ms"], row["pool"], "lost", {row["resource"]: row["lost"]})
    for row in await parts.view.ask(fairness_loop.SQL["held_now"], queue, SETS_MAX):
        for pool, hour_ms, held, ms in resource_usage.since(
            table_rows.job_set(row), min(now_ms, to_ms)
        ):
            if from_ms <= hour_ms < to_ms:
                add(hour_ms, pool, "used", {name: amount * ms for name, amount in held.items()})
    return hours


def _total(hours: Hours, kind: str) -> dict[str, float]:
    totals: dict[str, float] = {}
    for each in hours.values():
        for name, amount in each[kind].items():
            totals[name] = totals.get(name, 0) + amount
    return totals
