"""Describes reasons in words (rule E1): codes and numbers in, sentences out.

Only rows that are requested or that changed are put into words. The first sentence states the fact
with its numbers. A second one says what to do, if a user or an operator can do something.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.plan import group_texts
from fairlead_scheduler.engine.plan.infeasible_texts import (
    describe_infeasible,
    describe_too_small,
    find_limit,
)
from fairlead_scheduler.engine.plan.number_texts import (
    choose_verb,
    count_eligible,
    describe_amount,
    describe_nodes,
    format_amount,
    plural,
)
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import Code, Snapshot

CODE_NAMES: Final[dict[Code, str]] = {code: code.name.lower().replace("_", "-") for code in Code}
"""The written form of the codes, as in API and reports."""


def describe_reason(snapshot: Snapshot, plan: Plan, row: int, refused: Code | None = None) -> str:
    """Reason `row` of the plan in words, with its numbers.

    `refused`: the code of a refused job, if the other jobs of the row wait for another reason.
    """
    reasons = plan.reasons
    code = Code(int(reasons.code[row])) if refused is None else refused
    queue = int(reasons.queue[row])
    name = snapshot.queue_names[queue]
    match code:
        case Code.EXECUTOR_LAGGING:
            return (
                "The eligible nodes belong to executors that have not taken up their earlier "
                f"leases: {describe_nodes(plan, row)}. Report it to an operator if this lasts."
            )
        case Code.NO_MATCHING_NODE if not snapshot.node_type.size:
            return (
                f"Pool {plan.pool} has no nodes. Start an executor that reports nodes in this pool."
            )
        case Code.NO_MATCHING_NODE:
            too_small = describe_too_small(snapshot, plan, row)
            return (
                f"No node of pool {plan.pool} is eligible: {too_small}"
                f"{describe_nodes(plan, row)}. Check the requests, node selector, affinity and "
                "tolerations."
            )
        case Code.INSUFFICIENT_RESOURCES if int(reasons.role[row]) >= 0:
            return group_texts.describe_surplus(
                snapshot, plan, row, _describe_capacity(snapshot, plan, row)
            )
        case Code.GROUP_FROZEN | Code.GROUP_STEP:
            return group_texts.describe_wait(snapshot, plan, row, code)
        case Code.INSUFFICIENT_RESOURCES:
            share = _describe_share(snapshot, plan, queue)
            return f"{_describe_capacity(snapshot, plan, row)}. {share}."
        case Code.OVER_FAIR_SHARE:
            return (
                f"{_describe_capacity(snapshot, plan, row)}. {_describe_turn(plan, row, name)} "
                f"{_describe_share(snapshot, plan, queue)}."
            )
        case Code.GANG_INCOMPLETE:
            members = group_texts.describe_minimum(snapshot, plan, row)
            here = int(reasons.waiting[row])
            if group_texts.is_group(snapshot, int(reasons.gang[row])):
                return (
                    f"The group cannot start yet: {members} must start together, and {here} of all "
                    f"its members {choose_verb(here, 'is', 'are')} ready."
                )
            if refused is not None or not here:
                return f"The gang was not complete in time: {members} must start together."
            return (
                f"The gang is incomplete: {members} must start together, and {here} "
                f"{choose_verb(here, 'has', 'have')} been submitted. Submit the others."
            )
        case Code.TOPOLOGY_LEVEL:
            return group_texts.describe_unknown_level(snapshot, plan)
        case Code.GANG_DOES_NOT_FIT:
            misfit = _describe_misfit(snapshot, plan, row)
            return f"{misfit} {_describe_share(snapshot, plan, queue)}."
        case Code.GANG_REST:
            return (
                "The gang runs, and no node has free capacity for further members: "
                f"{describe_nodes(plan, row)}."
            )
        case Code.INFEASIBLE:
            return describe_infeasible(snapshot, plan, row, waits=refused is None)
        case Code.ALL_NODES_TRIED:
            return "Every eligible node returned the job before it started."
        case _:
            return _describe_limit_reached(snapshot, plan, row, code)


def _describe_limit_reached(snapshot: Snapshot, plan: Plan, row: int, code: Code) -> str:
    """Reason `row` in words if it is a limit (rules L)."""
    queue = int(plan.reasons.queue[row])
    name = snapshot.queue_names[queue]
    match code:
        case Code.QUEUE_CORDONED:
            return f"Queue {name} is cordoned: it starts no new jobs until it is uncordoned."
        case Code.QUEUE_LIMIT:
            of_class = _describe_class(snapshot, plan, row)
            limit = _describe_limit(snapshot, plan, row)
            whose = "its limit" if _has_own_limit(snapshot, plan, row) else "the ceiling"
            return (
                f"Queue {name} has reached {whose} for {of_class}{limit}. "
                "Wait until other jobs of the queue end, or ask an operator to raise the limit."
            )
        case Code.ROUND_LIMIT:
            return (
                f"This round started {plural(plan.placed_job.size, 'job')}, the most that the "
                f"round limit of pool {plan.pool} permits. The next round continues."
            )
        case Code.RATE_LIMIT:
            return _describe_rate(snapshot, plan, row)
        case Code.GANG_EXCEEDS_BURST:
            burst = min(snapshot.burst, snapshot.queue_burst)
            minimum = group_texts.describe_minimum(snapshot, plan, row)
            return (
                f"The gang can never start: {minimum} must start together, and the burst of the "
                f"start rate is {burst:g}. Lower `minSize`, or ask an operator to raise the burst."
            )
        case Code.LOOKBACK_LIMIT:
            waiting = int(plan.queue_waiting[queue])
            return (
                "The job is beyond the number of jobs that the scheduler examines per queue and "
                f"round; {plural(waiting, 'job')} of queue {name} "
                f"{choose_verb(waiting, 'is', 'are')} waiting. Raise the job's priority to have it "
                "examined earlier."
            )
        case Code.TIME_LIMIT:
            return (
                f"The round reached its time limit after it started "
                f"{plural(plan.placed_job.size, 'job')}. The next round continues."
            )
        case Code.FLOATING_LIMIT:
            return f"{_describe_floating(snapshot, plan, row)}. Wait until other jobs release them."
        case Code.PREEMPTION_LIMIT:
            left = max(0, int(snapshot.preemption_tokens - plan.preemption_tokens_used))
            return (
                f"{_describe_capacity(snapshot, plan, row)}. Runs of queues above their fair share "
                f"could be preempted, but the preemption rate permits {left} more now. "
                f"{_describe_share(snapshot, plan, queue)}."
            )
        case Code.NOT_REACHED:
            return (
                f"The round ended before this job was examined ({CODE_NAMES[plan.stopped_by]}). "
                "The next round continues."
            )
        case _:
            return "The scheduler has not examined the job yet."


def _describe_class(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """The priority class of the row; the members of a gang can be of several."""
    shape = int(plan.reasons.shape[row])
    if shape < 0:
        return "a priority class of the gang"
    return f"priority class {snapshot.class_names[int(snapshot.shape_class[shape])]}"


def _describe_misfit(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """Why the row's gang does not fit."""
    if group_texts.requires_domain(snapshot, plan, row):
        return _describe_domain_misfit(snapshot, plan, row)
    capacity = _describe_capacity(snapshot, plan, row)
    if int(plan.reasons.role[row]) >= 0:
        return f"{group_texts.describe_misfit(snapshot, plan, row)} {capacity}."
    return (
        f"The gang does not fit: {group_texts.describe_minimum(snapshot, plan, row)} must start "
        f"together{group_texts.describe_label(snapshot, plan, row)}. {capacity}."
    )


