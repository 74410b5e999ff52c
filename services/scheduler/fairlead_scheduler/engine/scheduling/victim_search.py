"""Victim search (N4): the node with the cheapest victims, on tier (b) or (c).

`find_cheapest_node` returns a `CheapestNode`. It preempts nothing: `placement.place_job` does.

In a pool of up to `SCANNED_NODES_MAX` nodes every node is examined for every job. In a larger pool
each kind of preemptor has a *slot* of the victim index: the rating of the victims on each node, and
a tournament over the ratings. A rating can have become too good, so the winner is rated again and
must win again; nodes on which a run was preempted or restored can have become better, and every
slot rates them again. Decision 0012 says where this can differ from examining every node.

Reads, of the `RoundModel`:

- `shapes`: what the job requests, its level, the node types on which it can run; `nodes`: types,
  numbers, positions by label value; `avoided`: the nodes that the job avoids;
- `jobs`: shape, queue, gang, priority and submission number of the job and of runs;
- `runs`: the runs of each position, their state, level, preemption mode, lost work and start;
- `capacity`: what is free on each position, and what runs hold there by level, evicted or not;
- `gangs`: members, how many are live and how many must be;
- `usage`: what queues hold, how far they are above their share, their evicted runs; `entitlements`:
  weights, entitled shares and cost factors (R13, N2b);
- `evicted`: each queue's cheapest single victims, and where its runs are of one priority.

Writes:

- `victims.chosen` and `chosen_takes_gang`: the victims on the node that is found;
- `victims.rating`: N4 of the node at hand and of the best so far; `placement.place_job` reads the
  lost work of the best;
- scratch values of `victims` (candidates, marks, assumptions), which are as before afterwards, and
  with them `usage.share_steps` of queues that are assumed to lose runs, which is set back as well;
- `evicted.cheapest_next`, past runs that are no longer evicted;
- `victim_index`, and `counters[N_TURN]`, the number of searches in it.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import expanded, inlined, internal
from fairlead_scheduler.engine.scheduling.eligibility import is_eligible
from fairlead_scheduler.engine.scheduling.node_victims import (
    BEST,
    CURRENT,
    FIRST_VICTIM,
    FOR_SHARE,
    FOR_URGENCY,
    KEYS,
    NOT_PERMITTED,
    assumed_cost,
    choose_victims,
    compare_ids,
    compare_with_best,
)
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    N_FREED,
    N_TURN,
    TOLERANCE,
)
from fairlead_scheduler.engine.state.run_states import EVICTED, MIXED_PRIORITIES

SINGLE_VICTIMS_MAX: Final = 64
"""How many runs are examined before all nodes are."""
SCANNED_NODES_MAX: Final = 64
"""In pools of up to this many nodes all are examined each time."""
SLOTS: Final = 16
"""How many kinds of preemptors are kept; the least recently used is replaced."""

NOWHERE: Final = -1
ANY_QUEUE: Final = -1
"""In place of the queue, for preemptors whose queue has no evicted run."""


class CheapestNode(NamedTuple):
    """What N4 finds."""

    position: int
    """`NOWHERE` when no node has a permitted set of victims"""
    victims: int
    """how many: they are `victims.chosen` up to this number, with `chosen_takes_gang`"""


@internal
def find_sufficient_level(model: RoundModel, s: int, p: int, level: int, mode: int) -> int:
    """The lowest level up to which runs must be preempted for the request to fit, or -1."""
    size = model.capacity.tree_types.size // 2
    top = level + 1 if mode == FOR_SHARE else level
    for r in range(model.victims.need.size):
        model.victims.need[r] = model.shapes.request[s, r] - model.capacity.tree[size + p, r]
    for lv in range(top):
        enough = True
        for r in range(model.victims.need.size):
            model.victims.need[r] -= model.capacity.evicted[p, lv, r]
            if mode == FOR_URGENCY:
                model.victims.need[r] -= model.capacity.preemptible[p, lv, r]
            if model.victims.need[r] > 0:
                enough = False
        if enough:
            return lv
    return NOWHERE


@expanded
def find_cheapest_node(
    model: RoundModel,
    j: int,
    w: int,
    after: float,
    mode: int,
    label: int,
    value: int,
) -> CheapestNode:
    """N4: the node with the cheapest victims on tier (b) or (c). See `CheapestNode`."""
    s = int(model.jobs.shape[j])
    level = model.shapes.level[s, w]
    best = NOWHERE
    chosen = 0
    if mode == FOR_SHARE and label < 0:
        best = find_single_victim(model, j, w, after)
        if best >= 0:
            return CheapestNode(best, 1)
    avoids = model.avoided.first.size > 0 and model.avoided.first[j] >= 0
    if label < 0 and not avoids and model.victim_index.rating.shape[0] > 0:
        return find_cheapest_in_index(model, j, w, after, mode)
    first = 0
    last = model.nodes.node_type.size
    if label >= 0:
        first = model.nodes.value_first[label, value]
        last = model.nodes.value_first[label, value + 1]
    for i in range(first, last):
        p = i if label < 0 else model.nodes.value_positions[label, i]
        if not is_eligible(model, j, s, w, p):
            continue
        least = find_sufficient_level(model, s, p, level, mode)
        if least < 0:
            continue
        if best >= 0 and least > model.victims.rating[BEST, 0] and not is_oversubscribed(model, p):
            continue
        victims = choose_victims(model, j, p, level, after, mode)
        if victims == NOT_PERMITTED:
            continue
        if best >= 0:
            order = compare_with_best(model)
            if order > 0 or (order == 0 and model.nodes.number[p] > model.nodes.number[best]):
                continue
        best = p
        chosen = victims
        choose_node(model, victims)
    return CheapestNode(best, chosen)


@expanded
def is_oversubscribed(model: RoundModel, p: int) -> bool:
    """Whether something was put on top of others there (tier c): what goes for that counts no more
    against the node."""
    size = model.capacity.tree_types.size // 2
    for r in range(model.shapes.request.shape[1]):  # noqa: SIM110 - kernels have no generators
        if model.capacity.tree[size + p, r] < 0:
            return True
    return False


@inlined
def choose_node(model: RoundModel, victims: int) -> None:
    """Keep the current node, with this number of victims, as the best so far."""
    for k in range(KEYS):
        model.victims.rating[BEST, k] = model.victims.rating[CURRENT, k]
    for k in range(victims):
        model.victims.chosen[k] = model.victims.taken[k]
        model.victims.chosen_takes_gang[k] = model.victims.takes_gang[k]


@expanded
def find_cheapest_in_index(
    model: RoundModel, j: int, w: int, after: float, mode: int
) -> CheapestNode:
    """N4 by the tournament."""
    slot = find_slot(model, j, w, after, mode)
    while True:
        p = model.victim_index.winner[slot, 1]
        if p < 0 or model.victim_index.rating[slot, p, 0] == np.inf:
            return CheapestNode(NOWHERE, 0)
        victims = rate_node(model, slot, j, w, p, after, mode)
        update_index(model, slot, p)
        if (
            model.victim_index.winner[slot, 1] == p
            and model.victim_index.rating[slot, p, 0] < np.inf
        ):
            choose_node(model, victims)
            return CheapestNode(p, victims)


@expanded
def find_slot(model: RoundModel, j: int, w: int, after: float, mode: int) -> int:
    """The slot of this kind of preemptor, made or brought up to date."""
    s = int(model.jobs.shape[j])
    q = (
        int(model.jobs.queue[j])
        if mode == FOR_SHARE and model.usage.evicted_runs[model.jobs.queue[j]] > 0
        else ANY_QUEUE
    )
    model.counters[N_TURN] += 1
    slot = 0
    known = False
    for i in range(model.victim_index.slot.shape[0]):
        if (
            model.victim_index.slot[i, 0] == s
            and model.victim_index.slot[i, 1] == w
            and model.victim_index.slot[i, 2] == mode
            and model.victim_index.slot[i, 3] == q
        ):
            slot = i
            known = True
            break
        if model.victim_index.slot[i, 4] < model.victim_index.slot[slot, 4]:
            slot = i
    model.victim_index.slot[slot, 4] = model.counters[N_TURN]
    missed = model.counters[N_FREED] - model.victim_index.slot[slot, 5]
    if (
        not known
        or missed > model.victim_index.changed.size
        or after < model.victim_index.least_share[slot] - TOLERANCE
    ):
        model.victim_index.slot[slot, 0] = s
        model.victim_index.slot[slot, 1] = w
        model.victim_index.slot[slot, 2] = mode
        model.victim_index.slot[slot, 3] = q
        model.victim_index.least_share[slot] = -1.0
        build_index(model, slot, j, w, after, mode)
    else:
        for i in range(model.victim_index.slot[slot, 5], model.counters[N_FREED]):
            p = model.victim_index.changed[i % model.victim_index.changed.size]
            rate_node(model, slot, j, w, p, after, mode)
            update_index(model, slot, p)
    model.victim_index.slot[slot, 5] = model.counters[N_FREED]
    return slot


@internal
def rate_node(model: RoundModel, slot: int, j: int, w: int, p: int, after: float, mode: int) -> int:
    """Rate the victims on position `p` for the job; infinity where there is no permitted set.

    Returns how many they are, or `NOT_PERMITTED`.
    """
    s = int(model.jobs.shape[j])
    level = model.shapes.level[s, w]
    model.victim_index.rating[slot, p, 0] = np.inf
    if not is_eligible(model, j, s, w, p) or find_sufficient_level(model, s, p, level, mode) < 0:
        return NOT_PERMITTED
    victims = choose_victims(model, j, p, level, after, mode)
    if victims != NOT_PERMITTED:
        for k in range(KEYS):
            model.victim_index.rating[slot, p, k] = model.victims.rating[CURRENT, k]
    elif mode == FOR_SHARE:
        model.victim_index.least_share[slot] = max(model.victim_index.least_share[slot], after)
    return victims


@inlined
def cheaper_node(model: RoundModel, slot: int, a: int, b: int) -> int:
    """The cheaper of two positions (N4), -1 = none."""
    if a < 0 or b < 0:
        return max(a, b)
    for k in range(FIRST_VICTIM):
        if model.victim_index.rating[slot, a, k] != model.victim_index.rating[slot, b, k]:
            return (
                a
                if model.victim_index.rating[slot, a, k] < model.victim_index.rating[slot, b, k]
                else b
            )
        if model.victim_index.rating[slot, a, k] == np.inf:
            return a
    order = compare_ids(
        model,
        model.victim_index.rating[slot, a, FIRST_VICTIM],
        model.victim_index.rating[slot, b, FIRST_VICTIM],
    )
    if order == 0:
        order = model.nodes.number[a] - model.nodes.number[b]
    return a if order < 0 else b


@internal
def update_index(model: RoundModel, slot: int, p: int) -> None:
    """The matches of one position, up to the final."""
    i = (model.victim_index.winner.shape[1] // 2 + p) // 2
    while i:
        model.victim_index.winner[slot, i] = cheaper_node(
            model,
            slot,
            model.victim_index.winner[slot, 2 * i],
            model.victim_index.winner[slot, 2 * i + 1],
        )
        i //= 2


@expanded
def build_index(model: RoundModel, slot: int, j: int, w: int, after: float, mode: int) -> None:
    """All matches, from new bids of all positions."""
    size = model.victim_index.winner.shape[1] // 2
    for p in range(size):
        model.victim_index.winner[slot, size + p] = NOWHERE
        if p < model.nodes.node_type.size:
            model.victim_index.winner[slot, size + p] = p
            rate_node(model, slot, j, w, p, after, mode)
    for i in range(size - 1, 0, -1):
        model.victim_index.winner[slot, i] = cheaper_node(
            model,
            slot,
            model.victim_index.winner[slot, 2 * i],
            model.victim_index.winner[slot, 2 * i + 1],
        )


@expanded
def is_cheaper_run(model: RoundModel, a: int, b: int) -> bool:
    """The end of N4 for single victims of one value: lost work, younger, greater id."""
    if (model.jobs.gang[a] >= 0) != (model.jobs.gang[b] >= 0):
        return model.jobs.gang[b] >= 0
    if model.runs.lost_work[a] != model.runs.lost_work[b]:
        return model.runs.lost_work[a] < model.runs.lost_work[b]
    if model.runs.started[a] != model.runs.started[b]:
        return model.runs.started[a] > model.runs.started[b]
    return model.jobs.submission[a] > model.jobs.submission[b]


@expanded
def find_single_victim(model: RoundModel, j: int, w: int, after: float) -> int:
    """N4 on tier (b) where one run is enough, without looking at every node; -1 = look at all.

    Among the queues that R13 permits to preempt, and that have evicted runs at the lowest level of
    any of them, the one furthest above its share is the victim's: its cheapest run on an eligible
    node that frees enough is what examining every node would find, provided that it is not a member
    of a gang, that priorities do not differ, and that no cheaper run would do only together with
    others. Where one of these does not hold, all nodes are examined.
    """
    s = int(model.jobs.shape[j])
    size = model.capacity.tree_types.size // 2
    victim_queue = -1
    first = -1
    tied = 0
    for q in range(model.entitlements.weight.size):
        if q == model.jobs.queue[j] or model.usage.evicted_runs[q] == 0:
            continue
        if after >= assumed_cost(model, q) / model.entitlements.weight[q] - TOLERANCE:
            continue
        while model.runs.state[model.evicted.cheapest[model.evicted.cheapest_next[q]]] != EVICTED:
            model.evicted.cheapest_next[q] += 1
        k = model.evicted.cheapest[model.evicted.cheapest_next[q]]
        if victim_queue < 0 or model.runs.level[k] < model.runs.level[first]:
            victim_queue, first, tied = q, k, 0
            continue
        if (
            model.runs.level[k] > model.runs.level[first]
            or model.usage.share_steps[q] < model.usage.share_steps[victim_queue]
        ):
            continue
        if model.usage.share_steps[q] == model.usage.share_steps[victim_queue]:
            if model.evicted.priority[q] != model.evicted.priority[victim_queue]:
                return NOWHERE
            tied = 1
            if not is_cheaper_run(model, k, first):
                continue
        else:
            tied = 0
        victim_queue, first = q, k
    if (
        victim_queue < 0
        or model.runs.level[first] > model.shapes.level[s, w]
        or model.evicted.priority[victim_queue] == MIXED_PRIORITIES
    ):
        return NOWHERE
    for i in range(
        model.evicted.cheapest_next[victim_queue],
        min(
            model.evicted.cheapest_next[victim_queue] + SINGLE_VICTIMS_MAX,
            model.evicted.cheapest_first[victim_queue + 1],
        ),
    ):
        k = model.evicted.cheapest[i]
        if model.runs.state[k] != EVICTED:
            continue
        if not is_eligible(model, j, s, w, model.runs.position[k]):
            if tied:
                return NOWHERE
            continue
        if model.jobs.gang[k] >= 0 or model.runs.level[k] != model.runs.level[first]:
            return NOWHERE
        for r in range(model.shapes.request.shape[1]):
            free = (
                model.capacity.tree[size + model.runs.position[k], r]
                + model.shapes.request[model.jobs.shape[k], r]
            )
            if model.shapes.request[s, r] > free:
                return NOWHERE
        model.victims.chosen[0] = k
        model.victims.chosen_takes_gang[0] = 0
        return model.runs.position[k]
    return NOWHERE
