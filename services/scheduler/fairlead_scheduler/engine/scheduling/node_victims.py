"""Chooses the victims on one node and rates them (N2b, N4, R6, R9, R13, G5)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.strict_gain import (
    holds_no_more,
    is_gain_with_victim,
    is_over_budget,
)
from fairlead_scheduler.engine.snapshot import Preemption
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    EVICTED,
    FOR_OWN_SURPLUS,
    FOR_SHARE,
    FOR_URGENCY,
    N_WORK,
    NON_PREEMPTIBLE,
    TO_FIT,
)
from fairlead_scheduler.engine.state.run_states import (
    PROTECTED,
    change_held,
    is_live,
    least_members,
    update_share,
)
from fairlead_scheduler.engine.state.surplus import (
    MEMBER_VICTIM,
    SURPLUS_VICTIM,
    is_surplus,
    victim_kind,
)

ANY_CLASS: Final = int(Preemption.ANY)
NO_RUN: Final = -1

NOT_PERMITTED: Final = -1
"""Instead of the number of victims: no set of victims is permitted."""

# What is assumed of a run (`VictimChoice.mark`).
UNTOUCHED: Final = 0
CHOSEN: Final = 1
"""It is a victim."""
MATE: Final = 2
"""It goes with a victim of its gang."""


class NodeVictims(NamedTuple):
    """The victims on a node, and what N4 compares of them."""

    victim_count: int
    """`NOT_PERMITTED`, or the number of victims: `victims.taken` up to that number, with
    `takes_gang` for a victim with which all members of its gang are preempted"""
    level: int
    """the greatest level of any victim"""
    kind: int
    """the costliest kind of any victim (`surplus.victim_kind`); a victim that takes its whole gang
    along counts as a member that the gang needs"""
    share_steps: int
    """tier (b): held / entitled share of the first victim's queue, in steps of 1e-9"""
    lost_work: float
    """in steps of `eviction.LOST_STEPS`"""
    runs: int
    """the number of runs that would stop, members of the victims' gangs included"""
    first: int
    """the first victim, or `NO_RUN`"""


class Taken(NamedTuple):
    """The result of `take_until_fit`: how many candidates it examined, and the number of
    victims."""

    examined: int
    victim_count: int


@inlined
def is_earlier_victim(model: RoundModel, a: int, b: int) -> bool:
    """Whether run `a` comes before run `b` in the order of N2b."""
    if model.runs.level[a] != model.runs.level[b]:
        return model.runs.level[a] < model.runs.level[b]
    if model.usage.share_steps[model.jobs.queue[a]] != model.usage.share_steps[model.jobs.queue[b]]:
        return (
            model.usage.share_steps[model.jobs.queue[a]]
            > model.usage.share_steps[model.jobs.queue[b]]
        )
    if model.jobs.priority[a] != model.jobs.priority[b]:
        return model.jobs.priority[a] < model.jobs.priority[b]
    if model.runs.lost_work[a] != model.runs.lost_work[b]:
        return model.runs.lost_work[a] < model.runs.lost_work[b]
    if model.runs.started[a] != model.runs.started[b]:
        return model.runs.started[a] > model.runs.started[b]
    return model.jobs.submission[a] > model.jobs.submission[b]


@inlined
def find_preempting_level(model: RoundModel, j: int, w: int) -> int:
    """The level at which queued job `j` preempts: its own, but for a member of a gang at most the
    lowest level of its members, of a group the lowest of those that it needs. Otherwise a job that
    preempts the lowest of these members and a run that the highest of them preempts could displace
    each other for ever (N8, G6)."""
    level = model.shapes.level[model.jobs.shape[j], w]
    return level if model.jobs.level_max.size == 0 else min(level, model.jobs.level_max[j])


@inlined
def is_candidate(model: RoundModel, j: int, preemptor: int, level: int, mode: int) -> bool:
    """Whether run `j` can be a victim of the job `preemptor`, which preempts at `level`."""
    if model.runs.preemption[j] >= NON_PREEMPTIBLE or not is_live(model.runs.state[j]):
        return False
    if mode == TO_FIT:
        return True
    if model.jobs.gang[j] >= 0 and model.jobs.gang[j] == model.jobs.gang[preemptor]:
        return False
    if mode == FOR_SHARE:
        if model.jobs.gang[j] >= 0 and model.gangs.groups.frozen[model.jobs.gang[j]] == PROTECTED:
            return False
        return (
            model.runs.state[j] == EVICTED
            and model.runs.level[j] <= level
            and model.jobs.queue[j] != model.jobs.queue[preemptor]
        )
    if mode == FOR_OWN_SURPLUS:
        return (
            model.jobs.queue[j] == model.jobs.queue[preemptor]
            and is_surplus(model, j)
            and model.runs.preemption[j] == ANY_CLASS
            and model.gangs.groups.frozen[model.jobs.gang[j]] == 0
            and model.runs.level[j] <= level
        )
    return model.runs.level[j] < level


@inlined
def is_enough(model: RoundModel) -> bool:
    """Whether nothing is lacking on the node."""
    for r in range(model.victims.need.size):  # noqa: SIM110 - kernels have no generators
        if model.victims.need[r] > 0:
            return False
    return True


