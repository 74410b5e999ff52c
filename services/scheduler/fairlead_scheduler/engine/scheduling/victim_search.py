"""Victim search (N4): the node with the cheapest victims, on tier (b) or (c).

`find_cheapest_node` returns a `CheapestNode`. It preempts nothing: `placement.place_job` does.

A search compares the victims on at most `NODES_COMPARED_MAX` nodes, the first on which a set of
victims is permitted, and examines at most `NODES_EXAMINED_MAX`. Their order is that of
victim_order.py: by the cheapest preemptible run as the round started. On tier (b) nodes with
runs of the queue furthest above its share come first, then runs of the next queue. Where one
evicted run is enough it is found among the cheapest of its queue, without examining nodes.

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
- marks and assumptions of `victims`, and `usage.share_steps` of queues that are assumed to lose
  runs, which are all set back; its other scratch values (candidates, need, taken, examined) keep
  those of the last node;
- `evicted.cheapest_next`, past runs that are no longer evicted;
- `victim_order`, which is made by the first search of a round; `counters[N_WORK]`.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.eligibility import find_preempting_level, is_eligible
from fairlead_scheduler.engine.scheduling.node_victims import (
    NO_RUN,
    NOT_PERMITTED,
    NodeVictims,
    choose_victims,
    has_cheaper_victims,
    is_protected,
)
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import EVICTED, N_WORK
from fairlead_scheduler.engine.state.run_states import MIXED_PRIORITIES
from fairlead_scheduler.engine.state.surplus import MEMBER_VICTIM, SINGLE_VICTIM, victim_kind
from fairlead_scheduler.engine.state.victim_order import (
    FOR_SHARE,
    FOR_URGENCY,
    NO_QUEUE,
    QUEUE_BITS,
    choose_tree,
    correct_amounts,
    counts_for_order,
    find_next_node,
    is_cheaper_run,
)

SINGLE_VICTIMS_MAX: Final = 64
"""How many runs are examined before nodes are."""
NODES_EXAMINED_MAX: Final = 64
"""On how many nodes a search chooses victims."""
NODES_COMPARED_MAX: Final = 8
"""How many nodes with a permitted set of victims a search compares."""

NOWHERE: Final = -1


class CheapestNode(NamedTuple):
    """What N4 finds."""

    position: int
    """`NOWHERE` when no node has a permitted set of victims"""
    victim_count: int
    """how many: they are `victims.chosen` up to this number, with `chosen_takes_gang`"""
    lost_work: float
    """work that is lost with them"""


class Search(NamedTuple):
    """How far a search has come."""

    examined: int
    """nodes: `victims.examined` up to this number"""
    compared: int
    position: int
    """the best so far, or `NOWHERE`"""
    best: NodeVictims


@inlined
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


@separate
def find_cheapest_node(
    model: RoundModel, j: int, w: int, after: float, mode: int, label: int, value: int
) -> CheapestNode:
    """N4: the node with the cheapest victims on tier (b) or (c). See `CheapestNode`."""
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
    """Examine nodes in the order of N4, on tier (b) those that ran something of queue `q`."""
    s = int(model.jobs.shape[j])
    level = find_preempting_level(model, j, w)
    tree = choose_tree(model, level, mode)
    bits = model.shapes.type_bits[s, w, 0]
    for k in range(1, model.shapes.type_bits.shape[2]):
        bits |= model.shapes.type_bits[s, w, k]
    place = -1
    while is_open(search):
        place = find_next_node(
            model.victim_order,
            model.shapes.request[s],
            tree,
            bits,
            q,
            place + 1,
            model.counters,
        )
        if place < 0:
            break
        p = model.victim_order.node[place]
        if find_sufficient_level(model, s, p, level, mode) < 0:
            correct_amounts(model, tree, p)
        elif mode == FOR_URGENCY or ran_queue(model, p, q):
            search = examine_node(model, search, j, w, after, mode, p)
    return search


@separate
def ran_queue(model: RoundModel, p: int, q: int) -> bool:
    """Whether a preemptible run of the queue was on the position when the round started. The trees
    distinguish queues modulo 64."""
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
    """Examine the nodes of a label value in the order of N4.

    The first `NODES_EXAMINED_MAX` on which the job would fit are collected first.
    """
    s = int(model.jobs.shape[j])
    level = find_preempting_level(model, j, w)
    choose_tree(model, level, mode)
    order = model.victim_order
    begin = model.nodes.value_first[label, value]
    end = model.nodes.value_first[label, value + 1]
    model.counters[N_WORK] += end - begin
    found = 0
    last = -1
    while found < NODES_EXAMINED_MAX and is_open(search):
        place = order.node.size
        for i in range(begin, end):
            p = model.nodes.value_positions[label, i]
            if (
                last < order.place[p] < place
                and find_sufficient_level(model, s, p, level, mode) >= 0
            ):
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
    """Choose the victims on position `p` where it is eligible, and compare them with the best."""
    s = int(model.jobs.shape[j])
    level = find_preempting_level(model, j, w)
    for i in range(search.examined):
        if model.victims.examined[i] == p:
            return search
    if not is_eligible(model, j, s, w, p) or find_sufficient_level(model, s, p, level, mode) < 0:
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
    """Whether victims on `p`, tier (c), cost at least as much as the best so far.

    They are no fewer than the largest runs below the level that the job needs, and each costs as
    much as the cheapest run on the node when the round started. Nothing is known where a job was
    placed in this round that could be a victim, or on top of others.
    """
    cheapest = model.victim_order.cheapest[p]
    if cheapest < 0 or search.best.first < 0 or search.best.kind == MEMBER_VICTIM:
        return False
    size = model.capacity.tree_types.size // 2
    runs = 1
    for lv in range(level):
        if model.victim_order.placed[lv]:
            return False
    for r in range(model.shapes.request.shape[1]):
        free = model.capacity.tree[size + p, r]
        if free < 0:
            return False
        largest = 0
        for lv in range(level):
            largest = max(largest, model.victim_order.largest[lv, r])
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
    """The cheapest evicted run of a queue that has one."""
    while model.runs.state[model.evicted.cheapest[model.evicted.cheapest_next[q]]] != EVICTED:
        model.evicted.cheapest_next[q] += 1
    return model.evicted.cheapest[model.evicted.cheapest_next[q]]


@separate
def goes_after_queue(model: RoundModel, q: int, other: int) -> bool:
    """Whether queue `q` comes after `other` on tier (b): by the level of its cheapest evicted run,
    then by how far it is above its share, then by name. Both have evicted runs."""
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
    """Of the queues that R13 permits to preempt, the one after `previous` (`NO_QUEUE`: the first);
    -1 = none."""
    level = find_preempting_level(model, j, w)
    found = NO_QUEUE
    model.counters[N_WORK] += model.entitlements.weight.size
    for q in range(model.entitlements.weight.size):
        if q == model.jobs.queue[j] or model.usage.evicted_runs[q] == 0:
            continue
        if is_protected(model, q, after):
            continue
        if model.runs.level[find_cheapest_evicted(model, q)] > level:
            continue
        if previous >= 0 and not goes_after_queue(model, q, previous):
            continue
        if found < 0 or goes_after_queue(model, found, q):
            found = q
    return found


class VictimQueue(NamedTuple):
    """The queue that loses a run where one is enough."""

    queue: int
    """`NO_QUEUE`: all nodes must be examined"""
    cheapest: int
    """its cheapest evicted run"""
    tied: int
    """whether another queue is as far above its share, at the same level"""


@inlined
def find_victim_queue(model: RoundModel, j: int, w: int, after: float) -> VictimQueue:
    """Of the queues that R13 permits to preempt, and that have evicted runs at the lowest level of
    any of them, the one furthest above its share; of several, the one of the cheapest run.

    It returns `NO_QUEUE` where that level is too high for the job, or where runs of different
    priorities would have to be compared.
    """
    queue = NO_QUEUE
    cheapest = -1
    tied = 0
    mixed = 0
    for q in range(model.entitlements.weight.size):
        if q == model.jobs.queue[j] or model.usage.evicted_runs[q] == 0:
            continue
        if is_protected(model, q, after):
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
    """Whether a job of shape `s` would fit on the position of run `k` without that run."""
    leaf = model.capacity.tree_types.size // 2 + model.runs.position[k]
    for r in range(model.shapes.request.shape[1]):
        free = model.capacity.tree[leaf, r] + model.shapes.request[model.jobs.shape[k], r]
        if model.shapes.request[s, r] > free:
            return False
    return True


@separate
def find_single_victim(model: RoundModel, j: int, w: int, after: float) -> int:
    """N4 on tier (b) where one run is enough, without looking at every node; -1 = look at all.

    The cheapest run of `find_victim_queue` on an eligible node that frees enough is what examining
    every node would find, provided that it is not a member of a gang, that priorities do not
    differ, and that no cheaper run would do only together with others. Where one of these does not
    hold, all nodes are examined.
    """
    s = int(model.jobs.shape[j])
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
        ):
            return NOWHERE
        model.victims.chosen[0] = k
        model.victims.chosen_takes_gang[0] = 0
        return model.runs.position[k]
    return NOWHERE
