"""Reasons in words (rule E1): codes and numbers in, one sentence out.

Only rows that somebody asks for, or that changed, are put into words.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.snapshot import Bucket, Code, Match, Plan, Snapshot

CODE_NAMES: Final[dict[Code, str]] = {code: code.name.lower().replace("_", "-") for code in Code}
"""The written form of the codes, as in API and reports."""

_RULED_OUT: Final[dict[Bucket, str]] = {
    Bucket.LOST: "out of contact",
    Bucket.CORDONED: "cordoned",
    Bucket.OVERFULL: "overfull",
    Bucket.LAGGING: "slow to take up leases",
    Bucket.TAINT: "tainted",
    Bucket.LABEL: "without the labels",
    Bucket.AFFINITY: "ruled out by affinity",
    Bucket.TOO_SMALL: "too small",
    Bucket.BUSY: "busy",
}


def describe_reason(snapshot: Snapshot, plan: Plan, row: int, refused: Code | None = None) -> str:
    """Reason `row` of the plan in one sentence, with its numbers.

    `refused` is the code of a job that was refused, where others of the row wait for another.
    """
    reasons = plan.reasons
    code = Code(int(reasons.code[row])) if refused is None else refused
    q = int(reasons.queue[row])
    match code:
        case Code.QUEUE_CORDONED:
            return f"queue {snapshot.queue_names[q]} is cordoned: it starts nothing new"
        case Code.QUEUE_LIMIT:
            limit = f"the queue is at its limit for this priority class{_left(snapshot, plan, row)}"
            return f"{limit}; {_share(plan, q)}"
        case Code.ROUND_LIMIT:
            return f"the round {_started(plan)}, as much as one round may; the next goes on"
        case Code.RATE_LIMIT:
            return _rate(snapshot, plan, row)
        case Code.GANG_EXCEEDS_BURST:
            burst = min(snapshot.burst, snapshot.queue_burst)
            return (
                f"{_together(snapshot, plan, row)} are more than the burst of the start rate "
                f"({burst:g}) lets start at once, so it could never start"
            )
        case Code.LOOKBACK_LIMIT:
            return _lookback(int(plan.queue_waiting[q]))
        case Code.TIME_LIMIT:
            return f"the round ran out of time when it had {_started(plan)}; the next goes on"
        case Code.FLOATING_LIMIT:
            return (
                "the pool's resources beside its nodes (licences, bandwidth) are in use"
                f"{_left(snapshot, plan, row)}"
            )
        case Code.PREEMPTION_LIMIT:
            preemptions = _preemptions(snapshot, plan)
            return f"{_busy(snapshot, plan, row)}; {preemptions}; {_share(plan, q)}"
        case Code.EXECUTOR_LAGGING:
            return f"the executors that suit have leases to take up first: {_nodes(plan, row)}"
        case Code.NO_MATCHING_NODE:
            return f"no node suits: {_too_small(snapshot, plan, row)}{_nodes(plan, row)}"
        case Code.INSUFFICIENT_RESOURCES:
            return f"{_busy(snapshot, plan, row)}; {_share(plan, q)}"
        case Code.OVER_FAIR_SHARE:
            return (
                f"{_busy(snapshot, plan, row)}; room could come only from queues that hold no more "
                f"than this one would; {_share(plan, q)}"
            )
        case Code.GANG_INCOMPLETE:
            here = int(reasons.waiting[row])
            if refused is not None or not here:
                return f"{_together(snapshot, plan, row)} were not all here in time"
            return f"{here} of {_together(snapshot, plan, row)} {_verb(here, 'is', 'are')} here"
        case Code.GANG_DOES_NOT_FIT:
            return (
                f"there is no room for {_together(snapshot, plan, row)}; "
                f"{_busy(snapshot, plan, row)}; {_share(plan, q)}"
            )
        case Code.GANG_REST:
            return f"the gang runs and has no place for further members: {_nodes(plan, row)}"
        case Code.NOT_REACHED:
            return f"the round stopped before it: {CODE_NAMES[plan.stopped_by]}; the next goes on"
        case Code.INFEASIBLE:
            return _never(snapshot, plan, row)
        case Code.ALL_NODES_TRIED:
            return "it came back unstarted from every node that suits it"
        case Code.NONE:
            return "it has not been looked at yet"


def _together(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """How many members of the row's gang must start together, and where."""
    gang = int(plan.reasons.gang[row])
    if gang < 0 or snapshot.gang_min is None:
        return "the members that must start together"
    label = -1 if snapshot.gang_label is None else int(snapshot.gang_label[gang])
    where = f" on nodes with one value of {snapshot.label_names[label]}" if label >= 0 else ""
    return f"the {int(snapshot.gang_min[gang])} members that must start together{where}"


def _started(plan: Plan) -> str:
    return f"started {_plural(plan.placed_job.size, 'job')}"


