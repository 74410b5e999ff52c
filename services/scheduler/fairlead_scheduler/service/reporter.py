"""Makes the records of `fairlead.reports` after rounds: reports that changed.

The reporter does no I/O. It retains the reports that it made, to find changes, and sets the gauges
of the metrics. Shares are rounded, so that small differences are not changes.
"""

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.records import scheduling_reports
from fairlead_common.domain.records.scheduling_reports import (
    GroupNearness,
    QueueShare,
    Report,
    RoundReport,
    WaitingReport,
)
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log.protocol import Record
from fairlead_scheduler.engine import Plan
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.plan import queue_positions, reason_texts
from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.service import metrics
from fairlead_scheduler.snapshots import BuiltSnapshot
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

REPORTS_MAX: Final = 5_000
"""The most reports written after one round; the others follow after the next round."""
POOL_FAILING: Final = "pool-failing"
GANG_STOPPING: Final = "gang-stopping"
LOST_RUN: Final = "lost-run"


class Reporter:
    """Makes reports, and retains the last ones of each pool. `classes`: names of the configured
    priority classes."""

    def __init__(
        self, classes: Iterable[str] = (), *, reports_max: int = REPORTS_MAX, is_ready: bool = True
    ) -> None:
        self._classes = frozenset(classes)
        self._reports_max = reports_max
        self._incomplete: set[str] = set()
        self._written: dict[str, dict[str, Report]] = {}
        self._gauges: dict[str, metrics.PoolGauges] = {}
        self.is_ready = is_ready
        """False until `restore`: nothing can be compared, so nothing is written."""

    def restore(self, newest: dict[str, bytes]) -> None:
        """Restore the reports of the previous leader."""
        for key, value in newest.items():
            report = scheduling_reports.decode(value)
            self._written.setdefault(report.pool, {})[key] = report
        self.is_ready = True

    def report_round(
        self,
        view: View,
        built: BuiltSnapshot,
        plan: Plan,
        queues: Queues,
        unconfirmed: Collection[int] = (),
        *,
        now_ms: int,
        steps_ms: dict[str, float],
    ) -> list[Record]:
        """The records of the reports that this round changed.

        `unconfirmed`: rows of jobs that are excluded because a lost run perhaps still exists.
        """
        waiting = [*_report_waiting(view, built, plan, queues, self._classes)]
        known = {scheduling_reports.key(report) for report in waiting}
        beside = _report_stopping_gangs(view, plan.pool)
        beside += _report_unconfirmed(view, plan.pool, unconfirmed)
        waiting += [report for report in beside if scheduling_reports.key(report) not in known]
        shares = _report_shares(view, built, plan, queues)
        found: list[Report] = [*waiting, *shares, *_report_nearness(built, plan)]
        self._update_gauges(plan.pool, found)
        round_ = _report_round(built, plan, now_ms, steps_ms)
        return self._select_changed(plan.pool, found, round_, len(plan.placed_job) > 0)

    def report_failure(self, view: View, pool: str, why: str, *, now_ms: int) -> list[Record]:
        """The records that report failing rounds as the reason why all jobs of the pool wait.

        The reports of shares and of nearness stay: nothing has changed them.
        """
        written = self._written.get(pool, {})
        stays = QueueShare | GroupNearness
        shares = [report for report in written.values() if isinstance(report, stays)]
        waiting = _report_all_as_waiting(view, pool, f"The rounds of pool {pool} fail: {why}")
        self._update_gauges(pool, [*waiting, *shares])
        round_ = RoundReport(
            pool=pool,
            at_ms=now_ms,
            waiting=sum(report.jobs for report in waiting),
            outcome="failed",
            error=why,
        )
        before = written.get(pool)
        news = not isinstance(before, RoundReport) or before.error != why
        return self._select_changed(pool, [*waiting, *shares], round_, news)

    def retract_pools(self, pools: Collection[str]) -> list[Record]:
        """Records that retract the reports of all pools but these; further ones follow at the next
        call."""
        records: list[Record] = []
        for pool in self._written.keys() - set(pools):
            written = self._written[pool]
            for key in list(written)[: self._reports_max - len(records)]:
                del written[key]
                records.append(scheduling_reports.deletion_record(key))
            if not written:
                del self._written[pool]
            self._update_gauges(pool, [])
            del self._gauges[pool]
            self._incomplete.discard(pool)
        return records

    def has_more(self, pool: str) -> bool:
        """Whether there are more changed reports than are written after one round."""
        return pool in self._incomplete

    def _update_gauges(self, pool: str, found: list[Report]) -> None:
        gauges = self._gauges.get(pool)
        if gauges is None:
            gauges = self._gauges[pool] = metrics.PoolGauges(pool)
        gauges.update(found)

    def _select_changed(
        self, pool: str, found: list[Report], round_: RoundReport, news: bool
    ) -> list[Record]:
        """The records of the changed reports, and of the round if any report changed, its outcome
        changed, or `news` says that it did something."""
        written = self._written.setdefault(pool, {})
        now = {scheduling_reports.key(report): report for report in found}
        records = [
            scheduling_reports.record(report)
            for key, report in now.items()
            if written.get(key) != report
        ]
        removed = [key for key in written if key not in now and key != pool]
        records += [scheduling_reports.deletion_record(key) for key in removed]
        before = written.get(pool)
        other = not isinstance(before, RoundReport) or before.outcome != round_.outcome
        if records or news or other:
            now[pool] = round_
            records.insert(0, scheduling_reports.record(round_))
        self._incomplete.discard(pool)
        if len(records) > self._reports_max:
            self._incomplete.add(pool)
        records = records[: self._reports_max]
        for record in records:
            if record.value is None:
                del written[record.key]
            else:
                written[record.key] = now[record.key]
        return records


