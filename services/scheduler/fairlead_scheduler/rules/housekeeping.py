"""Decides what comes before the rounds: run ends, stops, deadlines, lost executors. Pure.

Decisions are level-triggered: each follows from the current view, so that it does not matter which
of several leaders folded the event.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JobId, RunId, parse_run_id, run_id
from fairlead_common.domain.lifecycle import RunState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, PreemptionCause
from fairlead_scheduler.rules import group_life_cycle, lease_changes, member_records, run_ends
from fairlead_scheduler.rules.append_batches import JOBS_PER_BATCH, UNKNOWN_JOB_SET, AppendBatch
from fairlead_scheduler.rules.group_life_cycle import GroupEnds
from fairlead_scheduler.rules.lease_changes import LeaseChange, Leases
from fairlead_scheduler.rules.member_records import GroupRecordChange
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.deadlines import Deadlines
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_index import PackedIds, unpack_ids
from fairlead_scheduler.state.jobs.job_table import JobSet, NodeName
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

Rows = npt.NDArray[np.intp]

NO_ROWS: Final = np.zeros(0, np.intp)
_SUCCEEDED: Final = job_table.RUN_CODE[RunState.SUCCEEDED]


class SucceededJobs(msgspec.Struct, frozen=True):
    """Jobs whose run succeeded, as columns, because there can be many of them."""

    ids: PackedIds
    runs: npt.NDArray[np.int32]
    job_set: npt.NDArray[np.int32]
    node: npt.NDArray[np.int32]
    job_sets: list[JobSet]
    """All job sets by their numbers; like the nodes, they are not renumbered within a cycle."""
    nodes: list[NodeName]
    """All nodes by their numbers."""

    def batches(self) -> Iterator[AppendBatch]:
        """The append batches, with several jobs each."""
        for at in range(0, len(self.ids), JOBS_PER_BATCH):
            span = slice(at, at + JOBS_PER_BATCH)
            ids = unpack_ids(self.ids[span])
            job_sets = [self.job_sets[number] for number in self.job_set[span].tolist()]
            pairs = zip(job_sets, ids, strict=True)
            facts = tuple([(job_set, ev.JobSucceeded(job_id=job_id)) for job_set, job_id in pairs])
            runs = list(map(run_id, ids, self.runs[span].tolist()))
            executors = [self.nodes[number].executor for number in self.node[span].tolist()]
            yield AppendBatch(facts, tuple(lease_changes.end_leases(runs, executors)))


class Housekeeping(msgspec.Struct, frozen=True):
    """The decisions of housekeeping, and the rows that rounds must exclude until they are
    folded."""

    successes: SucceededJobs
    others: list[AppendBatch]
    excluded: set[int]
    """Rows of queued jobs; a job whose run has ended takes no part in rounds anyway."""
    unconfirmed: set[int]
    """The rows of `excluded` that wait because a lost run perhaps still exists."""
    group_records: list[GroupRecordChange] = []
    """Records by which executors learn where the members of groups run."""

    @property
    def decisions(self) -> int:
        """The number of decisions."""
        return len(self.successes.ids) + len(self.others)

    def batches(self) -> Iterator[AppendBatch]:
        """The append batches, in order."""
        yield from self.successes.batches()
        yield from self.others
        for change in self.group_records:
            yield AppendBatch((), (), (change,))


class ExaminedRows(NamedTuple):
    """The rows that housekeeping examines, ascending, by what it decides about them."""

    succeeded: Rows
    """jobs whose run succeeded"""
    late_successes: Rows
    """jobs with a success of a run that had been given up"""
    to_stop: Rows
    """jobs with a live run that must stop"""
    others: Rows
    """jobs whose run ended without success, and queued jobs that can never start"""


class HousekeepingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits beyond which housekeeping acts.

    `stale_s`, `lost_s`: how long an executor is silent. `node_gone_s`: how long a node with runs is
    not reported. `deadline_s`: how long a run exceeds its maximum run time and the job's grace
    period. `unstarted`: the number of nodes that could not start one job.
    """

    stale_s: float
    lost_s: float
    node_gone_s: float
    deadline_s: float
    unstarted: int