@separate
def assume_run(model: RoundModel, j: int, p: int, sign: int) -> None:
    """Assume that run `j` is preempted (sign 1), or undo that (sign -1). Only a run on position `p`
    frees capacity there."""
    s = model.jobs.shape[j]
    if model.runs.position[j] == p:
        for r in range(model.victims.need.size):
            model.victims.need[r] -= sign * model.shapes.request[s, r]
    change_held(model, j, -sign)
    if model.jobs.gang[j] >= 0:
        model.gangs.roles.assumed[model.jobs.role[j]] += sign


@separate
def assume_preempted(model: RoundModel, j: int, p: int, whole_gang: int) -> None:
    """Assume that victim `j` is preempted, with `whole_gang` together with all live members of its
    gang."""
    model.victims.mark[j] = CHOSEN
    assume_run(model, j, p, 1)
    if whole_gang:
        g = model.jobs.gang[j]
        for i in range(model.gangs.first[g], model.gangs.first[g + 1]):
            k = model.gangs.members[i]
            if model.victims.mark[k] == UNTOUCHED and is_live(model.runs.state[k]):
                model.victims.mark[k] = MATE
                assume_run(model, k, p, 1)
    update_share(model, model.jobs.queue[j])


@separate
def undo_assumption(model: RoundModel, j: int, p: int, whole_gang: int) -> None:
    """Undo `assume_preempted`."""
    model.victims.mark[j] = UNTOUCHED
    assume_run(model, j, p, -1)
    if whole_gang:
        g = model.jobs.gang[j]
        for i in range(model.gangs.first[g], model.gangs.first[g + 1]):
            k = model.gangs.members[i]
            if model.victims.mark[k] == MATE:
                model.victims.mark[k] = UNTOUCHED
                assume_run(model, k, p, -1)
    update_share(model, model.jobs.queue[j])


@separate
def choose_victims(
    model: RoundModel, preemptor: int, p: int, level: int, after: float, mode: int
) -> NodeVictims:
    """Choose the victims on position `p` for the job `preemptor` (with `TO_FIT`: -1).

    On tier (c) earlier placements can be on top of less urgent runs there. The victims that these
    placements need are chosen first and are not part of the result. `after` is the share / weight
    of the preemptor's queue with its whole offer placed (R13).
    """
    size = model.capacity.tree_types.size // 2
    n = 0
    j = model.runs.head[p]
    while j >= 0:
        if is_candidate(model, j, preemptor, level, mode):
            model.victims.candidates[n] = j
            n += 1
        j = model.runs.link[j]
    model.counters[N_WORK] += 1 + n
    for r in range(model.victims.need.size):
        model.victims.need[r] = -model.capacity.tree[size + p, r]
    covered = 0
    if mode == FOR_URGENCY:
        taken = take_until_fit(model, n, 0, p, after, mode)
        n -= taken.examined
        covered = taken.victim_count
        if is_enough(model):
            spare_unneeded(model, p, 0, covered)
            spared = return_spared(model, n, covered)
            n += spared
            covered -= spared
    if mode != TO_FIT:
        for r in range(model.victims.need.size):
            model.victims.need[r] += model.shapes.request[model.jobs.shape[preemptor], r]
    victim_count = take_until_fit(model, n, covered, p, after, mode).victim_count
    found = is_enough(model)
    if found:
        spare_unneeded(model, p, covered, victim_count)
        if mode == FOR_SHARE and is_over_budget(model, model.jobs.queue[preemptor], after):
            found = is_gain_by_each(model, p, victim_count, level)
    rated = rate_victims(model, covered, victim_count)
    retained = 0
    for k in range(victim_count):
        if model.victims.taken[k] < 0:
            continue
        undo_assumption(model, model.victims.taken[k], p, model.victims.takes_gang[k])
        if k >= covered:
            model.victims.taken[retained] = model.victims.taken[k]
            model.victims.takes_gang[retained] = model.victims.takes_gang[k]
            retained += 1
    share_steps = 0
    if mode == FOR_SHARE and rated.first >= 0:
        share_steps = model.usage.share_steps[model.jobs.queue[rated.first]]
    return NodeVictims(
        retained if found else NOT_PERMITTED,
        rated.level,
        rated.kind,
        share_steps,
        rated.lost_work,
        rated.runs,
        rated.first,
    )


