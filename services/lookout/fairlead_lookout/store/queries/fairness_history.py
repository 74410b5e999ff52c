"""Reads the shares and the resource usage of queues over time."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from fairlead_common.domain.records import scheduling_reports
from fairlead_lookout.domain import fairness_fold, resource_usage
from fairlead_lookout.domain.fairness_fold import BucketKey, ReportedShare, ShareTotals
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.queries.view_reader import ViewReader
from fairlead_lookout.store.view_schema import FAIRNESS

ROWS_MAX: Final = 50_000
JOB_SETS_MAX: Final = 10_000

UsedAndLost: TypeAlias = dict[str, dict[str, float]]
"""`used` and `lost` -> resource -> amount x ms"""
_Key = TypeVar("_Key")


HourlyUsage: TypeAlias = dict[tuple[int, str], UsedAndLost]
"""By (hour, pool)."""
UserUsage: TypeAlias = dict[str, UsedAndLost]
"""By user."""


class Period(msgspec.Struct, frozen=True):
    """Buckets of this width between two times; `now_ms`: up to when there is anything to read."""

    width_ms: int
    from_ms: int
    to_ms: int
    now_ms: int


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


async def read_pool_shares(
    view: ViewReader, pool: str, queues: Sequence[str], period: Period
) -> dict[str, list[tuple[int, ShareTotals]]]:
    """(first ms, totals) of the buckets of these queues in a pool, in order. What the fold has not
    added yet is included."""
    found = await _read_unfolded(view, pool, queues, period)
    for row in await view.fetch_text(
        FAIRNESS["share_buckets_of_pool"], period.width_ms, pool, queues, period.from_ms,
        period.to_ms, ROWS_MAX,
    ):  # fmt: skip
        buckets = found.setdefault(row["queue"], {})
        totals = ShareTotals(*(row[name] for name in ShareTotals.__struct_fields__))
        buckets[row["start_ms"]] = _add_totals(totals, buckets.get(row["start_ms"]))
    return {
        queue: [(start_ms, totals) for start_ms, totals in sorted(buckets.items()) if totals.ms]
        for queue, buckets in found.items()
    }


async def read_pool_totals(
    view: ViewReader, pool: str, queues: Sequence[str], period: Period
) -> dict[str, ShareTotals]:
    """The totals of the same buckets, of the queues that have some."""
    unfolded = await _read_unfolded(view, pool, queues, period)
    found: dict[str, ShareTotals] = {}
    for row in await view.fetch_text(
        FAIRNESS["share_totals_of_pool"], period.width_ms, pool, queues, period.from_ms,
        period.to_ms,
    ):  # fmt: skip
        found[row["queue"]] = ShareTotals(*(row[name] for name in ShareTotals.__struct_fields__))
    for queue, buckets in unfolded.items():
        for totals in buckets.values():
            found[queue] = _add_totals(totals, found.get(queue))
    return {queue: totals for queue, totals in found.items() if totals.ms}


async def read_pool_usage(
    view: ViewReader, pool: str, queues: Sequence[str], period: Period
) -> dict[str, UsedAndLost]:
    """What the runs of these queues used of a pool and lost. Live runs are included."""
    found: dict[str, UsedAndLost] = {}
    for row in await view.fetch_text(
        FAIRNESS["usage_of_pool"], queues, pool, period.from_ms, period.to_ms
    ):
        _add_row(found, row["queue"], row)
    for queue, used_pool, _, _, used in await _read_uncounted(
        view, queues, period.from_ms, period.to_ms, period.now_ms
    ):
        if used_pool == pool:
            _add(found, queue, "used", used)
    return found


async def _read_unfolded(
    view: ViewReader, pool: str, queues: Sequence[str], period: Period
) -> dict[str, dict[int, ShareTotals]]:
    """What the fold has not added yet, by queue and first ms."""
    totals: dict[BucketKey, ShareTotals] = {}
    for row in await view.fetch_text(FAIRNESS["current_shares_of_pool"], pool, queues):
        share = scheduling_reports.decode(row["report"])
        assert isinstance(share, scheduling_reports.QueueShare)
        until_ms = min(period.now_ms, period.to_ms)
        fairness_fold.add_share(totals, ReportedShare(share, row["summed_ms"]), until_ms)
    found: dict[str, dict[int, ShareTotals]] = {}
    for (width_ms, queue, start_ms, _), each in totals.items():
        is_inside = period.from_ms <= start_ms < period.to_ms
        if width_ms == period.width_ms and is_inside and each.ms:
            found.setdefault(queue, {})[start_ms] = each
    return found


def _add_totals(one: ShareTotals, other: ShareTotals | None) -> ShareTotals:
    if other is None:
        return one
    both = zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    return ShareTotals(*(first + second for first, second in both))


async def read_usage(
    view: ViewReader, queue: str, from_ms: int, to_ms: int, now_ms: int
) -> HourlyUsage:
    """What the runs of a queue used and lost between two times. Live runs are included."""
    hours: HourlyUsage = {}
    for row in await view.fetch_text(FAIRNESS["usage"], queue, from_ms, to_ms, ROWS_MAX):
        _add_row(hours, (row["hour_ms"], row["pool"]), row)
    for _, pool, _, hour_ms, used in await _read_uncounted(view, [queue], from_ms, to_ms, now_ms):
        _add(hours, (hour_ms, pool), "used", used)
    return hours


async def read_user_usage(
    view: ViewReader, queue: str, from_ms: int, to_ms: int, now_ms: int
) -> UserUsage:
    """The same by the user who submitted the jobs."""
    users: UserUsage = {}
    for row in await view.fetch_text(FAIRNESS["user_usage"], queue, from_ms, to_ms):
        _add_row(users, row["submitted_by"], row)
    for _, _, user, _, used in await _read_uncounted(view, [queue], from_ms, to_ms, now_ms):
        _add(users, user, "used", used)
    return users


async def _read_uncounted(
    view: ViewReader, queues: Sequence[str], from_ms: int, to_ms: int, now_ms: int
) -> list[tuple[str, str, str, int, dict[str, int]]]:
    """(queue, pool, user, hour, amounts x ms) that live runs have used and the fold has not counted
    yet."""
    rows = await view.fetch_text(FAIRNESS["job_sets_with_usage"], queues, JOB_SETS_MAX)
    return [
        (row["queue"], pool, user, hour_ms, {name: amount * ms for name, amount in held.items()})
        for row in rows
        for pool, user, hour_ms, held, ms in resource_usage.split_uncounted(
            table_rows.decode_job_set(row), min(now_ms, to_ms)
        )
        if from_ms <= hour_ms < to_ms
    ]


def _add_row(totals: dict[_Key, UsedAndLost], key: _Key, row: Any) -> None:
    _add(totals, key, "used", {row["resource"]: row["used"]})
    _add(totals, key, "lost", {row["resource"]: row["lost"]})


def _add(
    totals: dict[_Key, UsedAndLost], key: _Key, kind: str, amounts: Mapping[str, float]
) -> None:
    total = totals.setdefault(key, {"used": {}, "lost": {}})[kind]
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount
