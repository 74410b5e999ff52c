"""What the engine is given: one pool as columns, and settings. `round_plan.py` has its answer.

A snapshot is one pool at one moment. Everything in it is an array or a small tuple of names; jobs,
nodes, shapes and gangs are *rows* and refer to each other by row number. The engine never changes
an array that it is given, so the service may keep them between rounds and share them.

Letters used for shapes of arrays: R resources on nodes, F floating resources, Q queues, C priority
classes, K away entries of the class that has most of them, S shapes, T node types, N nodes, J jobs,
G gangs, U uniformity labels, A avoided pairs.

Units: amounts are integers in the unit of their resource (cpu in milli, bytes, devices); times are
milliseconds of one clock; shares are fractions of the pool; tokens are jobs.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import by_address
from fairlead_scheduler.engine.topology import Topology

Bool = npt.NDArray[np.bool_]
Byte = npt.NDArray[np.uint8]
Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

UNLIMITED: Final = float("inf")
"""No limit."""

TOTAL_MAX: Final = 1 << 61
"""Sums are capped at this: the demand for a resource, and its total on all nodes. Single amounts
are at most 2**53 (fairlead_common.domain.scheduling.quantities.AMOUNT_MAX)."""

NO_AWAY: Final = np.iinfo(np.int64).min
"""Fills `class_away_value` where a class has fewer entries than K."""


class Preemption(enum.IntEnum):
    """By which rules runs of a class may be stopped (`class_preemption`)."""

    ANY = 0
    URGENCY = 1
    NONE = 2


class NodeFlag(enum.IntFlag):
    """Why no new job is placed on a node (`node_flags`, or-ed), overfull nodes aside."""

    LOST = 1
    """Its executor is stale: its runs are left alone and counted nowhere (R1)."""
    CORDONED = 2
    """The node is unschedulable, or its executor is cordoned (R1)."""
    LAGGING = 4
    """Its executor has not taken up too many leases (L9)."""
    AVOIDED = 8
    """Beside `CORDONED`: its executor avoids it, because runs failed to start there (R1)."""


class SchedulingFlag(enum.IntFlag):
    """Further properties of a job (`job_flags`, or-ed)."""

    STOPPING = 1
    """Its run is being stopped and still holds capacity: never evicted, never a victim."""
    WAITS_IF_INFEASIBLE = 2
    """The job stays queued when it is infeasible: it is never listed in `Plan.rejected_job` as
    `INFEASIBLE`, it only has the reason. One such member keeps its whole gang queued."""


class Rest(enum.IntEnum):
    """What happens to members above `minSize` that cannot be placed (`gang_rest`)."""

    WAIT = 0
    FAIL = 1


class Match(enum.IntEnum):
    """The first reason why a node type is not eligible for a shape (`shape_match`)."""

    ELIGIBLE = 0
    TAINT = 1
    LABEL = 2
    AFFINITY = 3


class Cause(enum.IntEnum):
    """Why a run is preempted (R8)."""

    FAIR_SHARE = 0
    URGENCY = 1
    GANG = 2
    SURPLUS = 3


class Tier(enum.IntEnum):
    """On which placement tier (N2) a job found its node."""

    FREE = 0
    FAIR_SHARE = 1
    URGENCY = 2


class Code(enum.IntEnum):
    """Reason codes (E1). `reason_texts.CODE_NAMES` has the written forms, such as `queue-limit`."""

    NONE = 0
    QUEUE_CORDONED = 1
    QUEUE_LIMIT = 2
    ROUND_LIMIT = 3
    RATE_LIMIT = 4
    GANG_EXCEEDS_BURST = 5
    LOOKBACK_LIMIT = 6
    TIME_LIMIT = 7
    FLOATING_LIMIT = 8
    PREEMPTION_LIMIT = 9
    EXECUTOR_LAGGING = 10
    NO_MATCHING_NODE = 11
    INSUFFICIENT_RESOURCES = 12
    OVER_FAIR_SHARE = 13
    GANG_INCOMPLETE = 14
    GANG_DOES_NOT_FIT = 15
    GANG_REST = 16
    NOT_REACHED = 17
    INFEASIBLE = 18
    ALL_NODES_TRIED = 19
    GROUP_FROZEN = 20
    GROUP_STEP = 21
    TOPOLOGY_LEVEL = 22


class Bucket(enum.IntEnum):
    """Columns of `Reasons.counts`: nodes by the first reason that excludes them (E3)."""

    LOST = 0
    AVOIDED = 1
    CORDONED = 2
    OVERFULL = 3
    LAGGING = 4
    TAINT = 5
    LABEL = 6
    AFFINITY = 7
    TOO_SMALL = 8
    BUSY = 9
    OPEN = 10
    """No reason excludes them: there is free capacity, and the job waits for a limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EngineSettings:
    """The settings of a round. Resources have the names in `Snapshot.resources` and `floating`."""

    protected_fraction: float = 1.0
    """R2: no run of a queue at or below this times its fair share is evicted."""
    round_limit: Mapping[str, float] = field(default_factory=dict)
    """L3: fraction of the pool by resource; 1.0 for a resource that is not named."""
    cost_multipliers: Mapping[str, float] = field(default_factory=dict)
    """Multiplier of a resource in the cost (default 1.0; 0 = ignored)."""
    lookback: int = 0
    """L5: new jobs examined per queue and round; 0 = all."""
    placement: Literal["best-fit", "spread", "pack"] = "best-fit"
    """N3: the order in which nodes are tried on tier (a)."""
    fit_order: tuple[str, ...] = ()
    """N3: resources by which best fit compares, first first; () = devices by name, cpu, memory."""
    gang_assembly_timeout_ms: int = 0
    """N9: an incomplete gang older than this is rejected; 0 = never."""
    offers_per_check: int = 4096
    """L6: the most offers handled between two calls of `expired()`."""
    work_per_check: int = 200_000
    """L6: jobs tried, and nodes, runs, shapes and label values examined, between two calls of
    `expired()`; a single offer can exceed it."""
    pairs_per_check: int = 5_000_000
    """L6: waiting rows times nodes compared between two calls of `expired()`."""


