"""One round for one pool: the recipe, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairlead_scheduler.engine.plan import round_result
from fairlead_scheduler.engine.plan.round_result import RoundContext
from fairlead_scheduler.engine.preparation import (
    array_types,
    prepared_pool,
    round_setup,
    snapshot_checks,
)
from fairlead_scheduler.engine.scheduling import oversubscription, scheduling_pass
from fairlead_scheduler.engine.snapshot import Code, EngineSettings, Int32, Int64, Plan, Snapshot
from fairlead_scheduler.engine.state import round_state
from fairlead_scheduler.engine.state.run_states import PREEMPTED


def never() -> bool:
    """For rounds without a time limit."""
    return False


def no_clock() -> float:
    """For rounds that nobody times."""
    return 0.0


def schedule(
    snapshot: Snapshot,
    settings: EngineSettings,
    *,
    expired: Callable[[], bool] = never,
    clock_s: Callable[[], float] = no_clock,
) -> Plan:
    """Decide one round for one pool.

    `expired` is asked between portions of bounded work (L6); once it returns True nothing new is
    tried, what was placed stays placed, and the plan says so. `clock_s` times the steps, and
    nothing is decided by it. Raises `snapshot_checks.InvalidSnapshotError` for an invalid snapshot.
    """
    times = [clock_s()]
    # 1. What takes part, what is free, what queues are entitled to (R1, S1 to S6, section 6).
    snapshot = array_types.convert_arrays(snapshot)
    snapshot_checks.check_snapshot(snapshot)
    start = prepared_pool.prepare_pool(snapshot, settings)
    times.append(clock_s())
    # 2. The order of nodes for the whole round (N3), the order of jobs (R3), evicted runs (R2).
    round_ = round_setup.set_up_round(snapshot, settings, start)
    times.append(clock_s())
    # 3. The scheduling pass: the queue of R4 places its next job (N1 to N10).
    _pass(round_, settings, expired)
    times.append(clock_s())
    # 4. Oversubscribed nodes lose their least urgent runs (R6); runs that still fit return (R7).
    if round_.model.runs.active:
        oversubscription.resolve_oversubscription(round_.model)
        _second_pass(round_)
    times.append(clock_s())
    # 5. The plan, and why the other jobs wait (R8, E1 to E5).
    plan = round_result.build_plan(round_, expired)
    times.append(clock_s())
    names = ("prepare", "order", "pass", "fit", "explain")
    took = zip(names, times[:-1], times[1:], strict=True)
    return replace(plan, steps_ms={name: 1000 * (end - begun) for name, begun, end in took})


def _pass(round_: RoundContext, settings: EngineSettings, expired: Callable[[], bool]) -> None:
    """Run the pass to its end; when time is up only evicted runs are still handled."""
    model = round_.model
    bounds = settings.offers_per_check, settings.work_per_check
    while scheduling_pass.run_pass(model, *bounds) != scheduling_pass.DONE:
        if model.counters[round_state.N_STOP] == Code.NONE and expired():
            model.counters[round_state.N_STOP] = Code.TIME_LIMIT


def _second_pass(round_: RoundContext) -> None:
    snapshot, model = round_.snapshot, round_.model
    gone = np.flatnonzero((model.runs.state == PREEMPTED) & (snapshot.job_node >= 0)).astype(
        np.int32
    )
    if not gone.size:
        return
    keys: list[Int64 | Int32] = [
        snapshot.job_submission[gone],
        snapshot.job_started_ms[gone],
        -snapshot.job_priority[gone],
        -model.runs.level[gone],
        snapshot.job_queue[gone],
    ]
    rows = gone[np.lexsort(keys)].astype(np.int64)
    first = np.searchsorted(
        snapshot.job_queue[rows], np.arange(len(snapshot.queue_names) + 1)
    ).astype(np.int64)
    model.progress.next_queued[:] = first[:-1]
    gang = model.jobs.gang[gone]
    away = np.bincount(gang[gang >= 0], minlength=model.gangs.min_size.size).astype(np.int64)
    oversubscription.run_second_pass(model, rows, first, away)
