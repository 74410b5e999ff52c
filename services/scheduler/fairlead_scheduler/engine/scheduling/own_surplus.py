"""Finds capacity of surplus members of the preemptor's own queue (G5, G10), which is taken before
runs of other queues are preempted."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.eligibility import is_eligible
from fairlead_scheduler.engine.scheduling.node_victims import (
    NO_RUN,
    NOT_PERMITTED,
    NodeVictims,
    choose_victims,
    find_preempting_level,
    has_cheaper_victims,
    is_candidate,
)
from fairlead_scheduler.engine.scheduling.victim_search import (
    NODES_COMPARED_MAX,
    NODES_EXAMINED_MAX,
    NOWHERE,
    CheapestNode,
)
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import FOR_OWN_SURPLUS
from fairlead_scheduler.engine.state.value_capacity import has_value


@inlined
def find_least_time(model: RoundModel, victim_count: int) -> float:
    """The least weighted running time of any group that would lose a member (G10); 0 if the queue
    does not have `order: fair`. The victims are `victims.taken` up to `victim_count`."""
    least = 0.0
    for k in range(victim_count):
        time = model.gangs.groups.weighted_time[model.jobs.gang[model.victims.taken[k]]]
        least = time if k == 0 else min(least, time)
    return least


@separate
def find_own_surplus(model: RoundModel, j: int, w: int, label: int, value: int) -> CheapestNode:
    """The node on which job `j` fits without the cheapest surplus members of its own queue; with
    `label` >= 0 among the nodes with this `value` of the label.

    Nodes are examined in the order of `groups.surplus_runs` and compared by G10, then by N4, within
    the bounds of the victim search. No group loses a member that it needs.
    """
    q = model.jobs.queue[j]
    level = find_preempting_level(model, j, w)
    examined = 0
    compared = 0
    best = CheapestNode(NOWHERE, 0, 0.0)
    cheapest = NodeVictims(NOT_PERMITTED, 0, 0, 0, 0.0, 0, NO_RUN)
    cheapest_time = 0.0
    for i in range(model.gangs.groups.surplus_first[q], model.gangs.groups.surplus_first[q + 1]):
        if examined == NODES_EXAMINED_MAX or compared == NODES_COMPARED_MAX:
            break
        k = model.gangs.groups.surplus_runs[i]
        p = model.runs.position[k]
        known = False
        for at in range(examined):
            known = known or model.victims.examined[at] == p
        if known or not is_candidate(model, k, j, level, FOR_OWN_SURPLUS):
            continue
        if not is_eligible(model, j, model.jobs.shape[j], w, p):
            continue
        if label >= 0 and not has_value(model, p, label, value):
            continue
        model.victims.examined[examined] = p
        examined += 1
        found = choose_victims(model, j, p, level, 0.0, FOR_OWN_SURPLUS)
        if found.victim_count == NOT_PERMITTED:
            continue
        compared += 1
        time = find_least_time(model, found.victim_count)
        if best.position >= 0:
            if found.level == cheapest.level and time != cheapest_time:
                if time < cheapest_time:
                    continue
            elif not has_cheaper_victims(model, found, cheapest):
                continue
        cheapest, cheapest_time = found, time
        best = CheapestNode(p, found.victim_count, found.lost_work)
        for at in range(found.victim_count):
            model.victims.chosen[at] = model.victims.taken[at]
            model.victims.chosen_takes_gang[at] = 0
    return best