def decide_housekeeping(
    view: View,
    deadlines: Deadlines,
    live_leases: Leases,
    queues: Queues,
    clusters: Clusters,
    limits: HousekeepingLimits,
    *,
    now_ms: int,
) -> Housekeeping:
    """Decide everything that is due now."""
    deadlines.update(view)
    rows = _classify_rows(view)
    stopped, leases = _stop_runs(view, live_leases, deadlines, rows.to_stop)
    batches = [
        AppendBatch((), leases[at : at + JOBS_PER_BATCH])
        for at in range(0, len(leases), JOBS_PER_BATCH)
    ]
    excluded = set(stopped)
    for row, batch in _accept_late_successes(view, live_leases, rows.late_successes):
        excluded.add(row)
        batches.append(batch)
    ends = GroupEnds(view, live_leases)
    for row, batch in _decide_run_ends(
        view, live_leases, queues, clusters, limits, rows.others, ends
    ):
        excluded.add(row)
        batches.append(batch)
    for row, batch in _cancel_overdue(
        view, _select_decidable(view, deadlines.find_queued_too_long(now_ms))
    ):
        if row not in excluded:
            excluded.add(row)
            batches.append(batch)
    batches += _stop_beyond_runtime(
        view, live_leases, _select_decidable(view, deadlines.find_running_too_long(now_ms))
    )
    for row, batch in _give_up_runs(
        view, deadlines, _find_lost_nodes(view, deadlines, clusters, limits)
    ):
        excluded.add(row)
        batches.append(batch)
    if view.groups_to_examine:
        batches += group_life_cycle.decide_groups(view, live_leases, queues, ends, excluded)
    excluded.update(_members_of_stopping_gangs(view))
    waiting, cleared = _find_unconfirmed_ends(view, live_leases, clusters, limits)
    excluded.update(waiting)
    cleared.update(run for run in view.orphaned_runs if run in live_leases.by_run)
    ended = (run for run in cleared if not lease_changes.is_in_stopped_partition(view, run))
    batches += [_end_unwanted_lease(view, live_leases, run) for run in sorted(ended)]
    records = list(member_records.decide_group_records(view, live_leases.groups))
    successes = _collect_successes(view, rows.succeeded)
    return Housekeeping(successes, batches, excluded, waiting, records)


def _end_unwanted_lease(view: View, live_leases: Leases, run: RunId) -> AppendBatch:
    """End an unwanted lease; for a run without a job this also records its end."""
    cleared = lease_changes.end_lease(live_leases, run)
    job_id, number = parse_run_id(run)
    if job_id in view.jobs.rows or live_leases.is_given_up(run):
        return AppendBatch((), cleared)
    lost = ev.JobRunLost(job_id=JobId(job_id), run=number, reason="the job had already ended")
    return AppendBatch(((UNKNOWN_JOB_SET, lost),), cleared)


def _select_decidable(view: View, rows: list[int]) -> list[int]:
    if not view.stopped:
        return rows
    found: list[int] = view.select_decidable(np.array(rows, np.intp)).tolist()
    return found


def _find_unconfirmed_ends(
    view: View, live_leases: Leases, clusters: Clusters, limits: HousekeepingLimits
) -> tuple[set[int], set[RunId]]:
    """Queued jobs with a lost run that perhaps still exists, and lost runs of jobs that ended.

    Such a job and its gang do not start again before the executor of the lost run has reported its
    end or is lost itself.
    """
    if not live_leases.given_up:
        return set(), set()
    jobs, lost = view.jobs, clusters.find_silent_executors(limits.lost_s)
    waiting, of_ended = set[int](), set[RunId]()
    found = jobs.rows.find(list(live_leases.given_up.values()))
    for run, row in zip(live_leases.given_up, found.tolist(), strict=True):
        if row < 0 or job_table.ENDED[jobs.state.item(row)]:
            of_ended.add(run)
            continue
        executor = live_leases.by_run[run].executor
        if executor in lost or executor not in clusters.silence_s:
            continue
        if jobs.state[row] == job_table.QUEUED:
            waiting.add(row)
            waiting.update(_gang_mates(view, row))
    return waiting, of_ended


def _gang_mates(view: View, row: int) -> list[int]:
    rare = view.jobs.rare_properties.get(row)
    if rare is None or rare.gang is None or rare.gang in view.gang_started:
        return []
    return [view.jobs.rows[job_id] for job_id in view.gang_members.get(rare.gang, ())]


def _job_set(view: View, row: int) -> JobSet:
    return view.jobs.job_sets.values[view.jobs.job_set.item(row)]


def _classify_rows(view: View) -> ExaminedRows:
    """The rows to examine, by what is to be decided about them."""
    if not view.rows_to_examine:
        return ExaminedRows(NO_ROWS, NO_ROWS, NO_ROWS, NO_ROWS)
    jobs, at = view.jobs, view.select_decidable(np.array(list(view.rows_to_examine), np.intp))
    at.sort()
    run_state, state = jobs.run_state[at], jobs.state[at]
    succeeded = (run_state == _SUCCEEDED) & job_table.IS_WITH_RUN[state]
    if succeeded.all():
        return ExaminedRows(at, NO_ROWS, NO_ROWS, NO_ROWS)
    late = (jobs.flags[at] & job_table.LATE_SUCCESS) > 0
    late &= ~job_table.IS_ENDED[state] & ~succeeded
    live = job_table.IS_LIVE_RUN[run_state] & ~late
    to_stop = live & (((jobs.flags[at] & job_table.STOPPING) > 0) | job_table.IS_ENDED[state])
    return ExaminedRows(at[succeeded], at[late], at[to_stop], at[~succeeded & ~late & ~live])