def _report_waiting(
    view: View, built: BuiltSnapshot, plan: Plan, queues: Queues, classes: frozenset[str]
) -> list[WaitingReport]:
    snapshot, reasons = built.snapshot, plan.reasons
    found = []
    fair = np.array([queues.is_fair(name) for name in snapshot.queue_names], np.bool_)
    ahead = queue_positions.count_jobs_ahead(snapshot, plan, fair).tolist()
    for row in range(len(reasons.code)):
        if reasons.waiting[row] <= 0:
            continue
        gang = int(reasons.gang[row])
        shape, job_set, gang_name = "", "", ""
        if gang >= 0:
            _, job_set, gang_name = built.gangs[gang]
        else:
            number = built.shapes[int(reasons.shape[row])]
            shape = shapes.key(*view.jobs.shapes.values[number])
        counts = reasons.counts[row].tolist()
        queue = snapshot.queue_names[int(reasons.queue[row])]
        sentence = _describe_row(view, built, plan, queues, row, classes)
        if ahead[row] > 0:
            sentence += f" {queue_positions.describe_jobs_ahead(queue, ahead[row])}"
        found.append(
            WaitingReport(
                pool=plan.pool,
                queue=queue,
                code=reason_texts.CODE_NAMES[engine.Code(int(reasons.code[row]))],
                sentence=sentence,
                shape=shape,
                job_set=job_set,
                gang=gang_name,
                jobs=int(reasons.waiting[row]),
                nodes={
                    bucket.name.lower().replace("_", "-"): counts[bucket]
                    for bucket in engine.Bucket
                    if counts[bucket]
                },
            )
        )
    return found


def _describe_row(
    view: View, built: BuiltSnapshot, plan: Plan, queues: Queues, row: int, classes: frozenset[str]
) -> str:
    """The engine's sentence, or a more specific one from what only the service knows."""
    snapshot, reasons = built.snapshot, plan.reasons
    queue = queues.get(snapshot.queue_names[int(reasons.queue[row])])
    shape = int(reasons.shape[row])
    if reasons.code[row] == engine.Code.QUEUE_CORDONED:
        if queue.deleted:
            return (
                f"Queue {queue.name} was deleted. Its jobs wait until it is created again or they"
                " are cancelled."
            )
        why = f" ({queue.reason})" if queue.reason else ""
        return f"Queue {queue.name} is cordoned{why}: it starts no new jobs until it is uncordoned."
    written = reason_texts.describe_reason(snapshot, plan, row)
    if shape >= 0 and classes:
        name = view.jobs.shapes.values[built.shapes[shape]].priority_class
        if name not in classes:
            return (
                f"{written} Priority class {name} is no longer configured, so the job counts with"
                " value 0."
            )
    return written


