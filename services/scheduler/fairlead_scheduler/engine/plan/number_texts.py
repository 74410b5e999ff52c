"""Amounts of resources, and numbers of nodes and other things, in words."""

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import Bucket

CPU_MILLI: Final = 1000
_BYTES: Final = ("memory", "ephemeral-storage")

_EXCLUDED: Final[dict[Bucket, str]] = {
    Bucket.LOST: "out of contact",
    Bucket.AVOIDED: "avoided because runs failed to start there",
    Bucket.CORDONED: "cordoned",
    Bucket.OVERFULL: "overcommitted",
    Bucket.LAGGING: "slow to take up leases",
    Bucket.TAINT: "tainted",
    Bucket.LABEL: "without the required labels",
    Bucket.AFFINITY: "excluded by affinity",
    Bucket.TOO_SMALL: "too small",
    Bucket.BUSY: "busy",
}


def describe_amount(resource: str, amount: int) -> str:
    """An amount with the name of its resource: "2 CPUs", "4Gi of memory", "8 nvidia.com/gpu"."""
    if resource == "cpu":
        return f"{format_amount(resource, amount)} {'CPU' if 0 < amount <= CPU_MILLI else 'CPUs'}"
    of = "of " if resource in _BYTES else ""
    return f"{format_amount(resource, amount)} {of}{resource}"


def format_amount(resource: str, amount: int) -> str:
    """An amount as users write it: cpu in whole CPUs, bytes in binary units."""
    if resource == "cpu":
        return f"{amount / CPU_MILLI:g}"
    if resource in _BYTES:
        for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
            if amount >= 1 << power:
                return f"{amount / (1 << power):.4g}{unit}"
    return str(amount)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def choose_verb(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def count_eligible(plan: Plan, row: int) -> int:
    """How many nodes are eligible for the row's shape and accept new jobs."""
    return int(plan.reasons.counts[row, Bucket.BUSY] + plan.reasons.counts[row, Bucket.OPEN])


def describe_nodes(plan: Plan, row: int) -> str:
    """The number of nodes that are excluded, by the first reason that excludes each (E3)."""
    counts = plan.reasons.counts[row]
    total = plural(int(counts.sum()), "node")
    parts = [(int(counts[bucket]), text) for bucket, text in _EXCLUDED.items() if counts[bucket]]
    if not parts:
        return f"none of {total} is excluded"
    listed = [f"{count} {choose_verb(count, 'is', 'are')} {text}" for count, text in parts]
    return f"of {total}, {', '.join(listed)}"
