"""What a cycle decides before it schedules: run ends, stops, deadlines, lost executors. Pure.

Level, not edge: each decision follows from what the view says now, so that it does not matter
which of several leaders saw the event that led there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JobId, RunId, parse_run_id, run_id
from fairlead_common.domain.lifecycle import RunState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, PreemptionCause
from fairlead_common.domain.records.leases import DesiredState
from fairlead_scheduler.rules import lease_changes, run_ends
from fairlead_scheduler.rules.append_batches import UNKNOWN, Unit
from fairlead_scheduler.rules.lease_changes import LeaseChange, Leases
from fairlead_scheduler.state import job_table as c
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.deadlines import Watch
from fairlead_scheduler.state.job_index import Packed, unpacked
from fairlead_scheduler.state.job_table import JobSet, NodeName
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

Rows = npt.NDArray[np.intp]

TOGETHER: Final = 100
"""Jobs that share a unit where none needs another: a unit for each would cost more than what is in
it."""
_SUCCEEDED: Final = c.RUN_CODE[RunState.SUCCEEDED]


class Successes(msgspec.Struct, frozen=True):
    """Jobs that ended well, as columns: there may be many, and nothing to think about."""

    ids: Packed
    runs: npt.NDArray[np.int32]
    job_sets: list[JobSet]
    executors: list[str]

    def units(self) -> Iterator[Unit]:
        """What the log is told of them, some at once."""
        for at in range(0, len(self.ids), TOGETHER):
            span = slice(at, at + TOGETHER)
            ids = unpacked(self.ids[span])
            told = zip(self.job_sets[span], ids, strict=True)
            facts = tuple([(job_set, ev.JobSucceeded(job_id=job_id)) for job_set, job_id in told])
            runs = list(map(run_id, ids, self.runs[span].tolist()))
            yield Unit(facts, tuple(lease_changes.clear_all(runs, self.executors[span])))


class Housekeeping(msgspec.Struct, frozen=True):
    """What was decided, and which rows a round must leave alone until it is folded back."""

    successes: Successes
    others: list[Unit]
    left_out: set[int]
    """Queued jobs; one whose run is over takes no part in rounds anyway."""

    @property
    def decisions(self) -> int:
        """How many there are."""
        return len(self.successes.ids) + len(self.others)

    def units(self) -> Iterator[Unit]:
        """What the log is told, in its order."""
        yield from self.successes.units()
        yield from self.others


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How long or how often something may be until it is acted on; times are seconds.

    `stale_s`, `lost_s`: silence of an executor. `node_gone_s`: a node that holds runs is gone.
    `deadline_s`: what an executor is given to end a run that has run for as long as it may, beyond
    the job's own grace. `unstarted`: nodes that could not start one job.
    """

    stale_s: float
    lost_s: float
    node_gone_s: float
    deadline_s: float
    unstarted: int


def decide(
    view: View,
    watch: Watch,
    held: Leases,
    queues: Queues,
    clusters: Clusters,
    bounds: Bounds,
    *,
    now_ms: int,
) -> Housekeeping:
    """Everything that is due now."""
    watch.keep_up(view)
    over, late, to_stop, rest = _apart(view)
    stopped, leases = _stopped(view, held, watch, to_stop)
    units = [Unit((), leases[at : at + TOGETHER]) for at in range(0, len(leases), TOGETHER)]
    left_out = set(stopped)
    for row, unit in _late_successes(view, held, late):
        left_out.add(row)
        units.append(unit)
    for row, unit in _attended(view, held, queues, clusters, bounds, rest):
        left_out.add(row)
        units.append(unit)
    for row, unit in _overdue(view, _decidable(view, watch.overdue(now_ms))):
        if row not in left_out:
            left_out.add(row)
            units.append(unit)
    units += _beyond_runtime(view, held, _decidable(view, watch.too_long(now_ms)))
    for row, unit in _lost(view, watch, _given_up(view, watch, clusters, bounds)):
        left_out.add(row)
        units.append(unit)
    left_out.update(_stopping_gangs(view))
    waiting, cleared = _unconfirmed(view, held, clusters, bounds)
    left_out.update(waiting)
    cleared.update(run for run in view.loose_runs if run in held.held)
    ended = (run for run in cleared if not lease_changes.is_stopped(view, run))
    units += [_loose(view, held, run) for run in sorted(ended)]
    return Housekeeping(_succeeded(view, over), units, left_out)


def _loose(view: View, held: Leases, run: RunId) -> Unit:
    """The end of a lease that nobody wants; nobody tells the end of a run without a job."""
    cleared = lease_changes.clear(held, run)
    job_id, number = parse_run_id(run)
    if job_id in view.jobs.rows or held.is_given_up(run):
        return Unit((), cleared)
    lost = ev.JobRunLost(job_id=JobId(job_id), run=number, reason="its job had ended before")
    return Unit(((UNKNOWN, lost),), cleared)


def _decidable(view: View, rows: list[int]) -> list[int]:
    if not view.stopped:
        return rows
    found: list[int] = view.decidable(np.array(rows, np.intp)).tolist()
    return found