def _report_stopping_gangs(view: View, pool: str) -> list[WaitingReport]:
    """Members of gangs that wait until the others, which are being stopped, have ended."""
    jobs = view.jobs
    gangs: set[job_table.GangName] = set()
    for row in view.rows_to_examine if view.gangs else ():
        rare = jobs.rare_properties.get(row)
        if rare is None or rare.gang is None:
            continue
        if jobs.pools.values[jobs.pool[row]] == pool and jobs.flags[row] & job_table.STOPPING:
            gangs.add(rare.gang)
    found = []
    for gang in sorted(gangs):
        rows = [jobs.rows[job_id] for job_id in view.gang_members.get(gang, ())]
        queued = sum(1 for row in rows if jobs.state[row] == job_table.QUEUED)
        if queued:
            whose = "the group" if gang.name in view.groups else f"gang {gang.name}"
            found.append(
                WaitingReport(
                    pool=pool,
                    queue=gang.queue,
                    code=GANG_STOPPING,
                    sentence=f"Members of {whose} are being stopped. The others wait until these"
                    " have ended, so that all members start together.",
                    job_set=gang.job_set,
                    gang=gang.name,
                    jobs=queued,
                )
            )
    return found


def _report_unconfirmed(view: View, pool: str, rows: Collection[int]) -> list[WaitingReport]:
    """Reports for the jobs of these rows that are of this pool."""
    if not rows:
        return []
    sentence = (
        "A lost run of the job, or of a member of its gang, perhaps still exists. The job starts"
        " again when the executor of that run has reported its end or is lost itself."
    )
    return _report_rows(view, pool, np.array(sorted(rows), np.intp), LOST_RUN, sentence)


def _report_all_as_waiting(view: View, pool: str, sentence: str) -> list[WaitingReport]:
    """Reports with this sentence for all queued jobs of a pool."""
    every = np.arange(view.jobs.used, dtype=np.intp)
    return _report_rows(view, pool, every, POOL_FAILING, sentence)