def _accept_late_successes(
    view: View, live_leases: Leases, rows: Rows
) -> Iterator[tuple[int, AppendBatch]]:
    """End jobs with a success of a run that had been given up; stop their newer run."""
    jobs = view.jobs
    for row in rows.tolist():
        job_id = jobs.rows.id_at(row)
        run = run_id(job_id, jobs.run.item(row))
        leases: tuple[LeaseChange, ...] = ()
        if job_table.LIVE_RUN[jobs.run_state.item(row)]:
            if live_leases.is_run_desired(run):
                why = "an earlier run of the job, which had been given up, succeeded"
                leases = (lease_changes.stop_lease(view, row, why),)
        elif job_table.WITH_RUN[jobs.state.item(row)] and not live_leases.is_given_up(run):
            leases = lease_changes.end_lease(live_leases, run, _executor(view, row))
        yield row, AppendBatch(((_job_set(view, row), ev.JobSucceeded(job_id=job_id)),), leases)


def _stop_runs(
    view: View, live_leases: Leases, deadlines: Deadlines, rows: Rows
) -> tuple[list[int], tuple[LeaseChange, ...]]:
    """The rows of live runs to stop whose desired state is still RUN, and their changed leases."""
    if not rows.size:
        return [], ()
    jobs = view.jobs
    rows = deadlines.find_unhandled(rows)
    runs = map(run_id, jobs.rows.ids_at(rows), jobs.run[rows].tolist())
    is_desired = np.array(list(map(live_leases.is_run_desired, runs)), np.bool_)
    deadlines.mark_handled(rows[~is_desired])
    wanted: list[int] = rows[is_desired].tolist()
    rare = jobs.rare_properties
    leases = [
        lease_changes.stop_lease(view, row, rare[row].stop_reason if row in rare else "")
        for row in wanted
    ]
    return wanted, tuple(leases)


def _collect_successes(view: View, rows: Rows) -> SucceededJobs:
    jobs = view.jobs
    return SucceededJobs(
        ids=jobs.rows.packed_ids(rows),
        runs=jobs.run[rows],
        job_set=jobs.job_set[rows],
        node=jobs.node[rows],
        job_sets=jobs.job_sets.values,
        nodes=jobs.nodes.values,
    )


def _decide_run_ends(
    view: View,
    live_leases: Leases,
    queues: Queues,
    clusters: Clusters,
    limits: HousekeepingLimits,
    rows: Rows,
    ends: GroupEnds,
) -> Iterator[tuple[int, AppendBatch]]:
    """Decide jobs whose run ended without success, and queued jobs that can never start."""
    if not rows.size:
        return
    jobs = view.jobs
    gang_starts, returned = run_ends.GangStarts(view), set[job_table.GangName]()
    runs = map(run_id, jobs.rows.ids_at(rows), jobs.run[rows].tolist())
    for row, run in zip(rows.tolist(), runs, strict=True):
        if job_table.WITH_RUN[jobs.state.item(row)]:
            event = run_ends.decide_unsuccessful_end(
                view, row, queues, clusters, limits.unstarted, gang_starts
            )
            settled, job_set = ends.settle(row, event), _job_set(view, row)
            facts: list[tuple[JobSet, ev.AnyEvent]] = [(job_set, fact) for fact in settled.facts]
            records: list[LeaseChange] = settled.leases
            if not live_leases.is_given_up(run):
                records += lease_changes.end_lease(live_leases, run, _executor(view, row))
            rare = jobs.rare_properties.get(row)
            gang = None if rare is None else rare.gang
            if gang is not None and gang not in returned and gang_starts.fails_without(row):
                returned.add(gang)
                _return_gang_to_queue(view, live_leases, row, gang, facts, records)
            yield row, AppendBatch(tuple(facts), tuple(records))
        elif jobs.state[row] == job_table.QUEUED and jobs.flags[row] & job_table.CANNOT_START:
            ended = _end_without_start(jobs.rows.id_at(row), jobs.rare_properties[row])
            yield row, AppendBatch(((_job_set(view, row), ended),))