@by_address
class JobTotals(NamedTuple):
    """Totals over the jobs of a snapshot. The service may keep them and apply what changed.

    They must equal what `job_totals.count_jobs` computes from the snapshot (`head`, `link` and
    `back` up to the order of the runs of a node).
    """

    used: Int64
    """[N, R] what live runs hold; runs on lost nodes as well."""
    runs: Int64
    """[N] live runs."""
    running: Int64
    """[Q, S] live runs; those on lost nodes as well."""
    queued: Int64
    """[Q, S] queued jobs."""
    head: Int32
    """[N] one of the node's live runs, -1 on a node without live runs ..."""
    link: Int32
    """[J] ... the one after it on its node, -1 for none ..."""
    back: Int32
    """[J] ... and the one before it."""
    values: Int64
    """[V] the distinct values that live runs run at (`job_value`), ascending; [0] without them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """One pool at one moment, as columns. See the module for letters and units.

    Rows may be in any order, and the plan does not depend on it (R12), with three exceptions that
    are part of the meaning: queues by name ascending; values of a uniformity label numbered by
    value ascending; and the two optional orders of jobs, which must be right when they are given.
    """

    pool: str
    now_ms: int

    # Resources ------------------------------------------------------------------------------
    resources: tuple[str, ...]
    """R names of what nodes offer, for example ("cpu", "memory", "nvidia.com/gpu")."""
    floating: tuple[str, ...] = ()
    """F names of what exists in the pool but on no node (licences)."""
    floating_total: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """[F] how much of each there is."""

    # Queues ---------------------------------------------------------------------------------
    queue_names: tuple[str, ...]
    """Q names, ascending, each once. A queue without jobs in the pool can be left out."""
    queue_weight: Float
    """[Q] above 0."""
    queue_cordoned: Bool
    """[Q] L1."""
    queue_limit_fraction: Float | None = None
    """[Q, C, R+F] L2 as fraction of the pool (inf = none): the queue's own, or else the class's."""
    queue_limit_amount: Float | None = None
    """[Q, C, R+F] L2 as absolute amount (inf = none). Both limits hold where both are given."""
    class_ceiling: Float | None = None
    """[C, R+F] L2 as fraction of the pool (inf = none): binds every queue."""
    queue_tokens: Float | None = None
    """[Q] L4: tokens now in the queue's bucket (inf = no limit)."""
    queue_burst: float = UNLIMITED
    """L4: size of a full queue bucket."""
    tokens: float = UNLIMITED
    """L4: tokens now in the global bucket."""
    burst: float = UNLIMITED
    """L4: size of the full global bucket."""
    preemption_tokens: float = UNLIMITED
    """L8: tokens now in the pool's bucket for preemptions for fair share."""

    # Priority classes -----------------------------------------------------------------------
    class_names: tuple[str, ...]
    class_value: Int64
    """[C] greater = more urgent."""
    class_preemption: Byte
    """[C] a `Preemption`."""
    class_away_value: Int64 | None = None
    """[C, K] N6: value at which a job of the class runs under its k-th away entry; `NO_AWAY`."""

    # Shapes ---------------------------------------------------------------------------------
    shape_request: Int64
    """[S, R] what one job of the shape needs on its node; at least 0."""
    shape_floating: Int64 | None = None
    """[S, F] what it needs beside its node; None = nothing."""
    shape_class: Int32
    """[S] row of its priority class."""
    shape_match: Byte
    """[S, 1+K, T] a `Match`: at home in [:, 0], under the k-th away entry in [:, k]. Without away
    classes K is 0. `node_matching.match_shapes` makes it. Sizes are not compared here."""
    shape_rank: Byte | None = None
    """[S, T] rank of the type among those that the shape prefers, 0 first (N1: PreferNoSchedule,
    preferred affinity); None = nothing is preferred. `node_matching.rank_types` makes it."""

    shape_fitted: Bool | None = None
    """[S] whether the shape was found feasible before (`Plan.shape_feasible`): its single jobs are
    not rejected as `INFEASIBLE` any more, they wait with this reason. Gangs: see `gang_fitted`."""

    # Nodes ----------------------------------------------------------------------------------
    node_number: Int64
    """[N] the node's permanent, unique number: the last criterion of every comparison of nodes."""
    node_allocatable: Int64
    """[N, R] what the node has for jobs; at least 0. All known nodes, flagged ones too."""
    node_type: Int32
    """[N] row of its type in `shape_match`."""
    node_flags: Byte
    """[N] a `NodeFlag`."""
    label_names: tuple[str, ...] = ()
    """U uniformity labels that gangs name."""
    node_label: Int32 | None = None
    """[U, N] value of the label on the node, numbered by value ascending; -1 = has none."""

    # Jobs -----------------------------------------------------------------------------------
    job_queue: Int32
    """[J] row of its queue."""
    job_shape: Int32
    job_priority: Int64
    """[J] greater goes first; that of a surplus member counts as lower (`surplus.py`)."""
    job_submission: Int64
    """[J] place in the log, each once, smaller = earlier. Where a rule says "id", this is it."""
    job_node: Int32
    """[J] row of the node of its live run, -1 for a queued job, -2 for a row that takes no part: it
    has no job, or one that is held, delayed or of another pool, and its other columns can have any
    value. A run whose capacity is reassigned (it is in the `after` of a lease) takes no part
    either."""
    job_gang: Int32 | None = None
    """[J] row of its gang or -1; None = no gangs."""
    job_started_ms: Int64
    """[J] when the live run was leased; anything for a queued job."""
    job_weighted_time: Float | None = None
    """[J] G9, of the job or its gang; 0 in queues without `order: fair`; None = all 0."""
    job_value: Int64 | None = None
    """[J] value of the live run: that of its away entry or class; None = all of their class."""
    job_checkpoint_ms: Int64 | None = None
    """[J] last checkpoint that the run reported; 0 = none."""
    job_checkpoint_interval_ms: Int64 | None = None
    """[J] the checkpoint-interval annotation; 0 = none."""
    job_flags: Byte | None = None
    """[J] a `SchedulingFlag`."""
    avoid_job: Int32 | None = None
    """[A] N10: job rows ..."""
    avoid_node: Int32 | None = None
    """[A] ... and the node rows that they avoid."""

    # What the service can keep between rounds (None = the engine sorts, and adds up) ----------
    job_totals: JobTotals | None = None
    queued_beside: Int64 | None = None
    """[Q, S] waiting tasks of arrays, which are not jobs; they count in the demand."""
    queued_order: Int32 | None = None
    """Rows of queued jobs: by queue, class value descending, then as R3, G9 say (job_order.py)."""
    running_order: Int32 | None = None
    """As `queued_order`, of all jobs with a live run, with start ascending before submission."""

    # Gangs ----------------------------------------------------------------------------------
    gang_min: Int32 | None = None
    """[G] `minSize`, at least 1 for a gang without roles; None = no gangs."""
    gang_label: Int32 | None = None
    """[G] row in `label_names` or -1."""
    gang_rest: Byte | None = None
    """[G] a `Rest`."""
    gang_started: Bool | None = None
    """[G] whether a member that ran has ended: the other members do not start together any more,
    and once none runs they follow N9. False after all members were preempted and queued again."""
    gang_submitted_ms: Int64 | None = None
    """[G] when its first member was submitted (for the assembly time-out)."""
    gang_fitted: Bool | None = None
    """[G] whether the gang was found feasible before (`Plan.gang_feasible`): it is not rejected any
    more."""

    # Roles of groups; the engine gives a plain gang one role with its `gang_min` -----------------
    job_role: Int32 | None = None
    """[J] row of its role or -1; None = no groups."""
    role_names: tuple[str, ...] = ()
    """K names, for texts."""
    role_gang: Int32 | None = None
    """[K] its gang; -1 for a row without a role."""
    role_place: Int32 | None = None
    """[K] place in the order of its group's roles."""
    role_min: Int32 | None = None
    """[K] members that the group needs, at least 0. `gang_min` is the sum, which can be 0."""
    role_max: Int32 | None = None
    role_step: Int32 | None = None
    """[K] most surplus members that start in a round; 0 = any number (G8)."""
    gang_frozen: Bool | None = None
    """[G] whether the group is frozen now (G7); None = none is."""
    gang_freezes: Bool | None = None
    """[G] whether the group has a freeze time: it freezes after surplus starts or stops (G7)."""
    topology: Topology | None = None
    """Rules T; None = no gang asks for one, or the pool has none."""
