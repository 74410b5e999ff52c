"""Makes the append batches of a plan: leases, preemptions, refusals. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from fairlead_common.domain.ids import JobId, RunId, run_id
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, PreemptionCause
from fairlead_common.log.protocol import RECORD_BYTES_MAX
from fairlead_scheduler.engine import Plan
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.rules import lease_changes
from fairlead_scheduler.rules.append_batches import (
    BYTES_PER_FACT,
    JOBS_PER_BATCH,
    AppendBatch,
    explain_too_large,
)
from fairlead_scheduler.rules.lease_changes import LeaseChange
from fairlead_scheduler.snapshots import BuiltSnapshot
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_table import JobSet
from fairlead_scheduler.state.view import View

CAUSES: Final = {
    engine.Cause.FAIR_SHARE: PreemptionCause.FAIR_SHARE,
    engine.Cause.URGENCY: PreemptionCause.URGENCY,
    engine.Cause.GANG: PreemptionCause.GANG,
    engine.Cause.SURPLUS: PreemptionCause.SURPLUS,
}


def make_batches(
    view: View, built: BuiltSnapshot, plan: Plan, submitted: Sequence[ev.JobSubmitted]
) -> list[AppendBatch]:
    """A batch per gang, or job that preempts others, with the runs it preempts; other jobs that
    start share batches. `submitted`: the submissions of the jobs that start, in their order."""
    collector = _BatchCollector(view, built)
    after = collector.preempt(plan)
    collector.start(plan, submitted, after)
    if plan.rejected_job.size or plan.failed_job.size:
        _add_refusals(collector, built, plan)
    return collector.batches()


def _add_refusals(collector: "_BatchCollector", built: BuiltSnapshot, plan: Plan) -> None:
    """Add the ends of jobs that can never start."""
    reasons = _RefusalTexts(built, plan)
    for job, code in zip(plan.rejected_job.tolist(), plan.rejected_code.tolist(), strict=True):
        event: ev.AnyEvent = ev.JobRejected(
            job_id=collector.find_id(job),
            code=reason_texts.CODE_NAMES[engine.Code(code)],
            reason=reasons.of(job, code),
        )
        collector.add(job, event)
    for job, code in zip(plan.failed_job.tolist(), plan.failed_code.tolist(), strict=True):
        if code == engine.Code.ALL_NODES_TRIED:
            continue
        event = ev.JobFailed(
            job_id=collector.find_id(job),
            category=FailureCategory.ADMISSION,
            reason=f"{reason_texts.CODE_NAMES[engine.Code(code)]}: {reasons.of(job, code)}",
        )
        collector.add(job, event)
    collector.fail_after_all_nodes(
        plan.failed_job[plan.failed_code == engine.Code.ALL_NODES_TRIED].tolist()
    )


class _BatchCollector:
    """Collects facts and leases by the batch they belong to: a gang, or a single job."""

    def __init__(self, view: View, built: BuiltSnapshot) -> None:
        self._view = view
        self._built = built
        self._facts: dict[int, list[tuple[JobSet, ev.AnyEvent]]] = {}
        self._leases: dict[int, list[LeaseChange]] = {}
        self._singles: list[tuple[tuple[JobSet, ev.AnyEvent], LeaseChange]] = []
        """Starts of jobs without a gang that preempt nothing."""
        self._gang = built.snapshot.job_gang

    def find_id(self, job: int) -> JobId:
        """The id of a job of the snapshot."""
        return self._view.jobs.rows.id_at(job)

    def _find_job_set(self, job: int) -> JobSet:
        jobs = self._view.jobs
        return jobs.job_sets.values[jobs.job_set.item(job)]

    def _key(self, job: int) -> int:
        """The key of a job's batch: its row, or -1 - the row of its gang."""
        gang = -1 if self._gang is None else self._gang.item(job)
        return job if gang < 0 else -1 - gang

    def add(
        self, job: int, event: ev.AnyEvent, lease: LeaseChange | None = None, of: int = -1
    ) -> None:
        """Add a fact about `job` to the batch of job `of` (default: its own)."""
        key = self._key(job if of < 0 else of)
        self._facts.setdefault(key, []).append((self._find_job_set(job), event))
        if lease is not None:
            self._leases.setdefault(key, []).append(lease)

    def preempt(self, plan: Plan) -> dict[int, tuple[RunId, ...]]:
        """Stop the preempted runs; returns by node the runs that are being stopped there."""
        ending = self._list_ending_runs()
        node_of = self._built.snapshot.job_node
        for at, job in enumerate(plan.preempted_job.tolist()):
            preemptor = int(plan.preemptor_job[at])
            cause = CAUSES[engine.Cause(int(plan.preempted_cause[at]))]
            job_id, run = self.find_id(job), self._view.jobs.run.item(job)
            reason = _describe_preemption(
                self._built.snapshot, plan, at, cause, self.find_id(preemptor)
            )
            event = ev.JobRunPreempting(
                job_id=job_id, run=run, cause=cause, reason=reason, for_job=self.find_id(preemptor)
            )
            self.add(job, event, lease_changes.stop_lease(self._view, job, reason), of=preemptor)
            node = int(node_of[job])
            ending[node] = (*ending.get(node, ()), run_id(job_id, run))
        return ending

    def _list_ending_runs(self) -> dict[int, tuple[RunId, ...]]:
        """By node, the runs that an earlier round stopped there and that have not ended."""
        jobs = self._view.jobs
        ending: dict[int, tuple[RunId, ...]] = {}
        rows = sorted(self._built.ending_rows)
        at = {name: row for row, name in enumerate(self._built.nodes)} if rows else {}
        for row in rows:
            node = at.get(jobs.nodes.values[int(jobs.node[row])])
            if node is not None:
                run = run_id(jobs.rows.id_at(row), int(jobs.run[row]))
                ending[node] = (*ending.get(node, ()), run)
        return ending

    def fail_after_all_nodes(self, jobs: list[int]) -> None:
        """N10: fail jobs that every eligible node returned, and the members of their gangs."""
        rare = {
            job: self._view.jobs.rare_properties.get(job) or job_table.RareProperties()
            for job in jobs
        }
        gangs: dict[job_table.GangName | None, str] = {}
        name = reason_texts.CODE_NAMES[engine.Code.ALL_NODES_TRIED]
        for job in sorted(jobs, key=lambda job: not rare[job].avoid):
            own = rare[job]
            reason = gangs.get(own.gang) or (
                f"{name}: every eligible node was tried ({len(own.avoid)}); the last one reported:"
                f" {own.failure_reason}"
            )
            if own.gang is not None:
                reason_of_others = f"gang member {self.find_id(job)} could not start: {reason}"
                gangs.setdefault(own.gang, reason_of_others)
            event = ev.JobFailed(
                job_id=self.find_id(job),
                category=own.failure or FailureCategory.ADMISSION,
                reason=reason,
                exit_code=own.exit_code,
            )
            self.add(job, event)

    def start(
        self,
        plan: Plan,
        submitted: Sequence[ev.JobSubmitted],
        after: Mapping[int, tuple[RunId, ...]],
    ) -> None:
        """Start jobs on their nodes, each once the runs `after` on its node have ended."""
        view, nodes, rows = self._view, self._built.nodes, plan.placed_job
        job_sets = view.jobs.job_sets.values
        starts = zip(
            rows.tolist(),
            submitted,
            (view.jobs.run[rows] + 1).tolist(),
            view.jobs.job_set[rows].tolist(),
            plan.placed_node.tolist(),
            plan.placed_value.tolist(),
            strict=True,
        )
        for job, of_job, run, job_set, node, value in starts:
            name = nodes[node]
            event = ev.JobRunLeased(
                job_id=of_job.job_id,
                run=run,
                executor=name.executor,
                node=name.node,
                pool=plan.pool,
                value=value,
            )
            lease = lease_changes.new_lease(view, job, of_job, name, after.get(node, ()))
            if self._key(job) == job and job not in self._facts:
                self._singles.append(((job_sets[job_set], event), lease))
            else:
                self.add(job, event, lease)

    def batches(self) -> list[AppendBatch]:
        """The batches of gangs, preemptors and refusals, then of other jobs that start."""
        made = [
            AppendBatch(tuple(facts), tuple(self._leases.get(key, ())))
            for key, facts in self._facts.items()
        ]
        made += self._join_singles()
        reasons = map(explain_too_large, made)
        return [
            batch if why is None else _fail_too_large(batch, why)
            for batch, why in zip(made, reasons, strict=True)
        ]

    def _join_singles(self) -> Iterator[AppendBatch]:
        """Batches of independent jobs that start, small enough for any append."""
        facts: list[tuple[JobSet, ev.AnyEvent]] = []
        leases: list[LeaseChange] = []
        size = 0
        for fact, lease in self._singles:
            more = len(lease.record.value or b"") + BYTES_PER_FACT
            if len(facts) == JOBS_PER_BATCH or (facts and size + more > RECORD_BYTES_MAX):
                yield AppendBatch(tuple(facts), tuple(leases))
                facts, leases, size = [], [], 0
            facts.append(fact)
            leases.append(lease)
            size += more
        if facts:
            yield AppendBatch(tuple(facts), tuple(leases))


