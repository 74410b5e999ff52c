"""The scheduler's part of `fairlead repair`, and of `fairlead doctor --deep`: what its checkpoint
and the log still contain about jobs and groups.

Works on a copy in memory. Nothing is written here but `Recovery.relocate`, which is the last step
of a repair: a repair that is interrupted before it can start again.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager

import msgspec

from fairlead_common.db import Pool, is_migrated, lock_session, migrate
from fairlead_common.db.locks import SCHEDULER_LEADER
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.ids import ArrayId, GroupId, JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records.events import GroupSubmitted, JobSubmitted
from fairlead_common.domain.records.leases import group_of
from fairlead_common.domain.repair_events import UNKNOWN_REASON, Knowledge, KnownGroup
from fairlead_common.log import compacted_view, topics
from fairlead_common.log.coverage import Gap
from fairlead_common.log.topics import CLUSTERS, JOB_PARTITIONS, JOBS
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.rules import lease_changes
from fairlead_scheduler.service import follower
from fairlead_scheduler.service.follower import State
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.jobs.task_arrays import find_array_result
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.token_buckets import PoolBuckets
from fairlead_scheduler.state.view import View
from fairlead_scheduler.state.view_validation import list_view_violations
from fairlead_scheduler.store import checkpoint

PRODUCER = "scheduler"
"""What the leader appends as. A repair appends as the leader too, so each fences the other."""


class SchedulerLeads(WorldError):
    """A scheduler leads, so its checkpoint must not be touched."""


@asynccontextmanager
async def hold_leadership(pool: Pool) -> AsyncIterator[None]:
    """No scheduler leads while the block runs. Raises `SchedulerLeads` if one does."""
    async with pool.acquire() as connection:
        await migrate_schema(pool)
        if not await lock_session.take_if_free(connection, SCHEDULER_LEADER):
            raise SchedulerLeads(
                "A scheduler uses this database. Stop all schedulers (or `fairlead up`),"
                " then run `fairlead repair` again."
            )
        try:
            yield
        finally:
            await lock_session.release(connection, SCHEDULER_LEADER)


async def migrate_schema(pool: Pool) -> None:
    """Bring the scheduler's schema up to date."""
    await migrate(pool, "fairlead_scheduler", "fairlead_scheduler.store")


class SchemaDiffers(WorldError):
    """The database does not have the scheduler's schema of this version."""


async def require_schema(pool: Pool) -> None:
    """Raises `SchemaDiffers`; changes nothing, unlike `migrate_schema`."""
    if not await is_migrated(pool, "fairlead_scheduler", "fairlead_scheduler.store"):
        raise SchemaDiffers(
            "the database does not have the scheduler's schema of this version: no scheduler was"
            " started with it, or one of another version"
        )


