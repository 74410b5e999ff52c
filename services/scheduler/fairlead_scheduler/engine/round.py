"""The recipe of a round: how one pool is scheduled, step by step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairlead_scheduler.engine.plan import round_result, unplanned_round
from fairlead_scheduler.engine.preparation import round_builder
from fairlead_scheduler.engine.preparation.pool import (
    array_types,
    prepared_pool,
    snapshot_checks,
    static_pool,
)
from fairlead_scheduler.engine.preparation.pool.static_pool import StaticPool, renew_static_pool
from fairlead_scheduler.engine.preparation.round_context import RoundContext
from fairlead_scheduler.engine.round_clock import RoundClock, TimeLimitReachedError
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.scheduling import oversubscription, scheduling_pass
from fairlead_scheduler.engine.snapshot import Code, EngineSettings, Int32, Int64, Snapshot
from fairlead_scheduler.engine.state import round_state, run_states
from fairlead_scheduler.engine.state.round_state import PREEMPTED


def never() -> bool:
    """The `expired` of rounds without a time limit."""
    return False


def no_clock() -> float:
    """The `clock_s` of rounds that are not timed."""
    return 0.0


def schedule(
    snapshot: Snapshot,
    settings: EngineSettings,
    *,
    static: StaticPool | None = None,
    explain: bool = True,
    expired: Callable[[], bool] = never,
    clock_s: Callable[[], float] = no_clock,
) -> Plan:
    """Decide one round for one pool. Without `explain` the plan has no reasons of waiting jobs,
    unless it refuses a job: see `Plan.explained`. No decision depends on it.

    `expired` is called between portions of bounded work in every step (L6). After it has returned
    True it is not called again, no further job is tried, placements stay, and the plan reports it.
    `clock_s` times the steps; no decision depends on it. `static` is that of this snapshot or of an
    earlier round of the pool. Raises `snapshot_checks.InvalidSnapshotError` for an invalid
    snapshot.
    """
    times = [clock_s()]
    clock = RoundClock(expired, settings)
    # 1. Nodes and queues that take part, free capacity, entitlements (R1, S1 to S6, section 6).
    static = renew_static_pool(static, snapshot, settings, clock)
    varying = array_types.convert_columns(snapshot, static_pool.VARYING_COLUMNS)
    snapshot = array_types.replace_columns(snapshot, {**static.converted, **varying})
    snapshot_checks.check_varying_columns(snapshot)
    start = prepared_pool.prepare_pool(snapshot, static, clock)
    times.append(clock_s())
    # 2. The order of nodes for the whole round (N3), the order of jobs (R3), evicted runs (R2).
    try:
        round_ = round_builder.build_round(snapshot, settings, start, clock)
    except TimeLimitReachedError:
        return unplanned_round.build_plan(snapshot, start)
    times.append(clock_s())
    # 3. The scheduling pass: the queue of R4 places its next job (N1 to N10).
    _run_pass(round_, settings, clock)
    times.append(clock_s())
    # 4. Oversubscribed nodes lose their least urgent runs (R6); runs that still fit return (R7).
    if round_.model.runs.active:
        _resolve_oversubscription(round_, settings, clock)
        _run_second_pass(round_, settings, clock)
    times.append(clock_s())
    # 5. The plan, and why the other jobs wait (R8, E1 to E5).
    return round_result.build_plan(
        round_, clock, lambda: _measure_steps(times, clock_s()), explain=explain
    )


def _measure_steps(times: list[float], end_s: float) -> dict[str, float]:
    """The duration of each step (ms); `times`: when each step began (s)."""
    names = ("prepare", "order", "pass", "fit", "explain")
    took = zip(names, times, [*times[1:], end_s], strict=True)
    return {name: 1000 * (end - begun) for name, begun, end in took}


def _run_pass(round_: RoundContext, settings: EngineSettings, clock: RoundClock) -> None:
    """Run the scheduling pass until no offer is left or time is up; then all runs that are still
    evicted return (L6)."""
    model = round_.model
    bounds = settings.offers_per_check, settings.work_per_check
    while scheduling_pass.run_pass(round_.packed_model, *bounds) != scheduling_pass.DONE:
        if clock.check():
            if model.counters[round_state.N_STOP] == Code.NONE:
                model.counters[round_state.N_STOP] = Code.TIME_LIMIT
            run_states.return_evicted_runs(model)
            return


def _resolve_oversubscription(
    round_: RoundContext, settings: EngineSettings, clock: RoundClock
) -> None:
    """R6, in portions. It runs to its end even if time is up, because placements stay."""
    position = 0
    while position < round_.model.nodes.node_type.size:
        clock.check()
        position = oversubscription.resolve_oversubscription(
            round_.packed_model, position, settings.work_per_check
        )


def _run_second_pass(round_: RoundContext, settings: EngineSettings, clock: RoundClock) -> None:
    """R7: preempted runs that still fit return to their nodes. Members that their gangs do not
    need are offered once more when these have returned: some were reached before."""
    model = round_.model
    if not model.counters[round_state.N_PREEMPTED]:
        return
    preempted = _find_preempted(round_)
    if not preempted.size:
        return
    gang = model.jobs.gang[preempted]
    needed = model.gangs.roles.base[preempted] != 0 if model.gangs.roles.base.size else gang >= 0
    _return_preempted(round_, settings, clock, preempted, gang[(gang >= 0) & needed])
    surplus = np.intersect1d(_find_preempted(round_), preempted[(gang >= 0) & ~needed])
    if surplus.size:
        _return_preempted(round_, settings, clock, surplus, gang[:0])


def _find_preempted(round_: RoundContext) -> Int32:
    """The rows of the runs that are preempted now."""
    is_preempted = round_.model.runs.state == PREEMPTED
    return np.flatnonzero(is_preempted & (round_.snapshot.job_node >= 0)).astype(np.int32)


def _return_preempted(
    round_: RoundContext,
    settings: EngineSettings,
    clock: RoundClock,
    preempted: Int32,
    needed_of: Int32,
) -> None:
    """Offer these runs in the order of R7, in portions; `needed_of`: the gang of each that its gang
    needs."""
    snapshot, model = round_.snapshot, round_.model
    keys: list[Int64 | Int32] = [
        snapshot.job_submission[preempted],
        snapshot.job_started_ms[preempted],
        -snapshot.job_priority[preempted],
        -model.runs.level[preempted],
        snapshot.job_queue[preempted],
    ]
    rows = preempted[np.lexsort(keys)].astype(np.int64)
    first = np.searchsorted(
        snapshot.job_queue[rows], np.arange(len(snapshot.queue_names) + 1)
    ).astype(np.int64)
    model.progress.next_queued[:] = first[:-1]
    to_come = np.bincount(needed_of, minlength=model.gangs.min_size.size).astype(np.int64)
    packed_model, work = round_.packed_model, settings.work_per_check
    oversubscription.start_second_pass(packed_model, rows, first)
    is_done = False
    while not is_done:
        late = int(clock.check())
        is_done = oversubscription.run_second_pass(packed_model, rows, first, to_come, work, late)
