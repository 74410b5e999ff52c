"""What the engine answers: the plan of a round, with its reasons and shares.

Letters and units are those of snapshot.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fairlead_scheduler.engine.snapshot import Bool, Byte, Code, Float, Int32, Int64
from fairlead_scheduler.engine.topology import Nearness


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shares:
    """Rules S, one number per queue, [Q] each, in the order of `Snapshot.queue_names`.

    They are as of the start of the round. A queue that takes no part has zeros.
    """

    weight: Float
    fair: Float
    uncapped: Float
    actual: Float
    demand: Float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reasons:
    """Why things wait after the round: M rows, per (queue, shape) or per gang (E2).

    A single queued job that was not placed has the reason of its (queue, shape); the member of a
    gang that of its gang, where there is one, else that of its (queue, shape).
    `reason_texts.describe_reason` puts one into words.
    """

    queue: Int32
    """[M]"""
    shape: Int32
    """[M] -1 in a gang's row."""
    gang: Int32
    """[M] -1 in a shape's row."""
    code: Byte
    """[M] a `Code`."""
    counts: Int32
    """[M, 11] nodes by `Bucket`; each row adds up to N (a gang is counted by its first member)."""
    resource: Int32
    """[M] the resource that is short on most busy nodes, a row of resources + floating; -1."""
    needed: Int64
    """[M] how much of it is needed (on one node; or what a limit would have had to allow)."""
    best: Int64
    """[M] the most of it that is free on any suitable node; or what the limit still allows."""
    waiting: Int64
    """[M] jobs that wait for this reason; 0 where all of them were refused in this round."""
    others_hold_more: Bool
    """[M] for `over-fair-share`: whether another queue whose evicted runs returned holds more per
    weight than this queue would with the job."""
    exceeds_share: Bool
    """[M] the same, where evicted runs returned: whether it would exceed its fair share."""
    role: Int32
    """[M] of a group's row, the role that does not fit or whose surplus member is next; else -1."""
    role_members: Int32
    """[M] how many members of that role fit, or run after the round."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """What the round decided. Job, node, queue and gang numbers are rows of the snapshot."""

    pool: str

    placed_job: Int32
    """[P] queued jobs that start now, in the order in which they were decided."""
    placed_node: Int32
    """[P]"""
    placed_value: Int64
    """[P] the value it runs at."""
    placed_tier: Byte
    """[P] a `Tier`."""

    preempted_job: Int32
    """[V] runs to stop, by row of the job. A placement on a node where a run is preempted starts
    `after` the preempted runs of that node."""
    preempted_cause: Byte
    """[V] a `Cause`."""
    preemptor_job: Int32
    """[V] the newly placed job that it is preempted for."""
    preempted_share: Float
    """[V] share / fair share of the victim's queue before the run was taken (E5)."""
    preemptor_share: Float
    """[V] share / fair share of the preemptor's queue with its job placed (E5)."""

    rejected_job: Int32
    """[X] queued jobs that can never run: `INFEASIBLE` (without the flag `WAITS_IF_INFEASIBLE`),
    `GANG_EXCEEDS_BURST`, `GANG_INCOMPLETE` (assembly time-out)."""
    rejected_code: Byte
    """[X]"""
    failed_job: Int32
    """[Y] queued jobs that end as failed: `GANG_REST`, `ALL_NODES_TRIED`."""
    failed_code: Byte
    """[Y]"""

    reasons: Reasons
    shares: Shares
    shape_feasible: Bool
    """[S] section 6: the shape fits a known node of the pool (cordons, load, staleness aside)."""
    gang_feasible: Bool
    """[G] complete, and its `minSize` members fit the empty pool together and their queue's
    limits; a gang that is not complete was not judged yet."""
    capacity: Int64
    """[R+F] the pool's total that shares refer to (R1)."""

    queue_scheduled: Int64
    """[Q] jobs placed."""
    queue_preempted: Int64
    """[Q] runs preempted."""
    queue_waiting: Int64
    """[Q] jobs that wait after the round."""
    queue_skipped: Int64
    """[Q, codes] how many of its jobs wait for each reason, by `Code` (E4)."""
    queue_position: Int64
    """[Q] place in the queue's order of its first job that waits, -1 when none waits."""

    stopped_by: Code
    """What ended the round early: `ROUND_LIMIT`, `RATE_LIMIT`, `TIME_LIMIT`, else `NONE`."""
    explained: bool
    """Whether `reasons`, `queue_skipped` and `queue_position` were found; else they are empty, 0
    and -1."""
    limited: bool
    """Whether a limit prevented a job from being tried: the next round can then have decisions to
    make although nothing changed (R10)."""
    tokens_used: int
    """Tokens to take from the global bucket; per queue it is `queue_scheduled`."""
    preemption_tokens_used: int
    """L8."""
    nearness: Nearness | None = None
    """T5; None without a `Snapshot.topology`."""
    gang_first: Int64 = field(default_factory=lambda: np.zeros(1, np.int64))
    """[G+1] where the members of each gang begin in `gang_members`."""
    gang_members: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    """Rows of all members of gangs that take part, by gang."""
    gang_causes: dict[Hashable, str] = field(default_factory=dict)
    """Why gangs can never run, by what they need. `infeasible_texts.py` fills it: equal gangs are
    examined once."""
    steps_ms: Mapping[str, float] = field(default_factory=dict)
    """E4: how long each step took by the clock that `schedule` was given, in order."""