def _end_without_start(job_id: JobId, rare: job_table.RareProperties) -> ev.AnyEvent:
    if rare.gang_cannot_start:
        return run_ends.fail_with_gang(job_id, rare)
    return ev.JobCancelled(job_id=job_id, reason=rare.cannot_start_reason)


def _executor(view: View, row: int) -> str:
    return view.jobs.nodes.values[view.jobs.node.item(row)].executor


def _is_run_desired(view: View, live_leases: Leases, row: int) -> bool:
    """Whether the lease of the job's newest run has the desired state RUN."""
    run = run_id(view.jobs.rows.id_at(row), view.jobs.run.item(row))
    return live_leases.is_run_desired(run)


def _return_gang_to_queue(
    view: View,
    live_leases: Leases,
    row: int,
    gang: job_table.GangName,
    facts: list[tuple[JobSet, ev.AnyEvent]],
    records: list[LeaseChange],
) -> None:
    """Return a gang to the queue if a member could not start and too few others are left."""
    job_id = view.jobs.rows.id_at(row)
    why = (
        f"gang {gang.name} returns to the queue: member {job_id} could not start on"
        f" {run_ends.node_name(view, row)}: {view.jobs.rare_properties[row].failure_reason}"
    )
    for other in sorted(view.gang_members.get(gang, ())):
        at = view.jobs.rows[other]
        if at == row or not run_ends.is_wanted_run(view, at):
            continue
        event = ev.JobRunPreempting(
            job_id=other, run=int(view.jobs.run[at]), cause=PreemptionCause.GANG, reason=why
        )
        facts.append((_job_set(view, at), event))
        if _is_run_desired(view, live_leases, at):
            records.append(lease_changes.stop_lease(view, at, why))


def _members_of_stopping_gangs(view: View) -> list[int]:
    """Rows of members whose gang has members that are being stopped: they wait for these."""
    if not view.gangs:
        return []
    found = (view.jobs.rare_properties.get(row) for row in view.rows_to_examine)
    gangs = {rare.gang for rare in found if rare is not None and rare.gang is not None}
    return [
        view.jobs.rows[job_id]
        for gang in gangs - view.gang_started
        for job_id in view.gang_members.get(gang, ())
    ]


def _cancel_overdue(view: View, rows: Sequence[int]) -> Iterator[tuple[int, AppendBatch]]:
    """Cancel queued jobs that exceeded their maximum queue time."""
    jobs = view.jobs
    for row in rows:
        waited_s = (int(jobs.queue_until_ms[row]) - int(jobs.submitted_ms[row])) // 1000
        event = ev.JobCancelled(
            job_id=jobs.rows.id_at(row),
            reason=f"still queued after its maxQueueSeconds of {waited_s} s",
        )
        yield row, AppendBatch(((_job_set(view, row), event),))


def _stop_beyond_runtime(
    view: View, live_leases: Leases, rows: Sequence[int]
) -> Iterator[AppendBatch]:
    """Stop live runs that their executor did not end at their maximum run time."""
    jobs = view.jobs
    for row in rows:
        if _is_run_desired(view, live_leases, row):
            runtime_s = int(jobs.runtime_ms_max[row]) // 1000
            why = f"it exceeded its maximum run time of {runtime_s} s"
            lease = lease_changes.stop_lease(view, row, why, FailureCategory.DEADLINE)
            yield AppendBatch((), (lease,))


def _find_lost_nodes(
    view: View, deadlines: Deadlines, clusters: Clusters, limits: HousekeepingLimits
) -> dict[NodeName, str]:
    """The nodes whose runs are given up, and why."""
    lost = clusters.find_silent_executors(limits.lost_s)
    found = {
        name: f"executor {name.executor} no longer reports node {name.node}"
        for name in clusters.find_missing_nodes(limits.node_gone_s, limits.stale_s)
    }
    for name in deadlines.find_nodes_with_runs(view, lost):
        found[name] = f"executor {name.executor} has stopped reporting"
    return found


def _give_up_runs(
    view: View, deadlines: Deadlines, given_up: Mapping[NodeName, str]
) -> Iterator[tuple[int, AppendBatch]]:
    """Give up live runs on nodes that were not reported for too long.

    Their leases stay, with the desired state STOP, until the executor reports the end: it can
    return.
    """
    jobs = view.jobs
    for row in _select_decidable(view, deadlines.find_rows_on_nodes(view, given_up)):
        name = jobs.nodes.values[jobs.node[row]]
        why = given_up[name]
        event = ev.JobRunLost(job_id=jobs.rows.id_at(row), run=int(jobs.run[row]), reason=why)
        lease = lease_changes.stop_lease(view, row, why, given_up=True)
        yield row, AppendBatch(((_job_set(view, row), event),), (lease,))