def _unconfirmed(
    view: View, held: Leases, clusters: Clusters, bounds: Bounds
) -> tuple[set[int], set[RunId]]:
    """Queued jobs of which a lost run may still be somewhere, and lost runs of jobs that ended.

    A job does not start again before the executor of the lost run has reported its end, or is lost
    itself; nor do the others of its gang, which start together.
    """
    if not held.given_up:
        return set(), set()
    jobs, lost = view.jobs, clusters.silent(bounds.lost_s)
    waiting, over = set[int](), set[RunId]()
    found = jobs.rows.find(list(held.given_up.values()))
    for run, row in zip(held.given_up, found.tolist(), strict=True):
        if row < 0 or c.ENDED[jobs.state.item(row)]:
            over.add(run)
            continue
        executor = held.held[run].executor
        if executor in lost or executor not in clusters.silence_s:
            continue
        if jobs.state[row] == c.QUEUED:
            waiting.add(row)
            waiting.update(_gang_mates(view, row))
    return waiting, over


def _gang_mates(view: View, row: int) -> list[int]:
    rare = view.jobs.rare.get(row)
    if rare is None or rare.gang is None or rare.gang in view.gang_started:
        return []
    return [view.jobs.rows[job_id] for job_id in view.gang_members.get(rare.gang, ())]


def _job_set(view: View, row: int) -> JobSet:
    return view.jobs.job_sets.values[view.jobs.job_set.item(row)]


def _apart(view: View) -> tuple[Rows, Rows, Rows, Rows]:
    """Of the jobs that an event marked: those whose run succeeded, those of which a run that was
    given up had succeeded, those whose run lives and is to stop, and others of which something may
    be decided; ascending."""
    jobs, at = view.jobs, view.decidable(np.array(list(view.attention), np.intp))
    at.sort()
    run_state, state = jobs.run_state[at], jobs.state[at]
    over = (run_state == _SUCCEEDED) & c.IS_HELD[state]
    late = ((jobs.flags[at] & c.LATE_SUCCESS) > 0) & ~c.IS_ENDED[state] & ~over
    live = c.IS_LIVE_RUN[run_state] & ~late
    to_stop = live & (((jobs.flags[at] & c.STOPPING) > 0) | c.IS_ENDED[state])
    return at[over], at[late], at[to_stop], at[~over & ~late & ~live]


def _late_successes(view: View, held: Leases, rows: Rows) -> Iterator[tuple[int, Unit]]:
    """Jobs of which a run that was given up had succeeded: one that was to follow is stopped."""
    jobs = view.jobs
    for row in rows.tolist():
        job_id = jobs.rows.of(row)
        run = run_id(job_id, jobs.run.item(row))
        leases: tuple[LeaseChange, ...] = ()
        if c.LIVE_RUN[jobs.run_state.item(row)]:
            if _wishes_run(held, run):
                why = "an earlier run of its job, which was given up, had succeeded"
                leases = (lease_changes.stop_lease(view, row, why),)
        elif c.HELD[jobs.state.item(row)] and not held.is_given_up(run):
            leases = lease_changes.clear(held, run, _executor(view, row))
        yield row, Unit(((_job_set(view, row), ev.JobSucceeded(job_id=job_id)),), leases)


def _stopped(
    view: View, held: Leases, watch: Watch, rows: Rows
) -> tuple[list[int], tuple[LeaseChange, ...]]:
    """Of live runs that are to stop, those whose leases do not say so, and leases that do."""
    jobs = view.jobs
    rows = watch.unseen(rows)
    runs = map(run_id, jobs.rows.every(rows), jobs.run[rows].tolist())
    wishes = np.array([_wishes_run(held, run) for run in runs], np.bool_)
    watch.seen(rows[~wishes])
    wanted: list[int] = rows[wishes].tolist()
    rare = jobs.rare
    leases = [
        lease_changes.stop_lease(view, row, rare[row].stop_reason if row in rare else "")
        for row in wanted
    ]
    return wanted, tuple(leases)


def _succeeded(view: View, rows: Rows) -> Successes:
    jobs, nodes = view.jobs, view.jobs.nodes.values
    return Successes(
        jobs.rows.packed(rows),
        jobs.run[rows],
        list(map(jobs.job_sets.values.__getitem__, jobs.job_set[rows].tolist())),
        [nodes[node].executor for node in jobs.node[rows].tolist()],
    )


def _attended(
    view: View,
    held: Leases,
    queues: Queues,
    clusters: Clusters,
    bounds: Bounds,
    rows: Rows,
) -> Iterator[tuple[int, Unit]]:
    """Jobs that an event marked: their run ended, or they wait in vain."""
    jobs = view.jobs
    together, taken_back = run_ends.Together(view), set[c.GangName]()
    runs = map(run_id, jobs.rows.every(rows), jobs.run[rows].tolist())
    for row, run in zip(rows.tolist(), runs, strict=True):
        if c.HELD[jobs.state.item(row)]:
            event = run_ends.decide_end(view, row, queues, clusters, bounds.unstarted, together)
            facts: list[tuple[JobSet, ev.AnyEvent]] = [(_job_set(view, row), event)]
            records: list[LeaseChange] = []
            if not held.is_given_up(run):
                records += lease_changes.clear(held, run, _executor(view, row))
            rare = jobs.rare.get(row)
            gang = None if rare is None else rare.gang
            if gang is not None and gang not in taken_back and together.misses(row):
                taken_back.add(gang)
                _take_back(view, held, row, gang, facts, records)
            yield row, Unit(tuple(facts), tuple(records))
        elif jobs.state[row] == c.QUEUED and jobs.flags[row] & c.DOOMED:
            doomed = _doomed(jobs.rows.of(row), jobs.rare[row])
            yield row, Unit(((_job_set(view, row), doomed),))


