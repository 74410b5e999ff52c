"""The fold of users' requests about existing jobs: release, cancel, preempt, reprioritise."""

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from fairlead_common.domain import lifecycle
from fairlead_common.domain.lifecycle import FlagChange, JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.state.folds import array_events, end_events, flag_changes
from fairlead_scheduler.state.folds.input import job_filters
from fairlead_scheduler.state.folds.input.messages import EndedJobs, Message
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View


def fold_released(
    view: View, message: Message, batch: Sequence[ev.JobReleased], _i: int, _ended: EndedJobs
) -> None:
    """End the hold of jobs."""
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is None or not view.jobs.flags.item(row) & job_table.HOLD:
            continue
        if flag_changes.apply(view.jobs, row, lifecycle.RELEASE):
            view.mark_changed(row, message.position)


def fold_cancel_requested(
    view: View, message: Message, batch: Sequence[ev.JobCancelRequested], _i: int, _ended: EndedJobs
) -> None:
    """End queued jobs; request the stop of running ones."""
    without_row = []
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is not None:
            _cancel(view, row, message, event.reason)
        else:
            without_row.append(event)
    if view.arrays:
        array_events.cancel_tasks(view, without_row, message)


def _cancel(view: View, row: int, message: Message, reason: str) -> None:
    state = view.jobs.state.item(row)
    if state == job_table.QUEUED:
        end_events.end_job(view, row, JobState.CANCELLED, message)
    else:
        request_stop(view, row, lifecycle.REQUEST_CANCEL, reason or "cancelled", message)


def request_stop(view: View, row: int, change: FlagChange, reason: str, message: Message) -> None:
    """Mark the job's run as to be stopped, if the change applies to the job."""
    if not flag_changes.apply(view.jobs, row, change):
        return
    view.jobs.rare_properties_of(row).stop_reason = reason
    view.rows_to_examine.add(row)
    view.mark_changed(row, message.position)


def fold_preempt_requested(
    view: View,
    message: Message,
    batch: Sequence[ev.JobPreemptRequested],
    _i: int,
    _ended: EndedJobs,
) -> None:
    """Request the stop of running jobs as if they were preempted."""
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is not None:
            reason = event.reason or "preempted by request"
            request_stop(view, row, lifecycle.REQUEST_PREEMPTION, reason, message)


def _request_preemptions(view: View, rows: Sequence[int], message: Message, reason: str) -> None:
    """As `request_stop` of each of these rows, which are distinct."""
    jobs = view.jobs
    at = flag_changes.apply_all(jobs, np.array(rows, np.intp), lifecycle.REQUEST_PREEMPTION)
    wanted = at.tolist()
    for row in wanted:
        jobs.rare_properties_of(row).stop_reason = reason
    view.rows_to_examine.update(wanted)
    view.mark_all_changed(at, message.position)


def fold_reprioritized(
    view: View, message: Message, batch: Sequence[ev.JobReprioritized], _i: int, _ended: EndedJobs
) -> None:
    """Change the priority of jobs."""
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is not None:
            rank = surplus_priority.rank_of(view.jobs.priority.item(row))
            view.jobs.priority[row] = surplus_priority.lower_priority(event.priority, rank)
            view.mark_changed(row, message.position)
    if view.arrays:
        array_events.fold_priorities(view, batch, message)


def fold_bulk_request(
    view: View,
    message: Message,
    batch: Sequence[ev.JobsCancelRequested | ev.JobsPreemptRequested | ev.JobsReprioritized],
    _i: int,
    _ended: EndedJobs,
) -> None:
    """Apply a request to every job that its filter matches in this partition."""
    for event in batch:
        rows = job_filters.find_jobs(view, message.partition, event.filter)
        if view.arrays and not isinstance(event, ev.JobsPreemptRequested):
            array_events.apply_bulk_request(view, message, event)
        match event:
            case ev.JobsCancelRequested(reason=reason):
                for row in rows:
                    _cancel(view, row, message, reason)
            case ev.JobsPreemptRequested(reason=reason):
                _request_preemptions(view, rows, message, reason or "preempted by request")
            case ev.JobsReprioritized(priority=priority):
                ranks = surplus_priority.rank_of(view.jobs.priority[rows])
                given = np.full(ranks.size, priority, np.int64)
                view.jobs.priority[rows] = surplus_priority.lower_priority(given, ranks)
                view.mark_all_changed(rows, message.position)
            case _:
                assert_never(event)
