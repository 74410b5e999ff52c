"""Reads the shares and the resource usage of queues over time."""

from collections.abc import Iterable, Mapping, Sequence
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
    view: ViewReader, queue: str, period: Period
) -> list[tuple[int, str, ShareTotals]]:
    """(first ms, pool, totals) of the buckets of a queue, in order. What the fold has not added yet
    is included."""
    stored = await view.fetch_text(
        FAIRNESS["share_buckets"], period.width_ms, queue, period.from_ms, period.to_ms, ROWS_MAX
    )
    current = await view.fetch_text(FAIRNESS["current_shares_of_queue"], queue)
    return [
        (start_ms, pool, totals)
        for (_, _, start_ms, pool), totals in _list_buckets(stored, current, period)
    ]


async def read_pool_shares(
    view: ViewReader, pool: str, queues: Sequence[str], period: Period
) -> dict[str, list[tuple[int, ShareTotals]]]:
    """(first ms, totals) of the buckets of these queues in a pool, in order. What the fold has not
    added yet is included."""
    stored = await view.fetch_text(
        FAIRNESS["share_buckets_of_pool"], period.width_ms, pool, queues, period.from_ms,
        period.to_ms, ROWS_MAX,
    )  # fmt: skip
    current = await view.fetch_text(FAIRNESS["current_shares_of_pool"], pool, queues)
    found: dict[str, list[tuple[int, ShareTotals]]] = {}
    for (_, queue, start_ms, _), totals in _list_buckets(stored, current, period):
        found.setdefault(queue, []).append((start_ms, totals))
    return found


async def read_pool_totals(
    view: ViewReader, pool: str, queues: Sequence[str], period: Period
) -> dict[str, ShareTotals]:
    """The totals of the same buckets, of the queues that have some."""
    stored = await view.fetch_text(
        FAIRNESS["share_totals_of_pool"], period.width_ms, pool, queues, period.from_ms,
        period.to_ms,
    )  # fmt: skip
    current = await view.fetch_text(FAIRNESS["current_shares_of_pool"], pool, queues)
    found = {row["queue"]: _decode_totals(row) for row in stored}
    for (_, queue, _, _), totals in _list_buckets([], current, period):
        found[queue] = _add_totals(found.get(queue, ShareTotals()), totals)
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


def _list_buckets(
    stored: Iterable[Any], current: Iterable[Any], period: Period
) -> list[tuple[BucketKey, ShareTotals]]:
    """The buckets of a period that are not empty, in order. `stored`: rows of buckets. `current`:
    rows with the newest reports, which the fold has added in part."""
    width_ms = period.width_ms
    totals = {
        (width_ms, row["queue"], row["start_ms"], row["pool"]): _decode_totals(row)
        for row in stored
    }
    until_ms = min(period.now_ms, period.to_ms)
    for row in current:
        share = scheduling_reports.decode(row["report"])
        assert isinstance(share, scheduling_reports.QueueShare)
        fairness_fold.add_share(totals, ReportedShare(share, row["summed_ms"]), until_ms)
    return [
        (key, each)
        for key, each in sorted(totals.items(), key=lambda item: item[0])
        if key[0] == width_ms and period.from_ms <= key[2] < period.to_ms and each.ms
    ]


def _decode_totals(row: Any) -> ShareTotals:
    return ShareTotals(*(row[name] for name in ShareTotals.__struct_fields__))


def _add_totals(one: ShareTotals, other: ShareTotals) -> ShareTotals:
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
