"""Checks the invariants of the view: the job table and everything that is folded with it. Pure.

Each check yields one sentence per violation, with the row or the job that it is about. A violation
is a defect of the scheduler, never an error of a user or of the log. All of them together cost a
few passes over all jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from fairlead_common.domain.ids import JobId
from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.state.jobs import groups, job_table

if TYPE_CHECKING:
    from fairlead_scheduler.state.view import View

EXAMPLES_MAX: Final = 5
"""The most rows or jobs that one sentence names."""


def list_view_violations(view: View) -> list[str]:
    """One sentence per violated invariant; empty for a valid view."""
    found = list(chain(_check_rows(view), _check_index(view)))
    if found:  # the rest reads rows by their ids
        return found
    return list(
        chain(
            _check_numbers(view),
            _check_life_cycle(view),
            _check_rows_to_examine(view),
            _check_dependencies(view),
            _check_gangs(view),
            _check_groups(view),
            _check_arrays(view),
            _check_ended(view),
        )
    )


def describe_rows(problem: str, rows: job_table.Rows) -> Iterator[str]:
    """One sentence about these rows, or none."""
    if rows.size:
        some = ", ".join(map(str, rows[:EXAMPLES_MAX].tolist()))
        yield f"{problem} ({rows.size}): {some}"


def describe_jobs(problem: str, jobs: job_table.JobTable, rows: job_table.Rows) -> Iterator[str]:
    """One sentence about the jobs in these rows, or none. Each row must have a job."""
    if rows.size:
        some = ", ".join(map(str, jobs.rows.ids_at(rows[:EXAMPLES_MAX])))
        yield f"{problem} ({rows.size}): {some}"


def _check_rows(view: View) -> Iterator[str]:
    """Every column is as long as the table; each row has a job or is free, never both."""
    jobs = view.jobs
    sizes = {name: column.size for name, column in jobs.columns().items()}
    if len(set(sizes.values())) != 1:
        yield f"the columns of the job table differ in length: {sizes}"
        return
    if jobs.used > jobs.flags.size:
        yield f"{jobs.used} rows are used of {jobs.flags.size}"
    is_free = (jobs.flags & job_table.FREE) > 0
    yield from describe_rows("rows beyond the used ones have a job", _at(~is_free[jobs.used :]))
    listed = np.sort(np.array(jobs.free_rows(), np.intp))
    if not np.array_equal(listed, _at(is_free[: jobs.used])):
        yield "the list of free rows does not name each row without a job once"
    yield from describe_rows("rows without a job wait to be saved", _at(jobs.unsaved & is_free))
    rare = np.array(sorted(jobs.rare_properties), np.intp)
    yield from describe_rows("rows without a job have rare properties", rare[is_free[rare]])


def _check_index(view: View) -> Iterator[str]:
    """Each job has the row that its id leads to."""
    jobs, live = view.jobs, view.live_rows()
    if len(jobs.rows) != live.size:
        yield f"the index has {len(jobs.rows)} ids, but {live.size} rows have a job"
    found = jobs.rows.find(jobs.rows.ids_at(live)) if live.size else live
    yield from describe_rows("ids do not lead to their rows", live[found != live])


def _check_numbers(view: View) -> Iterator[str]:
    """The numbers in each row stand for a name, and its job set is one of its queue."""
    jobs, live = view.jobs, view.live_rows()
    for name, column, names, least in (
        ("pool", jobs.pool, jobs.pools, 0),
        ("queue", jobs.queue, jobs.queues, 0),
        ("job set", jobs.job_set, jobs.job_sets, 0),
        ("shape", jobs.shape, jobs.shapes, 0),
        ("node", jobs.node, jobs.nodes, -1),
    ):
        wrong = (column[live] < least) | (column[live] >= len(names))
        yield from describe_jobs(f"numbers of a {name} have no name", jobs, live[wrong])
        if wrong.any():
            return
    queue_of = np.array([_find(jobs.queues, name.queue) for name in jobs.job_sets.values], np.intp)
    wrong = queue_of[jobs.job_set[live]] != jobs.queue[live]
    yield from describe_jobs("the job set is of another queue", jobs, live[wrong])


def _find(names: job_table.Numbering[str], name: str) -> int:
    found = names.find(name)
    return -1 if found is None else found


def _check_life_cycle(view: View) -> Iterator[str]:
    """The state of a job and that of its newest run go together."""
    jobs, live = view.jobs, view.live_rows()
    state, run_state, run = jobs.state[live], jobs.run_state[live], jobs.run[live]
    never = run_state == job_table.NO_RUN
    valid = (state < len(job_table.JOB_STATES)) & (never | (run_state < len(job_table.RUN_STATES)))
    yield from describe_jobs("states that do not exist", jobs, live[~valid])
    if not valid.all():
        return
    yield from describe_jobs(
        "a run without a number, or the reverse", jobs, live[never != (run == 0)]
    )
    has_run = job_table.IS_LIVE_RUN[run_state]
    queued, held = state == job_table.QUEUED, job_table.IS_WITH_RUN[state]
    yield from describe_jobs("queued jobs with a live run", jobs, live[queued & has_run])
    yield from describe_jobs("queued jobs on a node", jobs, live[queued & (jobs.node[live] >= 0)])
    placed = held | has_run
    yield from describe_jobs(
        "jobs with a run, on no node", jobs, live[placed & (jobs.node[live] < 0)]
    )
    reassigned = (jobs.flags[live] & job_table.CAPACITY_REASSIGNED) > 0
    yield from describe_jobs(
        "queued jobs whose capacity is reassigned", jobs, live[queued & reassigned]
    )


def _check_rows_to_examine(view: View) -> Iterator[str]:
    """Housekeeping examines every job about which it has something to decide."""
    jobs, live = view.jobs, view.live_rows()
    listed = np.array(sorted(view.rows_to_examine), np.intp)
    is_free = (jobs.flags & job_table.FREE) > 0
    yield from describe_rows("rows without a job are to be examined", listed[is_free[listed]])
    state, flags = jobs.state[live], jobs.flags[live]
    has_run, ended = job_table.IS_LIVE_RUN[jobs.run_state[live]], job_table.IS_ENDED[state]
    held = job_table.IS_WITH_RUN[state]
    due = (held & ~has_run) | (ended & has_run) | (held & ((flags & job_table.STOPPING) > 0))
    due |= ~ended & ((flags & (job_table.CANNOT_START | job_table.LATE_SUCCESS)) > 0)
    missing = live[due & ~np.isin(live, listed)]
    yield from describe_jobs("jobs that must be examined are not", jobs, missing)


def _check_dependencies(view: View) -> Iterator[str]:
    """`View.dependents` is the inverse of what jobs and arrays that have not ended wait for."""
    jobs = view.jobs
    want: dict[JobId, set[JobId]] = {}
    for row, rare in jobs.rare_properties.items():
        if job_table.ENDED[jobs.state.item(row)] or not rare.after:
            continue
        if not jobs.flags.item(row) & job_table.DEPENDS:
            yield f"job {jobs.rows.id_at(row)} waits for others without the flag that says so"
        for other in rare.after:
            want.setdefault(other, set()).add(jobs.rows.id_at(row))
    for state in view.arrays.values():
        for other in state.waits_for:
            want.setdefault(other, set()).add(JobId(state.array))
    if view.dependents != want:
        differ = {k for k in want.keys() | view.dependents if want.get(k) != view.dependents.get(k)}
        yield f"the dependents of {len(differ)} jobs are wrong, for example of {min(differ)}"


def _check_gangs(view: View) -> Iterator[str]:
    """Gangs, their terms and their members are those that the members' rows name."""
    jobs = view.jobs
    want: dict[job_table.GangName, set[JobId]] = {}
    for row, rare in jobs.rare_properties.items():
        if rare.gang is None or job_table.ENDED[jobs.state.item(row)]:
            continue
        job_id = jobs.rows.id_at(row)
        want.setdefault(rare.gang, set()).add(job_id)
        if rare.member is None and rare.gang_terms != view.gangs.get(rare.gang):
            yield f"job {job_id} has other terms than its gang {rare.gang.name}"
        if rare.gang_started != (rare.gang in view.gang_started):
            yield f"job {job_id} does not agree with its gang {rare.gang.name} that it has started"
    if view.gang_members != want:
        members = view.gang_members
        differ = {k for k in want.keys() | members.keys() if want.get(k) != members.get(k)}
        yield f"the members of {len(differ)} gangs are wrong, for example of {min(differ)}"
    if view.gangs.keys() != want.keys():
        yield f"{len(view.gangs)} gangs are known, but {len(want)} have members"
    if not view.gang_started <= view.gangs.keys():
        yield "a gang has started that does not exist"


