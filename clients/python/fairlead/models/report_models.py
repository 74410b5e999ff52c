"""Reports of the scheduler about queues and pools: shares, rounds, why jobs wait, use over time.

Shares are fractions: 1.0 is all of a pool. Amounts are cores, bytes and units (times hours).
"""

from msgspec import field

from fairlead.models.job_models import Answer


class Waiting(Answer, frozen=True, kw_only=True):
    """Why `jobs` jobs of a queue wait: those of one shape, or a gang.

    `nodes`: how many nodes are ruled out by what.
    """

    pool: str
    queue: str
    code: str
    sentence: str
    shape: str = ""
    job_set: str = ""
    gang: str = ""
    jobs: int = 0
    nodes: dict[str, int] = field(default_factory=dict)


class QueueShare(Answer, frozen=True, kw_only=True):
    """The state of a queue in a pool. `skipped`: waiting jobs by reason code.

    `first_waiting` is the first of them, at `first_position` (0 is the head) of the queue.
    """

    pool: str
    queue: str
    weight: float
    weight_share: float = 0.0
    fair_share: float = 0.0
    uncapped_share: float = 0.0
    actual_share: float = 0.0
    demand_share: float = 0.0
    queued: int = 0
    running: int = 0
    scheduled: int = 0
    preempted: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    first_waiting: str = ""
    first_position: int = -1


class Round(Answer, frozen=True, kw_only=True):
    """One round of scheduling in a pool. `outcome`: finished, stopped (by what) or failed (why)."""

    time: str
    outcome: str
    stopped_by: str | None = None
    error: str | None = None
    scheduled: int
    preempted: int
    waiting: int
    nodes: int
    steps_ms: dict[str, float]


class Rounds(Answer, frozen=True, kw_only=True):
    """The last rounds of a pool, newest first."""

    pool: str
    rounds: tuple[Round, ...]


class QueueReport(Answer, frozen=True, kw_only=True):
    """A queue's state in each pool, its limits, and why its jobs wait (jobs by reason code)."""

    queue: str
    weight: float | None = None
    cordoned: bool = False
    reason: str | None = None
    limits: dict[str, dict[str, float | str]] = field(default_factory=dict)
    shares: tuple[QueueShare, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)


class PoolReport(Answer, frozen=True, kw_only=True):
    """A pool's last round, its queues' shares, and why jobs wait (jobs by reason code)."""

    pool: str
    round: Round | None = None
    shares: tuple[QueueShare, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)


class ShareSample(Answer, frozen=True, kw_only=True):
    """Means of a queue in a pool over one step from `time` on: shares, jobs."""

    time: str
    pool: str
    share: float
    fair_share: float
    demand_share: float
    queued: float
    running: float


class Usage(Answer, frozen=True, kw_only=True):
    """Resource-hours of a queue's runs in the hour from `time` on; `lost`: of preempted ones."""

    time: str
    pool: str
    used: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)


class Fairness(Answer, frozen=True, kw_only=True):
    """A queue over time: a point per step and pool, usage per hour and pool, and its totals."""

    queue: str
    from_: str = field(name="from")
    to: str
    step_seconds: int
    points: tuple[ShareSample, ...] = ()
    usage: tuple[Usage, ...] = ()
    used: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
