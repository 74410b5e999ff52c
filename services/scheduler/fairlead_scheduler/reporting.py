"""What a round has to say, as records of `fairlead.reports`: only what changed since the last time.

Pure, except that it remembers what it said. Shares are rounded so that noise is no change.
"""

from typing import Final

import numpy as np

from fairlead_common import reports, shapes
from fairlead_common.log.protocol import Record
from fairlead_common.reports import QueueShare, Round, Waiting
from fairlead_scheduler.engine import Plan, explain
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.queues import Queues
from fairlead_scheduler.snapshots import Built
from fairlead_scheduler.view.columns import View

Report = Waiting | QueueShare | Round
REPORTS_MAX: Final = 5_000
"""Most reports written after one round; what is left follows after the next."""


class Reporter:
    """Remembers what was last said, per pool."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, Report]] = {}

    def read_back(self, newest: dict[str, bytes]) -> None:
        """A new leader goes on from what its predecessor said."""
        for key, value in newest.items():
            report = reports.decode(value)
            self._said.setdefault(report.pool, {})[key] = report

    def changed(
        self,
        view: View,
        built: Built,
        plan: Plan,
        queues: Queues,
        *,
        now_ms: int,
        steps_ms: dict[str, float],
    ) -> list[Record]:
        """The records that bring the readers up to date with this round."""
        said = self._said.setdefault(plan.pool, {})
        now: dict[str, Report] = {}
        for waiting in _waiting(view, built, plan):
            now[reports.key(waiting)] = waiting
        for share in _shares(view, built, plan, queues):
            now[reports.key(share)] = share
        records = [reports.record(report) for key, report in now.items() if said.get(key) != report]
        gone = [key for key in said if key not in now and key != plan.pool]
        records += [reports.nothing_to_say(key) for key in gone]
        if records or len(plan.placed_job):
            records.append(reports.record(_round(built, plan, now_ms, steps_ms)))
        for record in records[:REPORTS_MAX]:
            if record.value is None:
                del said[record.key]
            elif record.key in now:
                said[record.key] = now[record.key]
        return records[:REPORTS_MAX]


def _waiting(view: View, built: Built, plan: Plan) -> list[Waiting]:
    snapshot, reasons = built.snapshot, plan.reasons
    found = []
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
        found.append(
            Waiting(
                pool=plan.pool,
                queue=snapshot.queue_names[int(reasons.queue[row])],
                code=explain.NAMES[engine.Code(int(reasons.code[row]))],
                sentence=explain.sentence(snapshot, plan, row),
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


def _shares(view: View, built: Built, plan: Plan, queues: Queues) -> list[QueueShare]:
    snapshot, shares = built.snapshot, plan.shares
    held = snapshot.job_queue[snapshot.job_node >= 0]
    running = np.bincount(held, minlength=len(snapshot.queue_names)).tolist()
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
            queued=int(plan.queue_waiting[row]),
            running=running[row],
            scheduled=int(plan.queue_scheduled[row]),
            preempted=int(plan.queue_preempted[row]),
        )
        for row, name in enumerate(snapshot.queue_names)
    ]


def _round(built: Built, plan: Plan, now_ms: int, steps_ms: dict[str, float]) -> Round:
    stopped = engine.Code(plan.stopped_by)
    return Round(
        pool=plan.pool,
        at_ms=now_ms,
        steps_ms=steps_ms,
        scheduled=len(plan.placed_job),
        preempted=len(plan.preempted_job),
        waiting=int(plan.queue_waiting.sum()),
        nodes=len(built.nodes),
        outcome="stopped" if stopped else "finished",
        stopped_by=explain.NAMES[stopped] if stopped else "",
    )
