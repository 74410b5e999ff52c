"""Reads the shares and the resource usage of a queue over time."""

from collections.abc import Mapping
from typing import Final

from fairlead_common.domain.records import scheduling_reports
from fairlead_lookout.domain import fairness_fold, resource_usage
from fairlead_lookout.domain.fairness_fold import BucketKey, ReportedShare, ShareTotals
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.queries.view_reader import ViewReader
from fairlead_lookout.store.view_schema import FAIRNESS

ROWS_MAX: Final = 50_000
JOB_SETS_MAX: Final = 10_000

HourlyUsage = dict[tuple[int, str], dict[str, dict[str, float]]]
"""(hour, pool) -> `used` and `lost` -> resource -> amount x ms"""


async def read_shares(
    view: ViewReader, queue: str, width_ms: int, from_ms: int, to_ms: int, now_ms: int
) -> list[tuple[int, str, ShareTotals]]:
    """(first ms, pool, totals) of the buckets between two times, in order. What the fold has not
    added yet is included."""
    totals: dict[BucketKey, ShareTotals] = {}
    for row in await view.fetch_text(
        FAIRNESS["share_buckets"], width_ms, queue, from_ms, to_ms, ROWS_MAX
    ):
        key = (width_ms, queue, row["start_ms"], row["pool"])
        totals[key] = ShareTotals(*(row[name] for name in ShareTotals.__struct_fields__))
    for row in await view.fetch_text(FAIRNESS["current_shares_of_queue"], queue):
        share = scheduling_reports.decode(row["report"])
        assert isinstance(share, scheduling_reports.QueueShare)
        fairness_fold.add_share(totals, ReportedShare(share, row["summed_ms"]), min(now_ms, to_ms))
    return [
        (start_ms, pool, each)
        for (width, _, start_ms, pool), each in sorted(totals.items(), key=lambda item: item[0][2:])
        if width == width_ms and from_ms <= start_ms < to_ms and each.ms
    ]


async def read_usage(
    view: ViewReader, queue: str, from_ms: int, to_ms: int, now_ms: int
) -> HourlyUsage:
    """What the runs of a queue used and lost between two times. Live runs are included."""
    hours: HourlyUsage = {}

    def add(hour_ms: int, pool: str, kind: str, amounts: Mapping[str, float]) -> None:
        totals = hours.setdefault((hour_ms, pool), {"used": {}, "lost": {}})[kind]
        for name, amount in amounts.items():
            totals[name] = totals.get(name, 0) + amount

    for row in await view.fetch_text(FAIRNESS["usage"], queue, from_ms, to_ms, ROWS_MAX):
        add(row["hour_ms"], row["pool"], "used", {row["resource"]: row["used"]})
        add(row["hour_ms"], row["pool"], "lost", {row["resource"]: row["lost"]})
    for row in await view.fetch_text(FAIRNESS["job_sets_with_usage"], queue, JOB_SETS_MAX):
        job_set = table_rows.decode_job_set(row)
        for pool, hour_ms, held, ms in resource_usage.split_uncounted(job_set, min(now_ms, to_ms)):
            if from_ms <= hour_ms < to_ms:
                add(hour_ms, pool, "used", {name: amount * ms for name, amount in held.items()})
    return hours