def _doomed(job_id: JobId, rare: c.Rare) -> ev.AnyEvent:
    if rare.gang_doom:
        return run_ends.doomed(job_id, rare)
    return ev.JobCancelled(job_id=job_id, reason=rare.doom)


def _executor(view: View, row: int) -> str:
    return view.jobs.nodes.values[view.jobs.node.item(row)].executor


def _is_wanted(view: View, held: Leases, row: int) -> bool:
    """Whether the lease of the job's live run still wishes it to run."""
    return _wishes_run(held, run_id(view.jobs.rows.of(row), int(view.jobs.run[row])))


def _wishes_run(held: Leases, run: RunId) -> bool:
    known = held.held.get(run)
    return known is not None and known.wish is DesiredState.RUN


def _take_back(
    view: View,
    held: Leases,
    row: int,
    gang: c.GangName,
    facts: list[tuple[JobSet, ev.AnyEvent]],
    records: list[LeaseChange],
) -> None:
    """A member that could not start takes its gang along, where fewer live than must together."""
    job_id = view.jobs.rows.of(row)
    why = (
        f"its gang {gang.name} goes back to the queue: member {job_id} could not start on"
        f" {run_ends.node_name(view, row)}: {view.jobs.rare[row].failure_reason}"
    )
    for other in sorted(view.gang_members.get(gang, ())):
        at = view.jobs.rows[other]
        if at == row or not run_ends.is_on(view, at):
            continue
        event = ev.JobRunPreempting(
            job_id=other, run=int(view.jobs.run[at]), cause=PreemptionCause.GANG, reason=why
        )
        facts.append((_job_set(view, at), event))
        if _is_wanted(view, held, at):
            records.append(lease_changes.stop_lease(view, at, why))


def _stopping_gangs(view: View) -> list[int]:
    """Members that wait while others of their gang are stopped: they start together again."""
    if not view.gangs:
        return []
    found = (view.jobs.rare.get(row) for row in view.attention)
    gangs = {rare.gang for rare in found if rare is not None and rare.gang is not None}
    return [
        view.jobs.rows[job_id]
        for gang in gangs - view.gang_started
        for job_id in view.gang_members.get(gang, ())
    ]


def _overdue(view: View, rows: Sequence[int]) -> Iterator[tuple[int, Unit]]:
    """Queued jobs that have waited longer than they wanted to."""
    jobs = view.jobs
    for row in rows:
        waited_s = (int(jobs.queue_until_ms[row]) - int(jobs.submitted_ms[row])) // 1000
        event = ev.JobCancelled(
            job_id=jobs.rows.of(row),
            reason=f"still queued after its maxQueueSeconds of {waited_s} s",
        )
        yield row, Unit(((_job_set(view, row), event),))


def _beyond_runtime(view: View, held: Leases, rows: Sequence[int]) -> Iterator[Unit]:
    """Live runs that their executor should have ended for their maximum run time, and has not."""
    jobs = view.jobs
    for row in rows:
        if _is_wanted(view, held, row):
            runtime_s = int(jobs.runtime_ms_max[row]) // 1000
            why = f"it ran longer than the {runtime_s} s that it may"
            lease = lease_changes.stop_lease(view, row, why, FailureCategory.DEADLINE)
            yield Unit((), (lease,))


def _given_up(view: View, watch: Watch, clusters: Clusters, bounds: Bounds) -> dict[NodeName, str]:
    """Nodes whose runs are given up, and why."""
    lost = clusters.silent(bounds.lost_s)
    found = {
        name: f"node {name.node} of executor {name.executor} is gone"
        for name in clusters.gone(bounds.node_gone_s, bounds.stale_s)
    }
    for name in watch.in_use(view, lost):
        found[name] = f"executor {name.executor} has stopped reporting"
    return found


def _lost(view: View, watch: Watch, given_up: Mapping[NodeName, str]) -> Iterator[tuple[int, Unit]]:
    """Live runs on nodes that nobody has heard of for too long are given up.

    Their leases wish them to stop until their executor reports their end: it may come back.
    """
    jobs = view.jobs
    for row in _decidable(view, watch.runs_on(view, given_up)):
        name = jobs.nodes.values[jobs.node[row]]
        why = given_up[name]
        event = ev.JobRunLost(job_id=jobs.rows.of(row), run=int(jobs.run[row]), reason=why)
        lease = lease_changes.stop_lease(view, row, why, given_up=True)
        yield row, Unit(((_job_set(view, row), event),), (lease,))
