"""Victim search (N4): the node with the cheapest victims, on tier (b) or (c).

`find_cheapest_node` returns a `CheapestNode`. It preempts nothing: `placement.place_job` does.

A search examines at most `NODES_EXAMINED_MAX` nodes, until `NODES_COMPARED_MAX` have a permitted
set of victims, and compares these. The order of nodes is that of victim_order.py: by the cheapest
preemptible run as the round started. On tier (b) nodes with runs of the first queue come before
those with runs of the next one; `is_later_victim_queue` has the order of queues. Where one evicted
run is enough it is found among the cheapest of its queue, without examining nodes.

Reads, of the `RoundModel`:

- `shapes`: what the job requests, its level, the node types on which it can run; `nodes`: types,
  numbers, positions by label value; `jobs.avoided`: the nodes that it avoids;
- `jobs`: shape, queue, gang, role, priority and submission number of the job and of runs, and the
  level at which members of gangs preempt;
- `runs`: the runs of each position, their state, level, preemption mode, lost work and start;
- `capacity`: what is free on each position, and what runs hold there by level, evicted or not;
- `gangs`: members, how many are live and how many must be (`roles`), what is frozen (`groups`);
- `usage`: what queues hold, how far they are above their share, their evicted runs; `entitlements`:
  weights, budgets, entitled shares and cost factors; `victims.shares`: what queues hold by level
  (R13, N2b);
- `evicted`: each queue's cheapest single victims, and where its runs are of one priority.

Writes:

- `victims.chosen` and `chosen_takes_gang`: the victims on the node that is found;
- `mark`, `shares.held`, `roles.assumed` and, of `usage`, `held` and `share_steps`, for the runs
  that are assumed to be preempted; all of them are reset before it returns;
- `victims.candidates`, `need`, `taken`, `takes_gang` and `examined`: scratch space, with the values
  of the last node;
- `evicted.cheapest_next`, past runs that are no longer evicted;
- `victims.order`: the order and each tree when they are first needed, and amounts in the trees that
  returned runs have changed; `counters[N_WORK]`.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.eligibility import is_eligible
from fairlead_scheduler.engine.scheduling.node_victims import (
    NO_RUN,
    NOT_PERMITTED,
    NodeVictims,
    choose_victims,
    find_preempting_level,
    has_cheaper_victims,
    is_enough,
)
from fairlead_scheduler.engine.scheduling.strict_gain import (
    holds_no_more,
    is_gain_with_victim,
    is_over_budget,
)
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import EVICTED, FOR_SHARE, FOR_URGENCY, N_WORK
from fairlead_scheduler.engine.state.run_states import MIXED_PRIORITIES
from fairlead_scheduler.engine.state.surplus import MEMBER_VICTIM, SINGLE_VICTIM, victim_kind
from fairlead_scheduler.engine.state.victim_order import (
    NO_QUEUE,
    QUEUE_BITS,
    choose_tree,
    correct_amounts,
    counts_for_order,
    find_next_node,
    is_cheaper_run,
    require_order,
)

SINGLE_VICTIMS_MAX: Final = 64
"""How many runs are examined before nodes are."""
NODES_EXAMINED_MAX: Final = 64
"""On how many nodes a search chooses victims."""
NODES_COMPARED_MAX: Final = 8
"""How many nodes with a permitted set of victims a search compares."""

NOWHERE: Final = -1
"""Instead of a position: no position."""


class CheapestNode(NamedTuple):
    """What N4 finds."""

    position: int
    """`NOWHERE` when no node has a permitted set of victims"""
    victim_count: int
    """the number of victims: `victims.chosen` up to this number, with `chosen_takes_gang`"""
    lost_work: float
    """the work that is lost with them, in steps of `eviction.LOST_STEPS`"""


class Search(NamedTuple):
    """How far a search has come."""

    examined: int
    """the number of nodes examined: `victims.examined` up to this number"""
    compared: int
    """the number of nodes with a permitted set of victims"""
    position: int
    """the best node so far, or `NOWHERE`"""
    best: NodeVictims
    """the victims there"""


@inlined
def fits_after_preemption(model: RoundModel, s: int, p: int, level: int, mode: int) -> bool:
    """Whether a job of shape `s` that preempts at `level` fits on position `p` without all runs
    that could be victims there."""
    size = model.capacity.tree_types.size // 2
    top = level + 1 if mode == FOR_SHARE else level
    for r in range(model.victims.need.size):
        model.victims.need[r] = model.shapes.request[s, r] - model.capacity.tree[size + p, r]
    for lv in range(top):
        for r in range(model.victims.need.size):
            model.victims.need[r] -= model.capacity.evicted[p, lv, r]
            if mode == FOR_URGENCY:
                model.victims.need[r] -= model.capacity.preemptible[p, lv, r]
    return is_enough(model)


@separate
def find_cheapest_node(
    model: RoundModel, j: int, w: int, after: float, mode: int, label: int, value: int
) -> CheapestNode:
    """N4: the node with the cheapest victims for job `j` at home or away entry `w`.

    `mode` is `FOR_SHARE` (tier (b)) or `FOR_URGENCY` (tier (c)); `after` is the share / weight of
    the job's queue with its whole offer placed (R13). With `label` >= 0 only nodes with this
    `value` of the label are searched.
    """
    if mode == FOR_SHARE and label < 0:
        single = find_single_victim(model, j, w, after)
        if single >= 0:
            return CheapestNode(single, 1, model.runs.lost_work[model.victims.chosen[0]])
    search = Search(0, 0, NOWHERE, NodeVictims(NOT_PERMITTED, 0, 0, 0, 0.0, 0, NO_RUN))
    if label >= 0:
        search = search_label_value(model, search, j, w, after, mode, label, value)
    elif mode == FOR_URGENCY:
        search = search_nodes(model, search, j, w, after, mode, NO_QUEUE)
    else:
        q = find_next_queue(model, j, w, after, NO_QUEUE)
        while q >= 0 and is_open(search):
            search = search_nodes(model, search, j, w, after, mode, q)
            q = find_next_queue(model, j, w, after, q)
    return CheapestNode(search.position, search.best.victim_count, search.best.lost_work)


@inlined
def is_open(search: Search) -> bool:
    """Whether the search can examine and compare further nodes."""
    return search.examined < NODES_EXAMINED_MAX and search.compared < NODES_COMPARED_MAX


@separate
def search_nodes(
    model: RoundModel, search: Search, j: int, w: int, after: float, mode: int, q: int
) -> Search:
    """Examine nodes in the order of N4, on tier (b) only nodes with runs of queue `q`."""
    s = model.jobs.shape[j]
    level = find_preempting_level(model, j, w)
    tree = choose_tree(model, level, mode)
    bits = model.shapes.type_bits[s, w, 0]
    for k in range(1, model.shapes.type_bits.shape[2]):
        bits |= model.shapes.type_bits[s, w, k]
    place = -1
    while is_open(search):
        place = find_next_node(
            model.victims.order,
            model.shapes.request[s],
            tree,
            bits,
            q,
            place + 1,
            model.counters,
        )
        if place < 0:
            break
        p = model.victims.order.node[place]
        if not fits_after_preemption(model, s, p, level, mode):
            correct_amounts(model, tree, p)
        elif mode == FOR_URGENCY or had_run_of_queue(model, p, q):
            search = examine_node(model, search, j, w, after, mode, p)
    return search


@separate
def had_run_of_queue(model: RoundModel, p: int, q: int) -> bool:
    """Whether a preemptible run of queue `q` was on position `p` when the round started. It
    examines the runs only if two queues can share a bit of the trees."""
    if model.entitlements.weight.size <= QUEUE_BITS:
        return True
    j = model.runs.head[p]
    while j >= 0:
        if model.jobs.queue[j] == q and counts_for_order(model, j):
            return True
        j = model.runs.link[j]
    return False


@separate
def search_label_value(
    model: RoundModel,
    search: Search,
    j: int,
    w: int,
    after: float,
    mode: int,
    label: int,
    value: int,
) -> Search:
    """Examine the nodes of a label value in the order of N4, at most `NODES_EXAMINED_MAX` on which
    the job would fit after preemption."""
    s = model.jobs.shape[j]
    level = find_preempting_level(model, j, w)
    require_order(model)
    order = model.victims.order
    begin = model.nodes.value_first[label, value]
    end = model.nodes.value_first[label, value + 1]
    model.counters[N_WORK] += end - begin
    found = 0
    last = -1
    while found < NODES_EXAMINED_MAX and is_open(search):
        place = order.node.size
        for i in range(begin, end):
            p = model.nodes.value_positions[label, i]
            if last < order.place[p] < place and fits_after_preemption(model, s, p, level, mode):
                place = order.place[p]
        if place == order.node.size:
            break
        last = place
        found += 1
        search = examine_node(model, search, j, w, after, mode, order.node[place])
    return search


@separate
def examine_node(
    model: RoundModel, search: Search, j: int, w: int, after: float, mode: int, p: int
) -> Search:
    """If position `p` is eligible, choose the victims there and compare them with the best ones.

    The job must fit there without all runs that could be victims.
    """
    s = model.jobs.shape[j]
    level = find_preempting_level(model, j, w)
    for i in range(search.examined):
        if model.victims.examined[i] == p:
            return search
    if not is_eligible(model, j, s, w, p):
        return search
    model.victims.examined[search.examined] = p
    if (
        mode == FOR_URGENCY
        and search.position >= 0
        and cannot_be_cheaper(model, search, s, p, level)
    ):
        return Search(search.examined + 1, search.compared + 1, search.position, search.best)
    found = choose_victims(model, j, p, level, after, mode)
    if found.victim_count == NOT_PERMITTED:
        return Search(search.examined + 1, search.compared, search.position, search.best)
    if search.position >= 0 and not has_cheaper_victims(model, found, search.best):
        first = has_cheaper_victims(model, search.best, found)
        if first or model.nodes.number[p] > model.nodes.number[search.position]:
            return Search(search.examined + 1, search.compared + 1, search.position, search.best)
    for k in range(found.victim_count):
        model.victims.chosen[k] = model.victims.taken[k]
        model.victims.chosen_takes_gang[k] = model.victims.takes_gang[k]
    return Search(search.examined + 1, search.compared + 1, p, found)


@inlined
def cannot_be_cheaper(model: RoundModel, search: Search, s: int, p: int, level: int) -> bool:
    """Whether on tier (c) any victims on position `p` cost at least as much as the best ones so
    far.

    The number of victims is at least what the job lacks divided by the largest request of any run
    below its level, and each victim costs at least as much as the cheapest run that was on the node
    when the round started. It is False where this bound does not hold: a job that could be a victim
    was placed in this round, or the node is oversubscribed.
    """
    cheapest = model.victims.order.cheapest[p]
    if cheapest < 0 or search.best.first < 0 or search.best.kind == MEMBER_VICTIM:
        return False
    size = model.capacity.tree_types.size // 2
    runs = 1
    for lv in range(level):
        if model.victims.order.placed[lv]:
            return False
    for r in range(model.shapes.request.shape[1]):
        free = model.capacity.tree[size + p, r]
        if free < 0:
            return False
        largest = 0
        for lv in range(level):
            largest = max(largest, model.victims.order.largest[lv, r])
        lacking = model.shapes.request[s, r] - free
        if lacking > 0 and largest > 0:
            runs = max(runs, (lacking + largest - 1) // largest)
    least = NodeVictims(
        runs,
        model.runs.level[cheapest],
        min(victim_kind(model, cheapest), SINGLE_VICTIM),
        0,
        runs * model.runs.lost_work[cheapest],
        runs,
        cheapest,
    )
    return not has_cheaper_victims(model, least, search.best)


@inlined
def find_cheapest_evicted(model: RoundModel, q: int) -> int:
    """The cheapest evicted run of a queue, which must have evicted runs."""
    while model.runs.state[model.evicted.cheapest[model.evicted.cheapest_next[q]]] != EVICTED:
        model.evicted.cheapest_next[q] += 1
    return model.evicted.cheapest[model.evicted.cheapest_next[q]]


@separate
def is_later_victim_queue(model: RoundModel, q: int, other: int) -> bool:
    """Whether queue `q` comes after queue `other` on tier (b), by the level of the cheapest evicted
    run of each, then by how far it is above its share, then by name. Both must have evicted
    runs."""
    if q == other:
        return False
    level = model.runs.level[find_cheapest_evicted(model, q)]
    other_level = model.runs.level[find_cheapest_evicted(model, other)]
    if level != other_level:
        return level > other_level
    if model.usage.share_steps[q] != model.usage.share_steps[other]:
        return model.usage.share_steps[q] < model.usage.share_steps[other]
    return q > other


@separate
def find_next_queue(model: RoundModel, j: int, w: int, after: float, previous: int) -> int:
    """The queue that follows `previous` among those whose runs R13 permits to preempt; the first of
    them after `NO_QUEUE`, and `NO_QUEUE` after the last."""
    level = find_preempting_level(model, j, w)
    found = NO_QUEUE
    model.counters[N_WORK] += model.entitlements.weight.size
    for q in range(model.entitlements.weight.size):
        if q == model.jobs.queue[j] or model.usage.evicted_runs[q] == 0:
            continue
        if holds_no_more(model, q, after):
            continue
        if model.runs.level[find_cheapest_evicted(model, q)] > level:
            continue
        if previous >= 0 and not is_later_victim_queue(model, q, previous):
            continue
        if found < 0 or is_later_victim_queue(model, found, q):
            found = q
    return found


class VictimQueue(NamedTuple):
    """The queue that loses a run if one run is enough."""

    queue: int
    """`NO_QUEUE`: all nodes must be examined"""
    cheapest: int
    """the cheapest evicted run of the queue"""
    tied: int
    """1 if another queue is as far above its share, with evicted runs of the same level"""


@separate
def find_victim_queue(model: RoundModel, j: int, w: int, after: float) -> VictimQueue:
    """The queue that would lose a run on tier (b) if one run is enough.

    Among the queues whose runs R13 permits to preempt, and of these the ones with evicted runs at
    the lowest level, it is the one furthest above its share; among equal ones, the queue of the
    cheapest run. It is `NO_QUEUE` if that level is too high for the job, or if runs of different
    priorities would have to be compared.
    """
    queue = NO_QUEUE
    cheapest = -1
    tied = 0
    mixed = 0
    for q in range(model.entitlements.weight.size):
        if q == model.jobs.queue[j] or model.usage.evicted_runs[q] == 0:
            continue
        if holds_no_more(model, q, after):
            continue
        k = find_cheapest_evicted(model, q)
        if queue < 0 or model.runs.level[k] < model.runs.level[cheapest]:
            queue, cheapest, tied, mixed = q, k, 0, 0
            continue
        if (
            model.runs.level[k] > model.runs.level[cheapest]
            or model.usage.share_steps[q] < model.usage.share_steps[queue]
        ):
            continue
        if model.usage.share_steps[q] == model.usage.share_steps[queue]:
            if model.evicted.priority[q] != model.evicted.priority[queue]:
                mixed = 1
            tied = 1
            if not is_cheaper_run(model, k, cheapest):
                continue
        else:
            tied, mixed = 0, 0
        queue, cheapest = q, k
    if (
        queue < 0
        or mixed
        or model.runs.level[cheapest] > find_preempting_level(model, j, w)
        or model.evicted.priority[queue] == MIXED_PRIORITIES
    ):
        return VictimQueue(NO_QUEUE, -1, 0)
    return VictimQueue(queue, cheapest, tied)


@inlined
def fits_without_run(model: RoundModel, s: int, k: int) -> bool:
    """Whether a job of shape `s` would fit on the node of run `k` without that run."""
    leaf = model.capacity.tree_types.size // 2 + model.runs.position[k]
    for r in range(model.shapes.request.shape[1]):
        free = model.capacity.tree[leaf, r] + model.shapes.request[model.jobs.shape[k], r]
        if model.shapes.request[s, r] > free:
            return False
    return True


@inlined
def is_single_gain(model: RoundModel, j: int, w: int, k: int, after: float) -> bool:
    """R13 for job `j` with the only victim `k`, whose queue holds more per weight."""
    return not is_over_budget(model, model.jobs.queue[j], after) or is_gain_with_victim(
        model, k, find_preempting_level(model, j, w)
    )


@separate
def find_single_victim(model: RoundModel, j: int, w: int, after: float) -> int:
    """The position of the victim on tier (b) if one run is enough, found without examining nodes;
    `NOWHERE` if nodes must be examined.

    The cheapest run of the queue of `find_victim_queue` that is on an eligible node and frees
    enough is also what examining nodes would find, under four conditions: it is not a member of a
    gang, the priorities do not differ, no cheaper run would be enough together with others, and R13
    permits it.
    """
    s = model.jobs.shape[j]
    found = find_victim_queue(model, j, w, after)
    if found.queue < 0:
        return NOWHERE
    begin = model.evicted.cheapest_next[found.queue]
    end = min(begin + SINGLE_VICTIMS_MAX, model.evicted.cheapest_first[found.queue + 1])
    for i in range(begin, end):
        k = model.evicted.cheapest[i]
        if model.runs.state[k] != EVICTED:
            continue
        if not is_eligible(model, j, s, w, model.runs.position[k]):
            if found.tied:
                return NOWHERE
            continue
        if (
            model.jobs.gang[k] >= 0
            or model.runs.level[k] != model.runs.level[found.cheapest]
            or not fits_without_run(model, s, k)
            or not is_single_gain(model, j, w, k, after)
        ):
            return NOWHERE
        model.victims.chosen[0] = k
        model.victims.chosen_takes_gang[0] = 0
        return model.runs.position[k]
    return NOWHERE