def _check_groups(view: View) -> Iterator[str]:
    """Members name groups that exist, in the terms that the group has, and have their ranks."""
    jobs, live = view.jobs, view.live_rows()
    ranks = np.zeros(jobs.used, np.int64)
    counted = surplus_priority.rank_of(jobs.priority[: jobs.used])
    for row, rare in jobs.rare_properties.items():
        if rare.member is None or job_table.ENDED[jobs.state.item(row)]:
            ranks[row] = counted[row]
            continue
        job_id, state = jobs.rows.id_at(row), view.groups.get(rare.member.group)
        if state is None or rare.gang != state.gang_name:
            yield f"job {job_id} is a member of group {rare.member.group}, which does not exist"
            continue
        ranks[row] = groups.surplus_rank(state.terms, rare.member)
        if rare.gang_terms is not None or rare.gang_started:
            yield f"job {job_id} of group {state.group} has terms of a gang"
        over = () if groups.is_outdated(state, rare.member) else state.ended.get(rare.member.role)
        if rare.member.index in (over or ()):
            yield f"job {job_id} has not ended, but its group {state.group} says so"
    wrong = live[counted[live] != ranks[live]]
    yield from describe_jobs("surplus ranks are wrong", jobs, wrong)
    for group, state in view.groups.items():
        has_members = state.gang_name in view.gang_members
        if state.group != group or (state.is_final and not has_members):
            yield f"group {group} should have been forgotten"
        if has_members and view.gangs.get(state.gang_name) != groups.gang_terms(state):
            yield f"group {group} has other terms than its gang"
        if any(
            not state.succeeded[role] <= state.ended.get(role, set()) for role in state.succeeded
        ):
            yield f"members of group {group} have succeeded, but not ended"


