"""States of runs: placing, evicting, preempting and returning them in the model.

Runs and new placements are linked per position. Each is in one of these states, which are numbers
of round_state.py; live ones (RUNNING to PLACED) hold capacity.

    QUEUED    waits                                  -> PLACED
    RUNNING   runs, was not evicted                  -> PREEMPTED
    EVICTED   runs, evicted in the model (R2)        -> RESTORED, PREEMPTED
    RESTORED  was evicted and is back (R5, R7)       -> PREEMPTED
    PLACED    new in this round                      -> DISPLACED
    PREEMPTED was displaced; preempted unless it returns
    DISPLACED was placed and displaced in the same round: stays queued
    EXCLUDED  takes no part: a run on a lost node
    FAILED    was queued and ends now (`rest: fail`, all nodes tried)
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.snapshot import Cause, Tier
from fairlead_scheduler.engine.state.capacity_tree import subtract_request
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    DISPLACED,
    EVICTED,
    FAILED,
    N_JOURNAL,
    N_PLACED,
    N_PREEMPTED,
    NON_PREEMPTIBLE,
    PLACED,
    PREEMPTED,
    QUEUED,
    RESTORED,
    RUNNING,
    cost_of,
)
from fairlead_scheduler.engine.state.value_capacity import update_value_capacity
from fairlead_scheduler.engine.state.victim_order import update_victim_order

FREE: Final = int(Tier.FREE)
FAIR_SHARE: Final = int(Tier.FAIR_SHARE)
URGENCY: Final = int(Tier.URGENCY)

CAUSE_FAIR_SHARE: Final = int(Cause.FAIR_SHARE)
CAUSE_URGENCY: Final = int(Cause.URGENCY)
CAUSE_GANG: Final = int(Cause.GANG)
CAUSE_SURPLUS: Final = int(Cause.SURPLUS)

MIXED_PRIORITIES: Final = (1 << 63) - 1
"""`EvictedRuns.priority` of a queue whose evicted runs differ in priority."""

SHARE_STEPS: Final = 1e9
"""Shares of queues are compared in steps of 1e-9 (a total order, see R4)."""

SHARE_STEPS_MAX: Final = 2.0**62
"""The greatest share that is distinguished, in steps."""

# How a gang's queued members are offered (`GangTables.mode`).
GANG_WAITS: Final = 0
GANG_RUNS: Final = 1
GANG_NOT_OFFERED: Final = 2

# Whether a group is frozen (`GangTables.frozen`, G7).
FROZEN: Final = 1
"""No surplus member starts."""
PROTECTED: Final = 2
"""Nor is any member preempted for fair share: it had surplus members when the round started."""


@inlined
def is_live(state: int) -> bool:
    """Whether a run in this state holds capacity."""
    return RUNNING <= state <= PLACED


@inlined
def to_share_steps(held: float, entitled: float) -> int:
    """Held / entitled share, in steps."""
    return int(min(held / max(entitled, 1e-9) * SHARE_STEPS, SHARE_STEPS_MAX) + 0.5)


@inlined
def update_share(model: RoundModel, q: int) -> None:
    """Compute again how far the queue is above its entitled share."""
    model.usage.share_steps[q] = to_share_steps(
        cost_of(model.usage.held[q], model.entitlements.cost_factor),
        model.entitlements.entitled_share[q],
    )


@inlined
def change_held(model: RoundModel, j: int, sign: int) -> None:
    """Add what run `j` holds to what its queue holds (sign 1), or subtract it (sign -1)."""
    q, s, level = model.jobs.queue[j], model.jobs.shape[j], model.runs.level[j]
    for r in range(model.entitlements.cost_factor.size):
        amount = sign * model.shapes.full_request[s, r]
        model.usage.held[q, r] += amount
        model.victims.shares.held[q, level, r] += amount


@separate
def update_indexes(model: RoundModel, p: int) -> None:
    """Update everything that is derived from the runs and the capacity of a position."""
    update_victim_order(model, p)
    update_value_capacity(model, p)


@inlined
def allocate(model: RoundModel, q: int, j: int, s: int, w: int, p: int) -> None:
    """Put a queued job on the node at position `p`."""
    subtract_request(model.capacity.tree, p, model.shapes.request[s], 1)
    c = model.shapes.priority_class[s]
    for r in range(model.entitlements.cost_factor.size):
        amount = model.shapes.full_request[s, r]
        model.usage.counted[q, r] += amount
        model.usage.by_class[q, c, r] += amount
        model.usage.started[r] += amount
    model.usage.tokens[0] -= 1.0
    model.usage.tokens[1 + q] -= 1.0
    n = model.counters[N_PLACED]
    model.placements.job[n] = j
    model.placements.position[n] = p
    model.placements.away[n] = w
    model.counters[N_PLACED] = n + 1


@separate
def undo_allocation(model: RoundModel, q: int, s: int, p: int) -> None:
    """Undo the last `allocate`, which was on position `p`."""
    n = model.counters[N_PLACED] - 1
    model.counters[N_PLACED] = n
    subtract_request(model.capacity.tree, p, model.shapes.request[s], -1)
    c = model.shapes.priority_class[s]
    for r in range(model.entitlements.cost_factor.size):
        amount = model.shapes.full_request[s, r]
        model.usage.counted[q, r] -= amount
        model.usage.by_class[q, c, r] -= amount
        model.usage.started[r] -= amount
    model.usage.tokens[0] += 1.0
    model.usage.tokens[1 + q] += 1.0


@separate
def add_placement(model: RoundModel, j: int, w: int, p: int, tier: int) -> None:
    """Link job `j` to position `p` as a placement at home or away entry `w`, and count it as a live
    run. `allocate` must have taken the capacity before."""
    q = model.jobs.queue[j]
    s = model.jobs.shape[j]
    model.runs.state[j] = PLACED
    model.runs.tier[j] = tier
    model.runs.level[j] = model.shapes.level[s, w]
    model.runs.preemption[j] = max(model.runs.preemption[j], model.shapes.preemption[s])
    model.runs.started[j] = model.entitlements.now_ms[0]
    model.runs.lost_work[j] = 0.0
    model.runs.position[j] = p
    model.runs.link[j] = model.runs.head[p]
    model.runs.head[p] = j
    if model.runs.preemption[j] < NON_PREEMPTIBLE:
        model.capacity.runs_at_level[model.runs.level[j]] += 1
        model.victims.order.placed[model.runs.level[j]] = 1
        for r in range(model.shapes.request.shape[1]):
            model.capacity.preemptible[p, model.runs.level[j], r] += model.shapes.request[s, r]
    change_held(model, j, 1)
    update_share(model, q)
    if model.jobs.gang[j] >= 0:
        model.gangs.live[model.jobs.gang[j]] += 1
        model.gangs.roles.live[model.jobs.role[j]] += 1
    update_indexes(model, p)
    model.placements.journal[model.counters[N_JOURNAL]] = j + 1
    model.counters[N_JOURNAL] += 1


@separate
def remove_placement(model: RoundModel, j: int) -> None:
    """Undo `add_placement`. What was added last on a position must be removed first."""
    q = model.jobs.queue[j]
    s = model.jobs.shape[j]
    p = model.runs.position[j]
    model.runs.head[p] = model.runs.link[j]
    if model.runs.preemption[j] < NON_PREEMPTIBLE:
        model.capacity.runs_at_level[model.runs.level[j]] -= 1
        for r in range(model.shapes.request.shape[1]):
            model.capacity.preemptible[p, model.runs.level[j], r] -= model.shapes.request[s, r]
    change_held(model, j, -1)
    update_share(model, q)
    if model.jobs.gang[j] >= 0:
        model.gangs.live[model.jobs.gang[j]] -= 1
        model.gangs.roles.live[model.jobs.role[j]] -= 1
    model.runs.state[j] = QUEUED
    update_indexes(model, p)


@separate
def count_run(model: RoundModel, j: int, sign: int) -> None:
    """Add a live run to capacity, usage and its gang (sign 1), or subtract it (sign -1)."""
    s = model.jobs.shape[j]
    q = model.jobs.queue[j]
    p = model.runs.position[j]
    c = model.shapes.priority_class[s]
    subtract_request(model.capacity.tree, p, model.shapes.request[s], sign)
    if model.runs.preemption[j] < NON_PREEMPTIBLE:
        model.capacity.runs_at_level[model.runs.level[j]] += sign
        for r in range(model.shapes.request.shape[1]):
            if model.runs.state[j] == EVICTED:
                model.capacity.evicted[p, model.runs.level[j], r] += (
                    sign * model.shapes.request[s, r]
                )
            else:
                model.capacity.preemptible[p, model.runs.level[j], r] += (
                    sign * model.shapes.request[s, r]
                )
    for r in range(model.entitlements.cost_factor.size):
        amount = sign * model.shapes.full_request[s, r]
        model.usage.by_class[q, c, r] += amount
        if model.runs.state[j] != EVICTED:
            model.usage.counted[q, r] += amount
    change_held(model, j, sign)
    if model.runs.state[j] == EVICTED:
        model.usage.evicted_runs[q] += sign
    update_share(model, q)
    if model.jobs.gang[j] >= 0:
        model.gangs.live[model.jobs.gang[j]] += sign
        model.gangs.roles.live[model.jobs.role[j]] += sign
    update_indexes(model, p)


@separate
def preempt_run(model: RoundModel, j: int, cause: int, for_job: int) -> None:
    """Preempt a live run for a job: free its capacity, and record the cause and the job."""
    q = model.jobs.queue[j]
    model.runs.share_before[j] = model.usage.share_steps[q] / SHARE_STEPS
    count_run(model, j, -1)
    model.runs.state_before[j] = model.runs.state[j]
    model.runs.state[j] = DISPLACED if model.runs.state[j] == PLACED else PREEMPTED
    model.runs.cause[j] = cause
    model.runs.preemptor[j] = for_job
    model.placements.journal[model.counters[N_JOURNAL]] = -j - 1
    model.counters[N_JOURNAL] += 1
    model.counters[N_PREEMPTED] += 1


@separate
def preempt_gang(model: RoundModel, g: int, for_job: int) -> None:
    """Preempt all live members of a gang for the job for which one of them was preempted (N8)."""
    for i in range(model.gangs.first[g], model.gangs.first[g + 1]):
        if is_live(model.runs.state[model.gangs.members[i]]):
            preempt_run(model, model.gangs.members[i], CAUSE_GANG, for_job)


@separate
def restore_run(model: RoundModel, j: int, state: int) -> None:
    """Undo `preempt_run`, into this state."""
    model.runs.state[j] = state
    if state == EVICTED:
        model.evicted.cheapest_next[model.jobs.queue[j]] = model.evicted.cheapest_first[
            model.jobs.queue[j]
        ]
    count_run(model, j, 1)


@separate
def return_run(model: RoundModel, j: int) -> None:
    """Return an evicted run to its own node (R5). Its request was never subtracted there.

    Millions of runs can return, so the trees of tier (b) are not updated here: the victim search
    corrects the nodes that it examines.
    """
    s = model.jobs.shape[j]
    q = model.jobs.queue[j]
    model.runs.state[j] = RESTORED
    model.usage.evicted_runs[q] -= 1
    for r in range(model.shapes.request.shape[1]):
        model.capacity.evicted[model.runs.position[j], model.runs.level[j], r] -= (
            model.shapes.request[s, r]
        )
        model.capacity.preemptible[model.runs.position[j], model.runs.level[j], r] += (
            model.shapes.request[s, r]
        )
    for r in range(model.entitlements.cost_factor.size):
        model.usage.counted[q, r] += model.shapes.full_request[s, r]


@separate
def can_return(model: RoundModel, j: int) -> bool:
    """R5: whether an evicted run fits on its node when less urgent runs do not count.

    A node that accepts no new jobs has no placements, so a run can always return there.
    """
    p = model.runs.position[j]
    size = model.capacity.tree_types.size // 2
    if model.capacity.tree_types[size + p] == 0:
        return True
    s = model.jobs.shape[j]
    for r in range(model.shapes.request.shape[1]):
        free = model.capacity.tree[size + p, r]
        for lv in range(model.capacity.runs_at_level.size):
            free += model.capacity.evicted[p, lv, r]
            if lv < model.runs.level[j]:
                free += model.capacity.preemptible[p, lv, r]
        if model.shapes.request[s, r] > free:
            return False
    return True


def return_evicted_runs(model: RoundModel) -> None:
    """Return all runs that are still evicted, when a round ends early (L6).

    R6 decides which of them no longer fit. The order of the victim search is not updated: nothing
    is searched after this.
    """
    if not model.runs.active:
        return
    model.runs.state[model.runs.state == EVICTED] = RESTORED
    model.usage.evicted_runs[:] = 0
    model.usage.counted[:] = model.usage.held
    model.capacity.preemptible[:] += model.capacity.evicted
    model.capacity.evicted[:] = 0


@separate
def find_preemptor(model: RoundModel, p: int, level: int) -> int:
    """The job placed last on top of less urgent ones at `p`, more urgent than `level`, or -1."""
    j = model.runs.head[p]
    found = -1
    while j >= 0:
        if model.runs.state[j] == PLACED and model.runs.tier[j] == URGENCY:
            if model.runs.level[j] > level:
                return j
            found = int(j)
        j = model.runs.link[j]
    return found


@inlined
def take_preemption_token(model: RoundModel) -> None:
    """Take one token of L8."""
    model.usage.tokens[model.usage.tokens.size - 1] -= 1.0


@inlined
def return_preemption_token(model: RoundModel) -> None:
    """Undo `take_preemption_token`."""
    model.usage.tokens[model.usage.tokens.size - 1] += 1.0


@inlined
def breaks_gang(model: RoundModel, j: int) -> bool:
    """N8, G6: whether the gang of a live run would be too small without it."""
    role = model.jobs.role[j]
    return role >= 0 and model.gangs.roles.live[role] <= least_members(model, j)


@inlined
def least_members(model: RoundModel, j: int) -> int:
    """N8: with how many live members of its role a gang cannot lose member `j` and continue.

    A gang that ran with fewer members than its minimum continues if it loses what joined it in this
    round.
    """
    role = model.jobs.role[j]
    if model.runs.state[j] == PLACED:
        return model.gangs.roles.need[role]
    return model.gangs.roles.minimum[role]


@inlined
def is_started(model: RoundModel, g: int) -> bool:
    """Whether further members can join the gang: it runs, or its minimum is 0."""
    return model.gangs.live[g] > 0 or model.gangs.min_size[g] == 0


@inlined
def fail_job(model: RoundModel, j: int) -> None:
    """End a queued job as failed."""
    model.runs.state[j] = FAILED


@inlined
def undo_restore(model: RoundModel, j: int) -> None:
    """Undo `restore_run` of a preempted run."""
    count_run(model, j, -1)
    model.runs.state[j] = PREEMPTED