class Recovery:
    """The checkpoint, folded in memory to the end of the log, also if the log has a gap."""

    def __init__(self, log: ValidatingLog, pool: Pool, state: State, gap: Gap | None) -> None:
        self.state = state
        self.gap = gap
        self.start: dict[int, int] = dict(state.view.positions)
        """Where the log continues the checkpoint."""
        self.leased: set[JobId] = set()
        """Jobs with a lease in the lease topics."""
        self._log = log
        self._pool = pool

    @classmethod
    async def load(cls, log: ValidatingLog, pool: Pool, rules: Rules) -> "Recovery":
        """The checkpoint as it is, at the positions from which the log can continue it."""
        gap = await checkpoint.find_gap(log, pool)
        saved = await checkpoint.read_progress(pool)
        view = None
        if saved is not None:
            view = await checkpoint.load_view(pool, saved[0], JOB_PARTITIONS, rules)
        if view is None:
            view = View(PoolBuckets(rules))
        start = await log.start_positions(JOBS)
        view.positions = {n: max(view.positions.get(n, 0), first) for n, first in start.items()}
        return cls(log, pool, State(view, Clusters(), Queues()), gap)

    def is_decidable(self, partition: int) -> bool:
        """Whether the partition can be read to its end: an event of an unknown type stops it."""
        return partition not in self.state.view.stopped

    def is_complete(self, partition: int) -> bool:
        """Whether the checkpoint has folded, or can fold, all events of this partition."""
        return self.gap is None or partition not in self.gap.missing

    def cap(self, end: Mapping[int, int]) -> None:
        """Read nothing of partitions that end below the checkpoint: nothing is to be written."""
        positions = self.state.view.positions
        self.state.view.positions = {n: min(positions[n], at) for n, at in end.items()}

    async def fold(self, end: Mapping[int, int]) -> None:
        """Fold at least to these positions, as far as the log has them.

        Raises what reading the log raises.
        """
        last = await self._log.end_positions(JOBS)
        end = {number: min(at, last[number]) for number, at in end.items()}
        following = asyncio.create_task(follower.follow_jobs(self._log, self._pool, self.state))
        reached = asyncio.create_task(self.state.wait_until_folded(JOBS, end))
        try:
            await asyncio.wait((following, reached), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            following.cancel()
            reached.cancel()
            await asyncio.gather(following, reached, return_exceptions=True)

    async def read_leases(self) -> None:
        """Read the lease topics of all executors that the log or the checkpoint names."""
        log = self._log.inner  # a lease that cannot be decoded is a lease nevertheless
        heard, _ = await compacted_view.read_newest(log, CLUSTERS)
        executors = {key for key in heard if "/" not in key}
        executors |= lease_changes.find_executors_in_use(self.state.view)
        self.leased = set()
        for executor in sorted(executors):
            await log.create(topics.leases(executor))
            leases, _ = await compacted_view.read_newest(log, topics.leases(executor).name)
            runs = (key for key in leases if group_of(key) is None)
            self.leased |= {JobId(run.rpartition("-")[0]) for run in runs}

    def live_jobs(self) -> list[JobId]:
        """All jobs that have not ended, as far as is known."""
        jobs = self.state.view.jobs
        rows = self.state.view.live_rows()
        return jobs.rows.ids_at(rows[~job_table.IS_ENDED[jobs.state[rows]]])

    def violations(self) -> list[str]:
        """One sentence per violated invariant of the view; empty for a valid one."""
        return list_view_violations(self.state.view)

    async def knowledge(self, ids: Iterable[JobId]) -> dict[JobId, Knowledge]:
        """What is known of these jobs, and of arrays: whether they have succeeded. Unknown ones are
        left out."""
        view, found, others = self.state.view, dict[JobId, Knowledge](), list[JobId]()
        for job_id in ids:
            row = view.jobs.rows.get(job_id)
            if row is not None:
                found[job_id] = _of_row(view, row)
            elif (state := view.state_of(job_id)) is not None:
                found[job_id] = Knowledge(state=state)
            elif (array := view.arrays.get(ArrayId(job_id))) is not None:
                found[job_id] = Knowledge(state=find_array_result(array) or JobState.QUEUED)
            else:
                others.append(job_id)
        ended = await checkpoint.find_ended(self._pool, others) if others else {}
        found |= {job_id: Knowledge(state=each.state) for job_id, each in ended.items()}
        return found

    def live_groups(self) -> list[GroupId]:
        """All groups that have not ended, as far as is known."""
        return [group for group, state in self.state.view.groups.items() if not state.is_final]

    async def find_known(self, ids: Collection[JobId]) -> set[JobId]:
        """Which of these ids are known jobs, groups or arrays."""
        groups = self.state.view.groups.keys() & set(map(GroupId, ids))
        return {*await self.knowledge(ids), *map(JobId, groups)}

    async def find_groups(self, ids: Iterable[GroupId]) -> dict[GroupId, KnownGroup]:
        """What is known of these groups. Unknown ones are left out."""
        found, others = dict[GroupId, KnownGroup](), list[GroupId]()
        for group in ids:
            state = self.state.view.groups.get(group)
            if state is None:
                others.append(group)
            else:
                found[group] = _of_group(state)
        ended = await self.knowledge(map(JobId, others))
        for job_id, known in ended.items():
            if known.state is not None:
                found[GroupId(job_id)] = KnownGroup(state=known.state)
        return found

    async def submissions(self, ids: list[JobId]) -> dict[JobId, JobSubmitted]:
        """The submissions of these live jobs."""
        await follower.load_specs(self._pool, self.state.view, ids)
        return self.state.view.specs.get_all(each for each in ids if each in self.state.view.specs)

    def job_set(self, job_id: JobId) -> job_table.JobSet | None:
        """The job set of a live job."""
        jobs = self.state.view.jobs
        row = jobs.rows.get(job_id)
        return None if row is None else jobs.job_sets.values[jobs.job_set.item(row)]

    def awaited(self) -> set[JobId]:
        """Unknown jobs on which live jobs depend."""
        view = self.state.view
        return {
            job_id
            for job_id in view.dependents
            if view.state_of(job_id) is None and ArrayId(job_id) not in view.arrays
        }

    async def relocate(self) -> None:
        """Let the checkpoint continue where the log can; the log has the rest."""
        await checkpoint.relocate(self._pool, await self._log.identity(), self.start)


def _of_group(state: GroupState) -> KnownGroup:
    submitted = GroupSubmitted(
        group=state.group,
        terms=state.terms,
        digest=state.digest,
        client_id=state.client_id,
        labels=state.labels,
    )
    return KnownGroup(
        state=JobState(state.phase.value.upper()),
        submitted=submitted,
        queue=state.job_set.queue,
        job_set=state.job_set.name,
        reason=state.reason or UNKNOWN_REASON,
    )


def _of_row(view: View, row: int) -> Knowledge:
    jobs = view.jobs
    number, run_state = jobs.node.item(row), jobs.run_state.item(row)
    node = jobs.nodes.values[number] if number >= 0 else None
    rare = jobs.rare_properties.get(row) or job_table.RareProperties()
    flags = jobs.flags.item(row)
    stopping = "cancel" if flags & job_table.STOP_CANCEL else None
    if stopping is None and flags & (job_table.STOP_PREEMPT | job_table.STOP_GANG):
        stopping = "preempt"
    known = Knowledge(
        state=job_table.JOB_STATES[jobs.state.item(row)],
        run=jobs.run.item(row),
        run_state=None if run_state == job_table.NO_RUN else job_table.RUN_STATES[run_state],
        pool=jobs.pools.values[jobs.pool.item(row)],
        value=jobs.value.item(row),
        priority=surplus_priority.given_priority(jobs.priority.item(row)),
        hold=bool(flags & job_table.HOLD),
        stopping=stopping,
        reason=rare.stop_reason or rare.failure_reason or Knowledge().reason,
        exit_code=rare.exit_code,
    )
    return known if node is None else _at(known, node)


def _at(known: Knowledge, node: job_table.NodeName) -> Knowledge:
    return msgspec.structs.replace(known, executor=node.executor, node=node.node)
