"""The fold of the events of runs: leased, pending, running, preempting, ended, requeued."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, cast

import numpy as np

from fairlead_common.domain import lifecycle
from fairlead_common.domain.ids import run_id
from fairlead_common.domain.lifecycle import JOB_STEPS, RUN_STEPS, JobState, RunState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.domain.surplus_priority import PRIORITY_MIN
from fairlead_scheduler.state.folds import (
    end_events,
    flag_changes,
    group_events,
    request_events,
    run_times,
)
from fairlead_scheduler.state.folds.input.event_batches import SuccessBatch
from fairlead_scheduler.state.folds.input.messages import EndedJobs, Message
from fairlead_scheduler.state.jobs import job_index, job_table
from fairlead_scheduler.state.pool_rules import AVOIDED_MAX
from fairlead_scheduler.state.view import View


def fold_leased(
    view: View, message: Message, batch: Sequence[ev.JobRunLeased], _i: int, _ended: EndedJobs
) -> None:
    """Give jobs the nodes of their new runs."""
    jobs = view.jobs
    taken: dict[int, ev.JobRunLeased] = {}
    found = jobs.rows.find([event.job_id for event in batch])
    for row, event in zip(found.tolist(), batch, strict=True):
        if row < 0:
            view.orphaned_runs.add(run_id(event.job_id, event.run))
            continue
        if event.run != jobs.run.item(row) + 1:
            continue
        taken.setdefault(row, event)
    if not taken:
        return
    rows = np.fromiter(taken, np.intp, len(taken))
    if len(taken) <= job_index.FEW:
        ended = _lease_few(view, taken, message)
    else:
        ended = _lease_all(view, rows, list(taken.values()), message)
    if view.buckets.limited:
        _take_start_tokens(view, rows, message.time_ms)
    view.mark_all_changed(rows, message.position)
    if view.groups:
        view.note_group_runs(taken)
        for row in taken:
            if jobs.priority.item(row) < PRIORITY_MIN:
                group_events.note_scaled(view, row, message)
    for row in ended:
        request_events.request_stop(view, row, lifecycle.LEASE_ENDED, "the job had ended", message)


def _lease_all(
    view: View, rows: job_table.Rows, events: Sequence[ev.JobRunLeased], message: Message
) -> list[int]:
    """Give the jobs of these rows their runs; returns the rows of jobs that had ended."""
    jobs = view.jobs
    states = jobs.state[rows]
    ended = job_table.IS_ENDED[states]
    for state in states[states != job_table.QUEUED].tolist():
        view.note_ignored(state, "jobRunLeased")
    jobs.state[rows] = np.where(ended, states, _JOB_LEASED)
    jobs.run_state[rows] = _LEASED
    jobs.run[rows] = [event.run for event in events]
    number = jobs.nodes.number
    jobs.node[rows] = [number(job_table.NodeName(event.executor, event.node)) for event in events]
    jobs.value[rows] = [event.value for event in events]
    jobs.leased_ms[rows] = message.time_ms
    jobs.running_ms[rows] = 0
    found: list[int] = rows[ended].tolist()
    return found


def _lease_few(view: View, taken: Mapping[int, ev.JobRunLeased], message: Message) -> list[int]:
    """`_lease_all`, row by row."""
    jobs, ended = view.jobs, list[int]()
    for row, event in taken.items():
        state = jobs.state.item(row)
        if state != job_table.QUEUED:
            view.note_ignored(state, "jobRunLeased")
        if job_table.ENDED[state]:
            ended.append(row)
        else:
            jobs.state[row] = _JOB_LEASED
        jobs.run_state[row] = _LEASED
        jobs.run[row] = event.run
        jobs.node[row] = jobs.nodes.number(job_table.NodeName(event.executor, event.node))
        jobs.value[row] = event.value
        jobs.leased_ms[row] = message.time_ms
        jobs.running_ms[row] = 0
    return ended


def _take_start_tokens(view: View, rows: job_table.Rows, time_ms: int) -> None:
    """L4: a started job takes a token of its pool and one of its queue in this pool."""
    jobs = view.jobs
    pairs = zip(jobs.pool[rows].tolist(), jobs.queue[rows].tolist(), strict=True)
    for (pool, queue), count in Counter(pairs).items():
        buckets = view.buckets.pool(jobs.pools.values[pool])
        buckets.take_start_tokens(jobs.queues.values[queue], count, time_ms)


def fold_preempting(
    view: View, message: Message, batch: Sequence[ev.JobRunPreempting], _i: int, _ended: EndedJobs
) -> None:
    """Mark runs as preempted for a job, or stopped because their gang returns to the queue."""
    jobs = view.jobs
    fair_share = ev.PreemptionCause.FAIR_SHARE
    share_preemptors = {event.for_job for event in batch if event.cause is fair_share}
    for event in batch:
        row = _row_of_newest_run(view, event)
        if row is None or not job_table.IS_LIVE_RUN[jobs.run_state[row]]:
            continue
        if jobs.priority.item(row) < PRIORITY_MIN:
            group_events.note_scaled(view, row, message)
        if event.for_job is None:
            stop = lifecycle.STOP_WITH_GANG
            request_events.request_stop(view, row, stop, event.reason, message)
            continue
        if event.for_job in share_preemptors and view.buckets.limited:  # L8, also for gang members
            pool = jobs.pools.values[jobs.pool[row]]
            view.buckets.pool(pool).preemptions.take(1, message.time_ms)
        stop = lifecycle.PREEMPT_FOR_JOB
        request_events.request_stop(view, row, stop, event.reason, message)
        flag_changes.apply(jobs, row, lifecycle.REASSIGN_CAPACITY)
        view.mark_changed(row, message.position)


def fold_requeued(
    view: View, message: Message, batch: Sequence[ev.JobRequeued], _i: int, _ended: EndedJobs
) -> None:
    """Queue jobs again after a run that ended."""
    jobs = view.jobs
    for event in batch:
        row = jobs.rows.get(event.job_id)
        if row is None:
            continue
        if not flag_changes.apply(jobs, row, lifecycle.REQUEUE):
            view.note_ignored(jobs.state.item(row), "jobRequeued")
            continue
        jobs.state[row] = job_table.QUEUED
        jobs.node[row] = -1
        jobs.retries[row] += event.counted
        if event.avoid_node is not None:
            rare = jobs.rare_properties_of(row)
            rare.avoid = (*rare.avoid, event.avoid_node)[-AVOIDED_MAX:]
        if event.shape:
            name = jobs.shapes.values[jobs.shape[row]].priority_class
            jobs.shape[row] = jobs.shapes.number(job_table.ShapeClass(bytes(event.shape), name))
        if not jobs.flags[row] & (job_table.LATE_SUCCESS | job_table.CANNOT_START):
            view.rows_to_examine.discard(row)
        view.mark_changed(row, message.position)
        view.examine_groups_of((row,))
        if event.restarts_of is not None:
            group_events.count_restart(view, event.restarts_of, message)


def _row_of_newest_run(view: View, event: ev.RunEvent) -> int | None:
    """The row of the job if the event is about its newest run."""
    row = view.jobs.rows.get(event.job_id)
    return row if row is not None and view.jobs.run.item(row) == event.run else None


def fold_run_progress(
    view: View,
    message: Message,
    batch: Sequence[ev.JobRunPending | ev.JobRunRunning],
    _i: int,
    _ended: EndedJobs,
) -> None:
    """Note that runs became pending or running."""
    if len(batch) <= job_index.FEW:
        for event in batch:
            _fold_one_run_progress(view, message, event)
        return
    jobs = view.jobs
    at = jobs.rows.find([event.job_id for event in batch])
    rows = at[(at >= 0) & (jobs.run[at] == [event.run for event in batch])]
    if not rows.size:
        return
    tag = cast(str, batch[0].__struct_config__.tag)
    jobs.run_state[rows] = _RUN_TABLES[tag][jobs.run_state[rows]]
    jobs.state[rows] = _JOB_TABLES[tag][jobs.state[rows]]
    if isinstance(batch[0], ev.JobRunRunning):
        since_ms = jobs.running_ms[rows]
        jobs.running_ms[rows] = np.where(since_ms > 0, since_ms, message.time_ms)
        if view.groups:
            view.examine_groups_of(rows.tolist())
            running = cast("Sequence[ev.JobRunRunning]", batch)
            by_row = dict(zip(at.tolist(), running, strict=True))
            group_events.note_addresses(view, [(row, by_row[row]) for row in rows.tolist()])
    if view.groups:
        view.note_group_runs(rows.tolist())
    view.mark_all_changed(rows, message.position)


def _fold_one_run_progress(
    view: View, message: Message, event: ev.JobRunPending | ev.JobRunRunning
) -> None:
    """`fold_run_progress` of one event."""
    row = _row_of_newest_run(view, event)
    if row is None:
        return
    tag = cast(str, event.__struct_config__.tag)
    jobs = view.jobs
    jobs.run_state[row] = _RUN_TABLES[tag].item(jobs.run_state.item(row))
    jobs.state[row] = _JOB_TABLES[tag].item(jobs.state.item(row))
    if isinstance(event, ev.JobRunRunning) and jobs.running_ms.item(row) <= 0:
        jobs.running_ms[row] = message.time_ms
        view.examine_groups_of((row,))
        group_events.note_addresses(view, [(row, event)])
    view.note_group_runs((row,))
    view.mark_changed(row, message.position)


_LEASED: Final = job_table.RUN_CODE[RunState.LEASED]
_JOB_LEASED: Final = job_table.STATE_CODE[JobState.LEASED]


def fold_run_end(
    view: View, message: Message, batch: Sequence[run_times.RunEnd], _i: int, _ended: EndedJobs
) -> None:
    """Note that runs ended. Housekeeping decides what happens to their jobs."""
    jobs = view.jobs
    table = _RUN_TABLES[cast(str, batch[0].__struct_config__.tag)]
    run, state, run_state = jobs.run, jobs.state, jobs.run_state
    touched: list[int] = []
    found = jobs.rows.find([event.job_id for event in batch])
    for row, event in zip(found.tolist(), batch, strict=True):
        if row < 0:
            view.orphaned_runs.add(run_id(event.job_id, event.run))
            continue
        was = run_state.item(row)
        if run.item(row) != event.run or not job_table.LIVE_RUN[was]:
            _fold_late_run_end(view, row, event, message)
            continue
        run_state[row] = table[was]
        if job_table.ENDED[state.item(row)]:
            view.orphaned_runs.add(run_id(event.job_id, event.run))
            end_events.release_row(view, row)
            continue
        touched.append(row)
        run_times.count_ended_run(view, row, event, message.time_ms, message.position)
        if not isinstance(event, ev.JobRunSucceeded):
            rare = jobs.rare_properties_of(row)
            rare.failure_reason = event.reason
            rare.failure, rare.exit_code = None, None
            if isinstance(event, ev.JobRunLost):
                rare.lost_run = event.run
            if isinstance(event, ev.JobRunFailed):
                rare.failure, rare.exit_code = event.category, event.exit_code
    view.mark_all_changed(touched, message.position)
    view.note_group_runs(touched)
    view.rows_to_examine.update(touched)


def _fold_late_run_end(view: View, row: int, event: run_times.RunEnd, message: Message) -> None:
    """Fold the end of a run that was given up, or a repeated end.

    Housekeeping ends the lease. A success counts for the job unless a later run has started.
    """
    if isinstance(event, ev.JobRunLost) and message.sequence.by == job_table.BY_SCHEDULER:
        return
    view.orphaned_runs.add(run_id(event.job_id, event.run))
    jobs, rare = view.jobs, view.jobs.rare_properties.get(row)
    if not isinstance(event, ev.JobRunSucceeded) or rare is None or rare.lost_run != event.run:
        return
    if not _is_newest_started(view, row, event.run):
        return
    if not flag_changes.apply(jobs, row, lifecycle.SUCCEED_LATE):
        return
    if jobs.run.item(row) == event.run:
        jobs.run_state[row] = _RUN_TABLES["jobRunSucceeded"].item(jobs.run_state.item(row))
    view.rows_to_examine.add(row)
    view.mark_changed(row, message.position)


def _is_newest_started(view: View, row: int, run: int) -> bool:
    """Whether no run after this one has been taken up by its executor."""
    jobs = view.jobs
    newest = jobs.run.item(row)
    return newest == run or (newest == run + 1 and jobs.run_state.item(row) == _LEASED)


def fold_successes(view: View, batch: SuccessBatch) -> bool:
    """`fold_run_end` of many successes at once; False, without any change, if they are few or one
    is unusual.

    Thousands of successes arrive in small messages, one per executor and job set. A success is
    unusual if its run is not the newest one or has ended, if its job has no row, or if it is
    repeated.
    """
    jobs = view.jobs
    if len(batch.ids) <= job_index.FEW:
        return False
    at = jobs.rows.find(batch.ids)
    distinct = set(at.tolist())
    if len(distinct) < len(batch.ids) or job_index.NO_ROW in distinct:
        return False
    usual = (jobs.run[at] == batch.runs) & ~job_table.IS_ENDED[jobs.state[at]]
    run_state = jobs.run_state[at]
    if not (usual & job_table.IS_LIVE_RUN[run_state]).all():
        return False
    jobs.run_state[at] = _RUN_TABLES["jobRunSucceeded"][run_state]
    positions = np.repeat([entry.position for entry in batch.entries], batch.sizes)
    if view.groups:
        begins = np.concatenate([[0], np.cumsum(batch.sizes)]).tolist()
        for entry, begin, end in zip(batch.entries, begins[:-1], begins[1:], strict=True):
            rows = at[begin:end].tolist()
            run_times.count_member_successes(view, rows, entry.time_ms, entry.position)
    view.mark_all_changed(at, positions)
    view.note_group_runs(distinct)
    view.rows_to_examine |= distinct
    return True


def _table(
    steps: Mapping[tuple[JobState, str], JobState] | Mapping[tuple[RunState, str], RunState],
    codes: Mapping[JobState, int] | Mapping[RunState, int],
    tag: str,
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The life-cycle table for one event as an array: code of a state -> code of the next state. A
    state without a row stays."""
    table = np.arange(256, dtype=np.uint8)
    for (state, event_tag), to in steps.items():
        if event_tag == tag:
            table[codes[state]] = codes[to]  # type: ignore[index]
    return table


_RUN_TAGS: Final = {tag for _, tag in RUN_STEPS}
_RUN_TABLES: Final = {tag: _table(RUN_STEPS, job_table.RUN_CODE, tag) for tag in _RUN_TAGS}
_JOB_TABLES: Final = {tag: _table(JOB_STEPS, job_table.STATE_CODE, tag) for tag in _RUN_TAGS}