def _check_arrays(view: View) -> Iterator[str]:
    """The number of arrays that follow each array is that of the arrays."""
    followed = Counter(state.after for state in view.arrays.values() if state.after is not None)
    for array in sorted(followed.keys() | view.array_followers.keys()):
        if followed[array] != view.array_followers[array]:
            yield (
                f"array {array} has {followed[array]} followers, and"
                f" {view.array_followers[array]} are counted"
            )


def _check_ended(view: View) -> Iterator[str]:
    """A job that has ended has no row, or one whose release is due."""
    jobs, live = view.jobs, view.live_rows()
    for name, ids in (("ended", list(view.ended)), ("recent", list(view.recent))):
        rows = jobs.rows.find(ids) if ids else np.zeros(0, np.intp)
        rows = rows[rows >= 0]
        open_rows = rows[~job_table.IS_ENDED[jobs.state[rows]]]
        yield from describe_jobs(f"jobs in `{name}` have not ended", jobs, open_rows)
    lingering = {job_id for queue in view.lingering.values() for _, job_id in queue}
    over = live[job_table.IS_ENDED[jobs.state[live]] & ~job_table.IS_LIVE_RUN[jobs.run_state[live]]]
    unreleased = [row for row in over.tolist() if jobs.rows.id_at(row) not in lingering]
    yield from describe_jobs("ended jobs are never released", jobs, np.array(unreleased, np.intp))
    for job_id in view.specs.unsaved:
        row = jobs.rows.get(job_id)
        if row is None or job_table.ENDED[jobs.state.item(row)]:
            yield f"job {job_id} has ended, and its submission still waits to be saved"
            return


def _at(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> job_table.Rows:
    return np.flatnonzero(chosen)
