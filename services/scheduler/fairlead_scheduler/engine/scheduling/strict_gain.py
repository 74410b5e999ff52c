"""Whether a gang takes more from other queues than R13 permits, with all its members placed."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.node_victims import (
    choose_victims,
    is_over_budget,
    is_protected,
    release_assumed,
)
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import N_JOURNAL, N_PREEMPTED, TO_FIT
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_FAIR_SHARE,
    CAUSE_GANG,
    CAUSE_URGENCY,
    URGENCY,
    find_preemptor,
    is_live,
    preempt_gang,
    preempt_run,
    restore_run,
)

NO_FAIR_SHARE: Final = 1e300
"""Instead of a share / weight of the queue with the whole offer: R13 permits no tier (b)."""


@separate
def fit_node(model: RoundModel, p: int) -> None:
    """R6 for one position: preempt as many of the less urgent runs below a job as needed."""
    size = model.capacity.tree_types.size // 2
    fits = True
    for r in range(model.shapes.request.shape[1]):
        if model.capacity.tree[size + p, r] < 0:
            fits = False
    if fits:
        return
    found = choose_victims(model, -1, p, model.capacity.runs_at_level.size, 0.0, TO_FIT)
    for k in range(found.victim_count):
        j = model.victims.taken[k]
        if not is_live(model.runs.state[j]):
            continue
        for_job = find_preemptor(model, p, model.runs.level[j])
        preempt_run(model, j, CAUSE_URGENCY, for_job)
        if model.victims.takes_gang[k]:
            preempt_gang(model, model.jobs.gang[j], for_job)


@separate
def is_strict_gain(model: RoundModel, mark: int, after: float) -> bool:
    """R13 for a gang whose members were placed with the journal's entries after `mark`.

    Each member was placed under R13 when its turn came, but later members have taken more from the
    same queues since, on tier (b) or on top of less urgent runs. `after` is the share / weight of
    the gang's queue with the whole offer.
    """
    end = model.counters[N_JOURNAL]
    fair = False
    for i in range(mark, end):
        fair = fair or was_preempted(model, i, CAUSE_FAIR_SHARE)
    last = model.placements.journal[end - 1] - 1
    if not fair or not is_over_budget(model, last, after):
        return True
    preempted = model.counters[N_PREEMPTED]
    for i in range(mark, end):
        j = model.placements.journal[i] - 1
        if j >= 0 and model.runs.tier[j] == URGENCY:
            fit_node(model, model.runs.position[j])
    gain = True
    for i in range(mark, end):
        if was_preempted(model, i, CAUSE_FAIR_SHARE):
            gain = gain and is_gain_by_victim(model, i, end, after)
    while model.counters[N_JOURNAL] > end:
        model.counters[N_JOURNAL] -= 1
        j = -model.placements.journal[model.counters[N_JOURNAL]] - 1
        restore_run(model, j, model.runs.state_before[j])
    model.counters[N_PREEMPTED] = preempted
    return gain


@inlined
def was_preempted(model: RoundModel, i: int, cause: int) -> bool:
    """Whether entry `i` of the journal is a run that was preempted with this cause."""
    entry = model.placements.journal[i]
    return entry < 0 and model.runs.cause[-entry - 1] == cause


@separate
def is_gain_by_victim(model: RoundModel, i: int, end: int, after: float) -> bool:
    """Whether the queue of the victim in entry `i` of the journal would hold more than the
    preemptor's queue if the victim was restored, with the members that were preempted with it. Less
    urgent victims do not count: they cannot preempt the gang."""
    j = -model.placements.journal[i] - 1
    preemptor = model.runs.preemptor[j]
    if model.runs.level[j] < min(model.runs.level[preemptor], model.jobs.level_max[preemptor]):
        return True
    q = model.jobs.queue[j]
    release_assumed(model, j, -1)
    members_end = i + 1
    while members_end < end and was_preempted(model, members_end, CAUSE_GANG):
        release_assumed(model, -model.placements.journal[members_end] - 1, -1)
        members_end += 1
    gain = not is_protected(model, q, after)
    for k in range(i, members_end):
        release_assumed(model, -model.placements.journal[k] - 1, 1)
    return gain