def _describe_domain_misfit(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """Why the row's gang fits in no domain of the required level (T2)."""
    gang = int(plan.reasons.gang[row])
    assert snapshot.topology is not None, "a required domain is of a topology"
    assert plan.nearness is not None, "a plan of a snapshot with a topology has it"
    level = int(snapshot.topology.gang_level[gang])
    names = snapshot.topology.domains[level]
    where = f"one domain of level {snapshot.topology.names[level]}"
    who = f"The needed members of {group_texts.describe_scope(snapshot, plan, row)}"
    resource = int(plan.nearness.lacking[gang])
    if not names:
        return f"{who} must be in {where}, and no node of pool {plan.pool} has its labels."
    count = plural(len(names), "domain")
    if resource < 0:
        return (
            f"{who} must be in {where}, and in none of the {count} do the nodes have free capacity"
            f" for each member. {_describe_capacity(snapshot, plan, row)}."
        )
    name = snapshot.resources[resource]
    needed, most = int(plan.nearness.needed[gang]), int(plan.nearness.most[gang])
    return (
        f"{who} must be in {where} and need {describe_amount(name, needed)} together. Of the"
        f" {count} {names[int(plan.nearness.domain[gang])]} has the most free:"
        f" {describe_amount(name, most)}."
    )


def _describe_rate(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """How many more jobs can start now, by the token bucket that has fewer tokens."""
    queue = int(plan.reasons.queue[row])
    left, burst, of_queue = snapshot.tokens - plan.tokens_used, snapshot.burst, ""
    if snapshot.queue_tokens is not None:
        tokens = float(snapshot.queue_tokens[queue] - plan.queue_scheduled[queue])
        if tokens < left:
            left, burst = tokens, snapshot.queue_burst
            of_queue = f" of queue {snapshot.queue_names[queue]}"
    return (
        f"The start rate{of_queue} is limited: {max(0, int(left))} of {burst:g} jobs can start "
        "now, more as time passes."
    )


def _describe_floating(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """Which floating resource is short, if that is known."""
    resource = int(plan.reasons.resource[row])
    if resource < 0:
        return f"The floating resources of pool {plan.pool} are in use"
    name = (snapshot.resources + snapshot.floating)[resource]
    needed, left = int(plan.reasons.needed[row]), int(plan.reasons.best[row])
    return (
        f"Pool {plan.pool} has {describe_amount(name, left)} left, and "
        f"{_subject(snapshot, plan, row)} needs {format_amount(name, needed)}"
    )


def _describe_limit(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """What the limit of a queue leaves and what is needed, if that is known."""
    resource = int(plan.reasons.resource[row])
    if resource < 0:
        return ""
    name = (snapshot.resources + snapshot.floating)[resource]
    needed, left = int(plan.reasons.needed[row]), int(plan.reasons.best[row])
    return (
        f": {_subject(snapshot, plan, row)} needs {describe_amount(name, needed)}, and the limit "
        f"leaves {format_amount(name, left)}"
    )


def _has_own_limit(snapshot: Snapshot, plan: Plan, row: int) -> bool:
    """Whether the limit of the queue, rather than the ceiling of the class, holds the row back."""
    resource, shape = int(plan.reasons.resource[row]), int(plan.reasons.shape[row])
    if resource < 0 or shape < 0:
        return True
    total = [*snapshot.node_allocatable.sum(axis=0, dtype=np.float64), *snapshot.floating_total]
    queue, of_class = int(plan.reasons.queue[row]), int(snapshot.shape_class[shape])
    return find_limit(snapshot, queue, of_class, resource, float(total[resource]))[1]


def _subject(snapshot: Snapshot, plan: Plan, row: int) -> str:
    gang = int(plan.reasons.gang[row])
    if gang < 0:
        return "the job"
    return f"each member of the {'group' if group_texts.is_group(snapshot, gang) else 'gang'}"


def _describe_share(snapshot: Snapshot, plan: Plan, queue: int) -> str:
    name, fair = snapshot.queue_names[queue], float(plan.shares.fair[queue])
    if fair <= 0:
        return f"Queue {name} has no fair share now"
    return (
        f"Queue {name} uses {100 * float(plan.shares.actual[queue]) / fair:.0f} % of its fair share"
    )


def _describe_turn(plan: Plan, row: int, name: str) -> str:
    """Why no run was preempted for fair share so that the row's jobs could start."""
    if not plan.reasons.others_hold_more[row]:
        return (
            "No run can be preempted for it: the other queues hold no more, relative to their "
            f"weights, than queue {name} would hold with this job."
        )
    if plan.reasons.exceeds_share[row]:
        return (
            f"No run was preempted for it: with this job queue {name} would exceed its fair share. "
            "Runs of other queues returned to their nodes before its turn, or those queues would "
            "be left with less than this one."
        )
    return "No run was preempted for it in this round."


def _describe_capacity(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """Why the row's jobs find no free capacity: what is short, and the most that is free."""
    reasons = plan.reasons
    eligible = count_eligible(plan, row)
    resource = int(reasons.resource[row])
    pool = f"pool {plan.pool}"
    if eligible == 0:
        return f"No eligible node of {pool} accepts new jobs now: {describe_nodes(plan, row)}"
    nodes = plural(eligible, "eligible node")
    if resource < 0:
        has = f"{nodes} of {pool} {choose_verb(eligible, 'has', 'have')} free capacity for"
        if reasons.gang[row] >= 0:
            return f"{has} one member each, but not for all that must start together"
        return f"{has} the job since the round ended, and the next round tries it again there"
    name = (snapshot.resources + snapshot.floating)[resource]
    needed, best = int(reasons.needed[row]), int(reasons.best[row])
    needs = f"{_subject(snapshot, plan, row)} needs {describe_amount(name, needed)}"
    if eligible == snapshot.node_number.size and best == 0:
        total = int(snapshot.node_allocatable[:, resource].sum(dtype=np.float64))
        return f"All {describe_amount(name, total)} of {pool} are in use; {needs}"
    if eligible == 1:
        return f"The only eligible node of {pool} has {describe_amount(name, best)} free; {needs}"
    if best == 0:
        nouns = "CPUs" if name == "cpu" else name
        return f"All {nouns} of the {nodes} of {pool} are in use; {needs} on one node"
    return (
        f"None of the {nodes} of {pool} has more than {describe_amount(name, best)} free; {needs} "
        "on one node"
    )