def _fail_too_large(batch: AppendBatch, why: str) -> AppendBatch:
    """Fail jobs whose start is too large to append, because every leader would try it again."""
    reason = f"the records of the job's (or its gang's) start exceed one append: {why}"
    ended = [
        (
            job_set,
            ev.JobFailed(job_id=event.job_id, category=FailureCategory.ADMISSION, reason=reason),
        )
        for job_set, event in batch.facts
        if isinstance(event, ev.JobRunLeased)
    ]
    return AppendBatch(tuple(ended))


def _describe_preemption(
    snapshot: engine.Snapshot, plan: Plan, at: int, cause: PreemptionCause, name: JobId
) -> str:
    """E5: the cause, the preemptor, and the shares of both queues."""
    victim, preemptor = int(plan.preempted_job[at]), int(plan.preemptor_job[at])
    own = snapshot.queue_names[snapshot.job_queue[victim]]
    other = snapshot.queue_names[snapshot.job_queue[preemptor]]
    return (
        f"{cause.value}: preempted for {name} of queue {other}; queue {own} was at"
        f" {float(plan.preempted_share[at]):.2f} of its fair share, queue {other} is at"
        f" {float(plan.preemptor_share[at]):.2f} with that job"
    )


class _RefusalTexts:
    """The texts of refusals; each row of `plan.reasons` is described once."""

    def __init__(self, built: BuiltSnapshot, plan: Plan) -> None:
        self._built = built
        self._plan = plan
        reasons = plan.reasons
        keys: Iterable[tuple[int, int, int]] = zip(
            reasons.queue.tolist(), reasons.shape.tolist(), reasons.gang.tolist(), strict=True
        )
        self._row = {key: row for row, key in enumerate(keys)}
        self._made: dict[tuple[int, int], str] = {}

    def of(self, job: int, code: int) -> str:
        """The text of the reason of a refused job."""
        snapshot = self._built.snapshot
        queue, shape = int(snapshot.job_queue[job]), int(snapshot.job_shape[job])
        gang = -1 if snapshot.job_gang is None else int(snapshot.job_gang[job])
        row = self._row.get((queue, -1, gang)) if gang >= 0 else None
        row = self._row.get((queue, shape, -1)) if row is None else row
        if row is None:
            return reason_texts.CODE_NAMES[engine.Code(code)]
        if (row, code) not in self._made:
            self._made[row, code] = reason_texts.describe_reason(
                snapshot, self._plan, row, engine.Code(code)
            )
        return self._made[row, code]