def _report_rows(
    view: View, pool: str, rows: npt.NDArray[np.intp], code: str, sentence: str
) -> list[WaitingReport]:
    """Reports with this sentence for the queued jobs of these rows that are of the pool, by queue
    and shape, and by gang."""
    jobs = view.jobs
    here = jobs.pools.find(pool)
    rows = rows[jobs.pool[rows] == (-1 if here is None else here)]
    rows = rows[(jobs.state[rows] == job_table.QUEUED) & ((jobs.flags[rows] & job_table.FREE) == 0)]
    number = np.int64(len(jobs.shapes))
    by_kind, counts = _count_distinct(jobs.queue[rows] * number + jobs.shape[rows])
    found = [
        WaitingReport(
            pool=pool,
            queue=jobs.queues.values[key // number],
            code=code,
            sentence=sentence,
            shape=shapes.key(*jobs.shapes.values[key % number]),
            jobs=count,
        )
        for key, count in zip(by_kind.tolist(), counts.tolist(), strict=True)
    ]
    in_gangs = jobs.rare_properties.keys() & set(rows.tolist()) if view.gangs else ()
    gangs = {gang for row in in_gangs if (gang := jobs.rare_properties[row].gang)}
    found += [
        WaitingReport(
            pool=pool,
            queue=gang.queue,
            code=code,
            sentence=sentence,
            job_set=gang.job_set,
            gang=gang.name,
        )
        for gang in sorted(gangs)
    ]
    return found


def _count_distinct(
    keys: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct keys and their counts; small keys are counted without a sort."""
    if not keys.size or keys.max() > 4 * keys.size:
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys)
    found = np.flatnonzero(counts)
    return found, counts[found]


def _report_shares(
    view: View, built: BuiltSnapshot, plan: Plan, queues: Queues
) -> list[QueueShare]:
    snapshot, shares = built.snapshot, plan.shares
    assert snapshot.job_totals is not None, "the builder keeps them"
    running = snapshot.job_totals.running.sum(axis=1).tolist()
    queued = snapshot.job_totals.queued.sum(axis=1).tolist()
    beside = snapshot.queued_beside
    tasks = [0] * len(queued) if beside is None else beside.sum(axis=1).tolist()
    first = _find_first_waiting(view, built, plan)
    return [
        QueueShare(
            pool=plan.pool,
            queue=name,
            weight=queues.get(name).weight,
            weight_share=round(float(shares.weight[row]), 4),
            fair_share=round(float(shares.fair[row]), 4),
            uncapped_share=round(float(shares.uncapped[row]), 4),
            actual_share=round(float(shares.actual[row]), 4),
            demand_share=round(float(shares.demand[row]), 4),
            queued=int(plan.queue_waiting[row]) + tasks[row],
            running=running[row],
            scheduled=int(plan.queue_scheduled[row]),
            preempted=int(plan.queue_preempted[row]),
            skipped=_list_skipped(plan.queue_skipped[row]),
            first_waiting=first[row],
            first_position=int(plan.queue_position[row]),
        )
        for row, name in enumerate(snapshot.queue_names)
        if running[row] or queued[row]
    ]


def _list_skipped(counts: npt.NDArray[np.int64]) -> dict[str, int]:
    """Jobs of a queue that wait, by reason code."""
    codes = np.flatnonzero(counts).tolist()
    return {reason_texts.CODE_NAMES[engine.Code(code)]: int(counts[code]) for code in codes}


def _find_first_waiting(view: View, built: BuiltSnapshot, plan: Plan) -> list[str]:
    """[Q] the id of the first job that waits in each queue; "" if none waits."""
    positions = plan.queue_position.tolist()
    if max(positions, default=-1) < 0:
        return [""] * len(positions)
    queued = job_order.order_queued(built.snapshot)
    starts = job_order.find_queue_bounds(queued, built.snapshot.job_queue, len(positions))[:-1]
    return [
        "" if at < 0 else view.jobs.rows.id_at(queued.item(start + at))
        for start, at in zip(starts.tolist(), positions, strict=True)
    ]


def _report_nearness(built: BuiltSnapshot, plan: Plan) -> list[GroupNearness]:
    """T5: how close the members of each running group with a topology are."""
    snapshot = built.snapshot
    if plan.nearness is None or snapshot.role_gang is None:
        return []
    rows = np.flatnonzero(plan.nearness.role_hops >= 0)
    rows = rows[np.argsort(snapshot.role_gang[rows], kind="stable")]
    hops: dict[int, dict[str, int]] = {}
    for row, gang in zip(rows.tolist(), snapshot.role_gang[rows].tolist(), strict=True):
        found = hops.setdefault(gang, {})
        found[snapshot.role_names[row]] = int(plan.nearness.role_hops[row])
    return [
        GroupNearness(
            pool=plan.pool,
            queue=built.gangs[gang].queue,
            job_set=built.gangs[gang].job_set,
            group=built.gangs[gang].name,
            hops=by_role,
        )
        for gang, by_role in hops.items()
    ]


def _report_round(
    built: BuiltSnapshot, plan: Plan, now_ms: int, steps_ms: dict[str, float]
) -> RoundReport:
    stopped = engine.Code(plan.stopped_by)
    return RoundReport(
        pool=plan.pool,
        at_ms=now_ms,
        steps_ms={**steps_ms, **{step: round(ms, 3) for step, ms in plan.steps_ms.items()}},
        scheduled=len(plan.placed_job),
        preempted=len(plan.preempted_job),
        waiting=int(plan.queue_waiting.sum()),
        nodes=len(built.nodes),
        outcome="stopped" if stopped else "finished",
        stopped_by=reason_texts.CODE_NAMES[stopped] if stopped else "",
        topology=built.levels,
    )