@separate
def take_until_fit(
    model: RoundModel, n: int, victim_count: int, p: int, after: float, mode: int
) -> Taken:
    """Add some of the first `n` candidates to the first `victim_count` victims, one by one in the
    order of N2b (for own surplus, of G10), until the job fits."""
    roles = model.gangs.roles
    examined = 0
    while n > 0 and not is_enough(model):
        first = 0
        for i in range(1, n):
            a, b = model.victims.candidates[i], model.victims.candidates[first]
            sooner = is_earlier_victim(model, a, b)
            if mode == FOR_OWN_SURPLUS and model.runs.level[a] == model.runs.level[b]:
                time_a = model.gangs.groups.weighted_time[model.jobs.gang[a]]
                time_b = model.gangs.groups.weighted_time[model.jobs.gang[b]]
                sooner = time_a > time_b or (time_a == time_b and sooner)
            if sooner:
                first = i
        j = model.victims.candidates[first]
        n -= 1
        examined += 1
        model.victims.candidates[first] = model.victims.candidates[n]
        if model.victims.mark[j] != UNTOUCHED:
            continue
        q = model.jobs.queue[j]
        if mode == FOR_SHARE and holds_no_more(model, q, after):
            continue
        role = model.jobs.role[j]
        whole = 0
        if role >= 0 and roles.live[role] - roles.assumed[role] <= least_members(model, j):
            whole = 1
        if whole and mode == FOR_OWN_SURPLUS:
            continue
        model.victims.taken[victim_count] = j
        model.victims.takes_gang[victim_count] = whole
        victim_count += 1
        assume_preempted(model, j, p, whole)
    return Taken(examined, victim_count)


@separate
def spare_unneeded(model: RoundModel, p: int, covered: int, n: int) -> None:
    """N2b: restore each of the first `n` victims, except the first `covered`, without which the job
    fits, in the order taken.

    If several members of a gang were taken one after another, they are not restored: the members
    that go with the last of them depend on the others.
    """
    for k in range(covered, n):
        j = model.victims.taken[k]
        alone = True
        if model.jobs.gang[j] >= 0:
            for i in range(n):
                if (
                    i != k
                    and model.victims.taken[i] >= 0
                    and model.jobs.gang[model.victims.taken[i]] == model.jobs.gang[j]
                ):
                    alone = False
        if not alone:
            continue
        undo_assumption(model, j, p, model.victims.takes_gang[k])
        if is_enough(model):
            model.victims.taken[k] = -1 - j
        else:
            assume_preempted(model, j, p, model.victims.takes_gang[k])


@separate
def is_gain_by_each(model: RoundModel, p: int, victim_count: int, level: int) -> bool:
    """R13 for an offer over budget: `is_gain_with_victim` for each victim, with the others gone."""
    gain = True
    for k in range(victim_count):
        j = model.victims.taken[k]
        if j < 0:  # it was spared
            continue
        undo_assumption(model, j, p, model.victims.takes_gang[k])
        gain = gain and is_gain_with_victim(model, j, level)
        assume_preempted(model, j, p, model.victims.takes_gang[k])
    return gain


@separate
def return_spared(model: RoundModel, n: int, victim_count: int) -> int:
    """Put the victims that were spared back behind the first `n` candidates; returns their
    number."""
    spared = 0
    retained = 0
    for k in range(victim_count):
        if model.victims.taken[k] < 0:
            model.victims.candidates[n + spared] = -1 - model.victims.taken[k]
            spared += 1
            continue
        model.victims.taken[retained] = model.victims.taken[k]
        model.victims.takes_gang[retained] = model.victims.takes_gang[k]
        retained += 1
    return spared


@separate
def rate_victims(model: RoundModel, covered: int, n: int) -> NodeVictims:
    """Rate the victims from place `covered` up to `n`. The caller sets `victim_count` and
    `share_steps`."""
    first = NO_RUN
    level = -1
    kind = SURPLUS_VICTIM
    lost_work = 0.0
    runs = 0
    for k in range(covered, n):
        j = model.victims.taken[k]
        if j < 0:
            continue
        if first < 0:
            first = j
        level = max(level, model.runs.level[j])
        lost_work += model.runs.lost_work[j]
        runs += 1
        kind = max(kind, victim_kind(model, j))
        if model.victims.takes_gang[k]:
            kind = MEMBER_VICTIM
            g = model.jobs.gang[j]
            for i in range(model.gangs.first[g], model.gangs.first[g + 1]):
                member = model.gangs.members[i]
                if model.victims.mark[member] == MATE:
                    level = max(level, model.runs.level[member])
                    lost_work += model.runs.lost_work[member]
                    runs += 1
    return NodeVictims(NOT_PERMITTED, level, kind, 0, lost_work, runs, first)


@separate
def has_cheaper_victims(model: RoundModel, a: NodeVictims, b: NodeVictims) -> bool:
    """Whether victims `a` are cheaper than victims `b`, by all criteria of N4 but the node
    number."""
    if a.level != b.level:
        return a.level < b.level
    if a.kind != b.kind:
        return a.kind < b.kind
    if a.kind == SURPLUS_VICTIM and a.first >= 0 and b.first >= 0:
        priority_a, priority_b = model.jobs.priority[a.first], model.jobs.priority[b.first]
        if priority_a != priority_b:
            return priority_a < priority_b
    if a.share_steps != b.share_steps:
        return a.share_steps > b.share_steps
    if a.lost_work != b.lost_work:
        return a.lost_work < b.lost_work
    if a.runs != b.runs:
        return a.runs < b.runs
    if a.first < 0 or b.first < 0 or a.first == b.first:
        return False
    if model.runs.started[a.first] != model.runs.started[b.first]:
        return model.runs.started[a.first] > model.runs.started[b.first]
    return model.jobs.submission[a.first] > model.jobs.submission[b.first]