def _rate(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """How many more may start just now, by the bucket that has less."""
    q = int(plan.reasons.queue[row])
    left, burst, whose = snapshot.tokens - plan.tokens_used, snapshot.burst, ""
    if snapshot.queue_tokens is not None:
        of_queue = float(snapshot.queue_tokens[q] - plan.queue_scheduled[q])
        if of_queue < left:
            left, burst, whose = of_queue, snapshot.queue_burst, " of this queue"
    return (
        f"starts per second{whose} are limited: {max(0, int(left))} of {burst:g} may start just "
        "now, and more as time goes on"
    )


def _lookback(wait: int) -> str:
    return (
        f"a round looks at so many jobs of a queue and no more, and {wait} of this one "
        f"{_verb(wait, 'waits', 'wait')}; a greater priority would put it before others"
    )


def _preemptions(snapshot: Snapshot, plan: Plan) -> str:
    """How many more runs may give way for balance just now."""
    left = max(0, int(snapshot.preemption_tokens - plan.preemption_tokens_used))
    return (
        "runs of queues above their share could make room, but preemptions for balance are "
        f"limited, and {left} more are allowed just now"
    )


def _left(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """What a limit leaves and what is needed, where it is known."""
    reasons = plan.reasons
    r = int(reasons.resource[row])
    if r < 0:
        return ""
    name = (snapshot.resources + snapshot.floating)[r]
    who = "each member of the gang needs" if reasons.gang[row] >= 0 else "it needs"
    needed, left = (quantity(name, int(n)) for n in (reasons.needed[row], reasons.best[row]))
    return f": {who} {needed} {name}, and {left} of it can still be had"


def _never(snapshot: Snapshot, plan: Plan, row: int) -> str:
    reasons = plan.reasons
    if int(reasons.gang[row]) >= 0:
        return (
            f"{_together(snapshot, plan, row)} can never run here, for want of nodes or within "
            f"the limit of the queue: of {_plural(int(reasons.counts[row].sum()), 'node')} "
            f"{_suits(plan, row)} could take a member"
        )
    why = _beyond(snapshot, plan, row)
    return f"it can never run here: {why or _too_small(snapshot, plan, row) + _nodes(plan, row)}"


def _beyond(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """The limit of its queue, or the amount beside nodes, that the row's shape is above."""
    s, q = int(plan.reasons.shape[row]), int(plan.reasons.queue[row])
    of_class = int(snapshot.shape_class[s])
    nodes = len(snapshot.resources)
    needed = snapshot.shape_request[s].tolist()
    needed += [0] * len(snapshot.floating)
    if snapshot.shape_floating is not None:
        needed[nodes:] = snapshot.shape_floating[s].tolist()
    there = [*snapshot.node_allocatable.sum(axis=0, dtype=np.float64), *snapshot.floating_total]
    fractions, amounts = snapshot.queue_limit_fraction, snapshot.queue_limit_amount
    for r, name in enumerate(snapshot.resources + snapshot.floating):
        most = np.inf if amounts is None else float(amounts[q, of_class, r])
        if fractions is not None and np.isfinite(fractions[q, of_class, r]):
            most = min(most, float(fractions[q, of_class, r] * there[r]))
        if needed[r] > most * (1 + 1e-9):
            return (
                f"it needs {quantity(name, needed[r])} {name}, and queue {snapshot.queue_names[q]} "
                f"may hold {quantity(name, int(most))} at most in class "
                f"{snapshot.class_names[of_class]}"
            )
        if r >= nodes and needed[r] > there[r]:
            return (
                f"it needs {quantity(name, needed[r])} {name}, and the pool has "
                f"{quantity(name, int(there[r]))}"
            )
    return ""


def _too_small(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """What the row's shape needs that no node has which suits it otherwise."""
    s = int(plan.reasons.shape[row])
    if s < 0 or not plan.reasons.counts[row, Bucket.TOO_SMALL]:
        return ""
    suits = (snapshot.shape_match[s] == Match.SUITS).any(axis=0)[snapshot.node_type]
    largest = snapshot.node_allocatable[suits].max(axis=0, initial=0).tolist()
    for name, needed, most in zip(
        snapshot.resources, snapshot.shape_request[s].tolist(), largest, strict=True
    ):
        if needed > most:
            return (
                f"it needs {quantity(name, needed)} {name} on one node, and the largest that "
                f"suits has {quantity(name, most)}; "
            )
    return ""


def _share(plan: Plan, q: int) -> str:
    fair = float(plan.shares.fair[q])
    if fair <= 0:
        return "the queue has no fair share now"
    return f"queue is at {float(plan.shares.actual[q]) / fair:.2f} of its fair share"


def _busy(snapshot: Snapshot, plan: Plan, row: int) -> str:
    reasons = plan.reasons
    suits = _suits(plan, row)
    r = int(reasons.resource[row])
    if suits == 0:
        return f"nodes that suit it get nothing new just now: {_nodes(plan, row)}"
    if r < 0:
        return f"{_plural(suits, 'node')} {_verb(suits, 'suits', 'suit')} it"
    name = (snapshot.resources + snapshot.floating)[r]
    needed = quantity(name, int(reasons.needed[row]))
    best = quantity(name, int(reasons.best[row]))
    who = "a member " if reasons.gang[row] >= 0 else ""
    return (
        f"{who}needs {needed} {name} on one node; {_plural(suits, 'node')} "
        f"{_verb(suits, 'suits', 'suit')} it, the most free on any is {best}"
    )


def _suits(plan: Plan, row: int) -> int:
    """How many nodes suit the row's shape and could get something new."""
    return int(plan.reasons.counts[row, Bucket.BUSY] + plan.reasons.counts[row, Bucket.OPEN])


def _nodes(plan: Plan, row: int) -> str:
    counts = plan.reasons.counts[row]
    total = int(counts.sum())
    parts = [f"{int(counts[b])} {text}" for b, text in _RULED_OUT.items() if counts[b]]
    return f"of {_plural(total, 'node')} " + (", ".join(parts) if parts else "none is ruled out")


def quantity(resource: str, amount: int) -> str:
    """An amount as people write it: cpu is kept in milli, what looks like bytes in binary units."""
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource in ("memory", "ephemeral-storage"):
        for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
            if amount >= 1 << power:
                return f"{amount / (1 << power):.4g}{unit}"
    return str(amount)


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _verb(n: int, one: str, many: str) -> str:
    return one if n == 1 else many
