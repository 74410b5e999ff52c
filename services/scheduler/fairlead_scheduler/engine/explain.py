"""Reasons in words (rule E1): codes and numbers in, one sentence out.

Only rows that somebody asks for, or that changed, are put into words.
"""

from __future__ import annotations

from typing import Final

from .snapshot import Bucket, Code, Plan, Snapshot

NAMES: Final[dict[Code, str]] = {code: code.name.lower().replace("_", "-") for code in Code}
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


def sentence(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """Reason `row` of the plan in one sentence, with its numbers."""
    reasons = plan.reasons
    code = Code(int(reasons.code[row]))
    q = int(reasons.queue[row])
    match code:
        case Code.QUEUE_CORDONED:
            return f"queue {snapshot.queue_names[q]} is cordoned: it starts nothing new"
        case Code.QUEUE_LIMIT:
            return f"the queue is at its limit for this priority class; {_share(plan, q)}"
        case Code.ROUND_LIMIT:
            return "the round started as much as one round may; it goes on in the next"
        case Code.RATE_LIMIT:
            return "starts per second are limited and the bucket is empty just now"
        case Code.GANG_EXCEEDS_BURST:
            return "the gang is larger than the burst of the start rate, so it could never start"
        case Code.LOOKBACK_LIMIT:
            return "as many jobs of this queue were looked at as one round looks at"
        case Code.TIME_LIMIT:
            return "the round ran out of time"
        case Code.FLOATING_LIMIT:
            return "the pool's resources beside its nodes (licences, bandwidth) are in use"
        case Code.PREEMPTION_LIMIT:
            return f"preemptions for balance are limited just now; {_share(plan, q)}"
        case Code.EXECUTOR_LAGGING:
            return f"the executors that suit have leases to take up first: {_nodes(plan, row)}"
        case Code.NO_MATCHING_NODE:
            return f"no node suits: {_nodes(plan, row)}"
        case Code.INSUFFICIENT_RESOURCES:
            return f"{_busy(snapshot, plan, row)}; {_share(plan, q)}"
        case Code.OVER_FAIR_SHARE:
            return (
                f"{_busy(snapshot, plan, row)}; room could come only from queues that hold no more "
                f"than this one would; {_share(plan, q)}"
            )
        case Code.GANG_INCOMPLETE:
            return "fewer members of the gang are here than it needs to start"
        case Code.GANG_DOES_NOT_FIT:
            return f"there is no room for as many members as the gang needs; {_nodes(plan, row)}"
        case Code.GANG_REST:
            return "the gang runs and has no place for further members"
        case Code.NOT_REACHED:
            return f"the round stopped before it: {NAMES[plan.stopped_by]}"
        case Code.INFEASIBLE:
            return _never(plan, row)
        case Code.ALL_NODES_TRIED:
            return "it came back unstarted from every node that suits it"
        case Code.NONE:
            return "it has not been looked at yet"


def _never(plan: Plan, row: int) -> str:
    reasons = plan.reasons
    suits = int(reasons.counts[row, Bucket.BUSY] + reasons.counts[row, Bucket.OPEN])
    if int(reasons.gang[row]) >= 0:
        return (
            "as many members as the gang needs can never run here together, for want of nodes or "
            f"within the limit of its queue; {_nodes(plan, row)}"
        )
    if suits:
        return (
            f"{_plural(suits, 'node')} {_verb(suits, 'suits', 'suit')} it, but it needs more than "
            "the limit of its queue, or what the pool has beside its nodes, can ever allow"
        )
    return f"it can never run here: {_nodes(plan, row)}"


def _share(plan: Plan, q: int) -> str:
    fair = float(plan.shares.fair[q])
    if fair <= 0:
        return "the queue has no fair share now"
    return f"queue is at {float(plan.shares.actual[q]) / fair:.2f} of its fair share"


def _busy(snapshot: Snapshot, plan: Plan, row: int) -> str:
    reasons = plan.reasons
    suits = int(reasons.counts[row, Bucket.BUSY] + reasons.counts[row, Bucket.OPEN])
    r = int(reasons.resource[row])
    if suits == 0:
        return f"nodes that suit it get nothing new just now: {_nodes(plan, row)}"
    if r < 0:
        return f"{_plural(suits, 'node')} {_verb(suits, 'suits', 'suit')} it"
    name = (snapshot.resources + snapshot.floating)[r]
    needed = quantity(name, int(reasons.needed[row]))
    best = quantity(name, int(reasons.best[row]))
    return (
        f"needs {needed} {name} on one node; {_plural(suits, 'node')} "
        f"{_verb(suits, 'suits', 'suit')} it, the most free on any is {best}"
    )


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
