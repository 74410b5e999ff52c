"""What could be stopped, and for whom: the part of the model that preemption and gangs need.

Runs and new placements are *pieces* on a position, linked per position. A piece is in one of these
states; `LIVE` ones hold room.

    QUEUED    waits                                  -> PLACED
    RUNNING   runs, was not evicted                  -> PREEMPTED
    EVICTED   runs, off its node in thought (R2)     -> RETURNED, PREEMPTED
    RETURNED  was evicted and is back (R5, R7)       -> PREEMPTED
    PLACED    new in this round                      -> DISPLACED
    PREEMPTED gave way; preempted unless it returns
    DISPLACED was new, gave way in the same round: waits on
    EXCLUDED  takes no part: runs on lost nodes
    FAILED    waited and ends now (`rest: fail`, all nodes tried)
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import inlined, internal
from fairlead_scheduler.engine.snapshot import Cause, Tier
from fairlead_scheduler.engine.state.capacity_tree import subtract_request
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import N_FREED, N_JOURNAL

QUEUED: Final = 0
RUNNING: Final = 1
EVICTED: Final = 2
RETURNED: Final = 3
PLACED: Final = 4
PREEMPTED: Final = 5
DISPLACED: Final = 6
EXCLUDED: Final = 7
FAILED: Final = 8

FREE: Final = int(Tier.FREE)
FAIR_SHARE: Final = int(Tier.FAIR_SHARE)
URGENCY: Final = int(Tier.URGENCY)

CAUSE_FAIR_SHARE: Final = int(Cause.FAIR_SHARE)
CAUSE_URGENCY: Final = int(Cause.URGENCY)
CAUSE_GANG: Final = int(Cause.GANG)

NON_PREEMPTIBLE: Final = 2
"""`Preemption.NONE` as a number of the kernels."""

MIXED_PRIORITIES: Final = (1 << 63) - 1
"""`one_priority` of queues whose evicted runs differ in priority."""

SHARE_STEPS: Final = 1e9
"""How far above its share a queue is, is compared in steps of 1e-9 (a total order, see R4)."""

SHARE_STEPS_MAX: Final = 2.0**62
"""No queue is further above its share than so many steps."""

# What a gang's queued members are offered as (`Runs.gang_mode`).
GANG_WAITS: Final = 0
GANG_RUNS: Final = 1
SINGLES: Final = 2
GANG_NOT_OFFERED: Final = 3


@inlined
def is_live(state: int) -> bool:
    """Whether a piece in this state holds room."""
    return RUNNING <= state <= PLACED


@inlined
def to_share_steps(held: float, entitled: float) -> int:
    """How far what is held is above what its queue is entitled to."""
    return int(min(held / max(entitled, 1e-9) * SHARE_STEPS, SHARE_STEPS_MAX) + 0.5)


@inlined
def update_share(model: RoundModel, q: int) -> None:
    """Recompute how far the queue is above what it is entitled to."""
    above = 0.0
    for r in range(model.entitlements.cost_factor.size):
        above = max(
            above,
            (model.usage.held[q, r] - model.victims.assumed_held[q, r])
            * model.entitlements.cost_factor[r],
        )
    model.usage.share_steps[q] = to_share_steps(above, model.entitlements.entitled_share[q])


@inlined
def record_change(model: RoundModel, p: int) -> None:
    """The position may give room more cheaply than it did."""
    if model.victim_index.changed.size > 0:
        model.victim_index.changed[model.counters[N_FREED] % model.victim_index.changed.size] = p
        model.counters[N_FREED] += 1


@internal
def add_placement(model: RoundModel, j: int, w: int, p: int, tier: int) -> None:
    """A queued job becomes a piece on position `p` (round_state.py's `place` does the rest)."""
    q = int(model.jobs.queue[j])
    s = int(model.jobs.shape[j])
    model.runs.state[j] = PLACED
    model.runs.tier[j] = tier
    model.runs.level[j] = model.shapes.level[s, w]
    if model.jobs.gang[j] < 0:
        model.runs.preemption[j] = model.shapes.preemption[s]
    model.runs.started[j] = model.entitlements.now_ms
    model.runs.lost_work[j] = 0.0
    model.runs.position[j] = p
    model.runs.link[j] = model.runs.head[p]
    model.runs.head[p] = j
    if model.runs.preemption[j] < NON_PREEMPTIBLE:
        model.capacity.runs_at_level[model.runs.level[j]] += 1
        for r in range(model.shapes.request.shape[1]):
            model.capacity.preemptible[p, model.runs.level[j], r] += model.shapes.request[s, r]
    for r in range(model.entitlements.cost_factor.size):
        model.usage.held[q, r] += model.shapes.full_request[s, r]
    update_share(model, q)
    if model.jobs.gang[j] >= 0:
        model.gangs.live[model.jobs.gang[j]] += 1
    model.journal[model.counters[N_JOURNAL]] = j + 1
    model.counters[N_JOURNAL] += 1


@internal
def remove_placement(model: RoundModel, j: int) -> None:
    """Undo `put`. What was put last on a position must be undone first."""
    q = int(model.jobs.queue[j])
    s = int(model.jobs.shape[j])
    p = model.runs.position[j]
    model.runs.head[p] = model.runs.link[j]
    if model.runs.preemption[j] < NON_PREEMPTIBLE:
        model.capacity.runs_at_level[model.runs.level[j]] -= 1
        for r in range(model.shapes.request.shape[1]):
            model.capacity.preemptible[p, model.runs.level[j], r] -= model.shapes.request[s, r]
    for r in range(model.entitlements.cost_factor.size):
        model.usage.held[q, r] -= model.shapes.full_request[s, r]
    update_share(model, q)
    if model.jobs.gang[j] >= 0:
        model.gangs.live[model.jobs.gang[j]] -= 1
    model.runs.state[j] = QUEUED
    record_change(model, p)


@internal
def count_run(model: RoundModel, j: int, sign: int) -> None:
    """Take a live piece off its position (sign -1) or put it back into its state (sign 1)."""
    s = int(model.jobs.shape[j])
    q = int(model.jobs.queue[j])
    p = model.runs.position[j]
    c = model.shapes.priority_class[s]
    subtract_request(model.capacity.tree, p, model.shapes.request[s], sign)
    record_change(model, p)
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
        model.usage.held[q, r] += amount
        model.usage.by_class[q, c, r] += amount
        if model.runs.state[j] != EVICTED:
            model.usage.counted[q, r] += amount
    if model.runs.state[j] == EVICTED:
        model.usage.evicted_runs[q] += sign
    update_share(model, q)
    if model.jobs.gang[j] >= 0:
        model.gangs.live[model.jobs.gang[j]] += sign


@internal
def preempt_run(model: RoundModel, j: int, cause: int, for_job: int) -> None:
    """A live piece gives way: its room is free, and it is written down for whom."""
    q = int(model.jobs.queue[j])
    model.runs.share_before[j] = model.usage.share_steps[q] / SHARE_STEPS
    count_run(model, j, -1)
    model.runs.state_before[j] = model.runs.state[j]
    model.runs.state[j] = DISPLACED if model.runs.state[j] == PLACED else PREEMPTED
    model.runs.cause[j] = cause
    model.runs.preemptor[j] = for_job
    model.journal[model.counters[N_JOURNAL]] = -j - 1
    model.counters[N_JOURNAL] += 1


@internal
def restore_run(model: RoundModel, j: int, state: int) -> None:
    """Undo `give_way`, into this state."""
    model.runs.state[j] = state
    if state == EVICTED:
        model.evicted.cheapest_next[model.jobs.queue[j]] = model.evicted.cheapest_first[
            model.jobs.queue[j]
        ]
    count_run(model, j, 1)


@internal
def return_run(model: RoundModel, j: int) -> None:
    """An evicted run is back on its own node (R5): it was counted there all along."""
    s = int(model.jobs.shape[j])
    q = int(model.jobs.queue[j])
    model.runs.state[j] = RETURNED
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


@internal
def can_return(model: RoundModel, j: int) -> bool:
    """R5: whether an evicted run finds room on its node when what is less urgent does not count.

    Nodes that get nothing new have lost nothing either, so runs always return there.
    """
    p = model.runs.position[j]
    size = model.capacity.tree_types.size // 2
    if model.capacity.tree_types[size + p] == 0:
        return True
    s = int(model.jobs.shape[j])
    for r in range(model.shapes.request.shape[1]):
        room = model.capacity.tree[size + p, r]
        for lv in range(model.capacity.runs_at_level.size):
            room += model.capacity.evicted[p, lv, r]
            if lv < model.runs.level[j]:
                room += model.capacity.preemptible[p, lv, r]
        if model.shapes.request[s, r] > room:
            return False
    return True


@internal
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
