"""The tiers for one job (N2, N4, N6): free capacity, fair-share preemption, urgency preemption."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.eligibility import has_capacity, is_eligible
from fairlead_scheduler.engine.scheduling.node_victims import find_preempting_level
from fairlead_scheduler.engine.scheduling.own_surplus import find_own_surplus
from fairlead_scheduler.engine.scheduling.strict_gain import holds_no_more
from fairlead_scheduler.engine.scheduling.victim_search import NOWHERE, find_cheapest_node
from fairlead_scheduler.engine.state.capacity_tree import find_first_fit
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    FOR_SHARE,
    FOR_URGENCY,
    INSUFFICIENT,
    N_JOURNAL,
    N_MEMBER_AT,
    N_MEMBER_SHAPE,
    N_REOPENED,
    N_WORK,
    NO_REASON,
    PREEMPTION_LIMIT,
    TOLERANCE,
)
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_FAIR_SHARE,
    CAUSE_GANG,
    CAUSE_SURPLUS,
    FAIR_SHARE,
    FREE,
    URGENCY,
    add_placement,
    allocate,
    is_live,
    preempt_run,
    take_preemption_token,
)

ANY_VALUE: Final = -1
"""Instead of a label, and of its value: any node will do."""


@separate
def find_free_node(model: RoundModel, s: int, w: int) -> int:
    """Tier (a): the first position in the order of N3 with free capacity for a job of shape `s` at
    home or away entry `w`, or `NOWHERE`. Nodes that the shape prefers most come first (N1).

    Free capacity only falls during the pass, so the search continues where it last ended.
    `reopen_shapes` moves the cursor back where capacity was freed.
    """
    for k in range(model.shapes.type_bits.shape[2]):
        start = model.capacity.cursor[s, w, k]
        while True:
            p = find_first_fit(
                model.capacity.tree,
                model.capacity.tree_types,
                model.shapes.request[s],
                model.shapes.type_bits[s, w, k],
                start,
                model.counters,
            )
            if p < 0:
                model.capacity.cursor[s, w, k] = model.capacity.tree_types.size // 2
                break
            if model.shapes.type_rank[s, w, model.nodes.node_type[p]] == k:
                model.capacity.cursor[s, w, k] = p
                return p
            start = p + 1
    return NOWHERE


@separate
def find_free_node_for_job(
    model: RoundModel, j: int, s: int, w: int, label: int, value: int
) -> int:
    """Tier (a) for job `j` if it is a member of a gang or avoids nodes: `find_free_node` without
    the nodes that it avoids, and with `label` >= 0 only among the nodes with this `value` of the
    label.

    It moves no cursor, because the placement of a member can be undone.
    """
    if label >= 0:
        return find_free_node_with_label(model, j, s, w, label, value)
    for k in range(model.shapes.type_bits.shape[2]):
        start = model.capacity.cursor[s, w, k]
        while start >= 0:
            p = find_first_fit(
                model.capacity.tree,
                model.capacity.tree_types,
                model.shapes.request[s],
                model.shapes.type_bits[s, w, k],
                start,
                model.counters,
            )
            if (
                p >= 0
                and model.shapes.type_rank[s, w, model.nodes.node_type[p]] == k
                and is_eligible(model, j, s, w, p)
            ):
                return p
            start = p + 1 if p >= 0 else NOWHERE
    return NOWHERE


@separate
def find_free_node_with_label(
    model: RoundModel, j: int, s: int, w: int, label: int, value: int
) -> int:
    """`find_free_node_for_job` within a label value. It continues where the search for the previous
    member ended, if that member is of the same shape."""
    first = model.nodes.value_first[label, value]
    if model.counters[N_MEMBER_SHAPE] == s + 1:
        first = model.counters[N_MEMBER_AT]
    best = NOWHERE
    model.counters[N_WORK] += model.nodes.value_first[label, value + 1] - first
    for i in range(first, model.nodes.value_first[label, value + 1]):
        p = model.nodes.value_positions[label, i]
        if not has_capacity(model, s, p) or not is_eligible(model, j, s, w, p):
            continue
        if best < 0:
            model.counters[N_MEMBER_SHAPE] = s + 1
            model.counters[N_MEMBER_AT] = i
            best = p
        elif (
            model.shapes.type_rank[s, w, model.nodes.node_type[p]]
            < model.shapes.type_rank[s, w, model.nodes.node_type[best]]
        ):
            best = p
        if model.shapes.type_rank[s, w, model.nodes.node_type[best]] == 0:
            return best
    return best


@separate
def can_preempt_for_share(model: RoundModel, q: int, after: float) -> bool:
    """Whether any other queue than `q` has evicted runs and holds so much that R13 permits to
    preempt one of them. `after` is as of `measure_offer`."""
    model.counters[N_WORK] += model.entitlements.weight.size
    for k in range(model.entitlements.weight.size):
        if k != q and model.usage.evicted_runs[k] > 0 and not holds_no_more(model, k, after):
            return True
    return False


@inlined
def can_take_surplus(model: RoundModel, j: int, label: int) -> bool:
    """Whether surplus members of the queue of job `j` ran when the round started, and the job is
    permitted to take their capacity (G5): a member of a gang with a `uniformityLabel` is not."""
    q = model.jobs.queue[j]
    if model.gangs.groups.surplus_first[q + 1] == model.gangs.groups.surplus_first[q]:
        return False
    return label < 0 or model.gangs.label[model.jobs.gang[j]] < 0


@inlined
def can_preempt_for_urgency(model: RoundModel, level: int) -> bool:
    """Whether there are preemptible runs below this level."""
    for lv in range(level):  # noqa: SIM110 - kernels have no generators
        if model.capacity.runs_at_level[lv] > 0:
            return True
    return False


@separate
def preempt_chosen(model: RoundModel, j: int, victim_count: int) -> None:
    """Preempt the first `victim_count` chosen victims of tier (b) for job `j`, and the members of
    their gangs that are preempted with them. Each preemption takes a token (L8)."""
    for k in range(victim_count):
        victim = model.victims.chosen[k]
        preempt_run(model, victim, CAUSE_FAIR_SHARE, j)
        take_preemption_token(model)
        if model.victims.chosen_takes_gang[k]:
            g = model.jobs.gang[victim]
            for i in range(model.gangs.first[g], model.gangs.first[g + 1]):
                member = model.gangs.members[i]
                if is_live(model.runs.state[member]):
                    preempt_run(model, member, CAUSE_GANG, j)
                    take_preemption_token(model)


@inlined
def is_preemption_limited(model: RoundModel) -> bool:
    """L8: whether no token is left and the present offer has preempted nothing yet. An offer that
    has can overdraw the bucket."""
    if model.usage.tokens[model.usage.tokens.size - 1] >= 1.0 - TOLERANCE:
        return False
    for i in range(model.counters[N_JOURNAL]):
        entry = model.placements.journal[i]
        if entry < 0 and model.runs.cause[-entry - 1] != CAUSE_SURPLUS:
            return False
    return True


@separate
def place_job(model: RoundModel, j: int, after: float, label: int, value: int, top: int) -> int:
    """Place queued job `j` on the first tier that has a node for it, at home or away, up to `top`.

    Returns `NO_REASON`, or the code of the reason why it was not placed. `after` is the share /
    weight of its queue with the whole offer placed (`measure_offer`). With a `label` other than
    `ANY_VALUE` only nodes with this `value` of the label are tried.
    """
    s = model.jobs.shape[j]
    q = model.jobs.queue[j]
    code = INSUFFICIENT
    lost_work = 0.0
    model.counters[N_WORK] += 1
    bound = model.jobs.gang[j] >= 0 or (
        model.jobs.avoided.first.size > 0 and model.jobs.avoided.first[j] >= 0
    )
    for w in range(model.shapes.level.shape[1]):
        level = model.shapes.level[s, w]
        if level < 0:
            continue
        tier = FREE
        took_surplus = False
        p = (
            find_free_node_for_job(model, j, s, w, label, value)
            if bound
            else find_free_node(model, s, w)
        )
        if p < 0 and top > FREE and can_take_surplus(model, j, label):
            own = find_own_surplus(model, j, w, label, value)
            p = own.position
            if p >= 0:
                for i in range(own.victim_count):
                    preempt_run(model, model.victims.chosen[i], CAUSE_SURPLUS, j)
                took_surplus = True
        while p < 0 and tier < top:
            tier += 1
            if tier == FAIR_SHARE:
                mode = FOR_SHARE
                possible = can_preempt_for_share(model, q, after)
            else:
                mode = FOR_URGENCY
                possible = can_preempt_for_urgency(model, find_preempting_level(model, j, w))
            if not possible:
                continue
            cheapest = find_cheapest_node(model, j, w, after, mode, label, value)
            p = cheapest.position
            lost_work = cheapest.lost_work
            if p >= 0 and tier == FAIR_SHARE:
                if is_preemption_limited(model):
                    code = PREEMPTION_LIMIT
                    p = NOWHERE
                else:
                    preempt_chosen(model, j, cheapest.victim_count)
        if p >= 0:
            allocate(model, q, j, s, w, p)
            add_placement(model, j, w, p, tier)
            model.runs.urgency_loss[j] = lost_work if tier == URGENCY else 0.0
            if tier == FAIR_SHARE or took_surplus:
                reopen_shapes(model, model.counters[N_JOURNAL] - 1)
            return NO_REASON
    return code


@separate
def reopen_shapes(model: RoundModel, mark: int) -> None:
    """Reopen the shapes for which the last preemptions in the journal before `mark` freed capacity.

    Their cursors move back to the nodes of these preemptions, and queues that skip such a shape try
    it again.
    """
    size = model.capacity.tree_types.size // 2
    while mark > 0 and model.placements.journal[mark - 1] < 0:
        mark -= 1
        p = model.runs.position[-model.placements.journal[mark] - 1]
        useful = True
        for r in range(model.shapes.request.shape[1]):
            if model.capacity.tree[size + p, r] < model.shapes.least_request[r]:
                useful = False
        if not useful:
            continue
        model.counters[N_WORK] += model.shapes.request.shape[0]
        for s in range(model.shapes.request.shape[0]):
            if not has_capacity(model, s, p):
                continue
            for w in range(model.shapes.level.shape[1]):
                for k in range(model.shapes.type_bits.shape[2]):
                    model.capacity.cursor[s, w, k] = min(model.capacity.cursor[s, w, k], p)
            if model.progress.unfit_queues[s] == 0:
                continue
            model.progress.unfit_queues[s] = 0
            model.counters[N_WORK] += model.entitlements.weight.size
            for q in range(model.entitlements.weight.size):
                if model.progress.skip_code[q, s] == INSUFFICIENT:
                    model.progress.skip_code[q, s] = NO_REASON
                    if model.progress.jobs_left[q, s] > 0:
                        model.progress.open_shapes[q] += 1
                        model.counters[N_REOPENED] = 1
