"""R13: a run is preempted for fair share only for a strict gain."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    N_JOURNAL,
    TOLERANCE,
    cost_of,
    cost_with,
)
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_FAIR_SHARE,
    CAUSE_GANG,
    change_held,
)

NO_FAIR_SHARE: Final = 1e300
"""Instead of a share / weight of the queue with the whole offer: R13 permits no tier (b)."""


@inlined
def measure_offer(model: RoundModel, q: int, more: Int64) -> float:
    """The share / weight of queue `q` with its whole offer, which requests `more` ([R+F]). For an
    offer over budget it also writes `LevelShares.with_offer`."""
    held = model.usage.held[q]
    after = cost_with(held, more, model.entitlements.cost_factor) / model.entitlements.weight[q]
    if is_over_budget(model, q, after):
        shares = model.victims.shares
        for level in range(shares.with_offer.size):
            shares.with_offer[level] = 0.0
        for r in range(model.entitlements.cost_factor.size):
            factor = model.entitlements.cost_factor[r] / model.entitlements.weight[q]
            amount = more[r]
            for level in range(shares.with_offer.size - 1, -1, -1):
                amount += shares.held[q, level, r]
                shares.with_offer[level] = max(shares.with_offer[level], amount * factor)
    return after


@inlined
def is_over_budget(model: RoundModel, q: int, after: float) -> bool:
    """Whether queue `q` exceeds its budget (R4) at this share / weight."""
    return after > model.entitlements.budget[q] + TOLERANCE


@inlined
def holds_no_more(model: RoundModel, q: int, after: float) -> bool:
    """Whether queue `q`, without the assumed victims, holds no more per weight than the preemptor's
    queue would with its whole offer (`after`, of `measure_offer`)."""
    held = cost_of(model.usage.held[q], model.entitlements.cost_factor)
    return after >= held / model.entitlements.weight[q] - TOLERANCE


@separate
def is_gain_with_victim(model: RoundModel, j: int, level: int) -> bool:
    """For an offer over budget that preempts at `level`, with victim `j` counted as held: whether
    the queue of the victim holds more per weight than the preemptor's queue would with its whole
    offer, of what runs at this level or above. A less urgent victim cannot preempt the offer, so it
    is not compared."""
    if model.runs.level[j] < level:
        return True
    q = model.jobs.queue[j]
    shares = model.victims.shares
    held = 0.0
    for r in range(model.entitlements.cost_factor.size):
        amount = 0
        for above in range(level, shares.with_offer.size):
            amount += shares.held[q, above, r]
        held = max(held, amount * model.entitlements.cost_factor[r])
    return shares.with_offer[level] < held / model.entitlements.weight[q] - TOLERANCE


@separate
def is_gain_of_gang(model: RoundModel, g: int, mark: int, after: float) -> bool:
    """Whether R13 permits what gang `g` preempted, whose members were placed with the journal's
    entries after `mark`. `after` is as of `measure_offer`.

    Each member was placed under R13 when its turn came, but later members have taken more from the
    same queues since.
    """
    q = model.jobs.queue[model.gangs.members[model.gangs.first[g]]]
    if not is_over_budget(model, q, after):
        return True
    end = model.counters[N_JOURNAL]
    for i in range(mark, end):
        if was_preempted(model, i, CAUSE_FAIR_SHARE) and not is_gain_if_restored(model, i, end):
            return False
    return True


@inlined
def was_preempted(model: RoundModel, i: int, cause: int) -> bool:
    """Whether entry `i` of the journal is a run that was preempted with this cause."""
    entry = model.placements.journal[i]
    return entry < 0 and model.runs.cause[-entry - 1] == cause


@separate
def is_gain_if_restored(model: RoundModel, i: int, end: int) -> bool:
    """`is_gain_with_victim` for the victim in entry `i` of the journal, with the members that were
    preempted with it."""
    j = -model.placements.journal[i] - 1
    preemptor = model.runs.preemptor[j]
    level = min(model.runs.level[preemptor], model.jobs.level_max[preemptor])
    change_held(model, j, 1)
    members_end = i + 1
    while members_end < end and was_preempted(model, members_end, CAUSE_GANG):
        change_held(model, -model.placements.journal[members_end] - 1, 1)
        members_end += 1
    gain = is_gain_with_victim(model, j, level)
    for k in range(i, members_end):
        change_held(model, -model.placements.journal[k] - 1, -1)
    return gain
