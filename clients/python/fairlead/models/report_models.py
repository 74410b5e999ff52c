"""Reports about queues and pools: shares, rounds, reasons of waiting jobs, and usage over time.

A share is a fraction: 1.0 is the whole pool. Amounts are cores, bytes and units (times hours).
"""

from msgspec import field

from fairlead.models.model_bases import ResponseModel


class WaitingReport(ResponseModel, frozen=True, kw_only=True):
    """Why a group of `jobs` queued jobs waits: the jobs of one shape, or a gang.

    `nodes`: the number of nodes by the reason that excludes them.
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


class QueueShare(ResponseModel, frozen=True, kw_only=True):
    """The state of a queue in a pool. `skipped`: the number of waiting jobs by reason code.

    `first_waiting`: the id of the first waiting job; `first_position`: its position, from 0.
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


class Round(ResponseModel, frozen=True, kw_only=True):
    """One scheduling round of a pool. `outcome`: finished, stopped (by the limit `stopped_by`) or
    failed (with `error`). `topology`: the levels of the pool, widest first.
    """

    time: str
    outcome: str
    stopped_by: str | None = None
    error: str | None = None
    scheduled: int
    preempted: int
    waiting: int
    nodes: int
    steps_ms: dict[str, float]
    topology: tuple[str, ...] = ()


class Rounds(ResponseModel, frozen=True, kw_only=True):
    """The last rounds of a pool, newest first."""

    pool: str
    rounds: tuple[Round, ...]


class QueueReport(ResponseModel, frozen=True, kw_only=True):
    """A queue's state in each pool, its limits, and why its jobs wait (jobs by reason code)."""

    queue: str
    weight: float | None = None
    order: str = "fifo"
    cordoned: bool = False
    reason: str | None = None
    limits: dict[str, dict[str, float | str]] = field(default_factory=dict)
    shares: tuple[QueueShare, ...] = ()
    waiting: tuple[WaitingReport, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)


class PoolReport(ResponseModel, frozen=True, kw_only=True):
    """A pool's last round, its queues' shares, and why jobs wait (jobs by reason code)."""

    pool: str
    round: Round | None = None
    shares: tuple[QueueShare, ...] = ()
    waiting: tuple[WaitingReport, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)


class ShareSample(ResponseModel, frozen=True, kw_only=True):
    """The mean shares and numbers of jobs of a queue in a pool, over the step that begins at
    `time`.
    """

    time: str
    pool: str
    share: float
    fair_share: float
    demand_share: float
    queued: float
    running: float


class Usage(ResponseModel, frozen=True, kw_only=True):
    """The resource-hours of a queue in the hour that begins at `time`: of all its runs (`used`),
    and of preempted runs (`lost`).
    """

    time: str
    pool: str
    used: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)


class UserUsage(ResponseModel, frozen=True, kw_only=True):
    """The resource-hours of the jobs that a user submitted. The user `""` is all that are not
    recorded by name.
    """

    user: str
    used: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)


class Fairness(ResponseModel, frozen=True, kw_only=True):
    """The shares and the usage of a queue over time: one of `points` per step and pool, one of
    `usage` per hour and pool, one of `users` per user (those who used most processor time), and the
    totals `used` and `lost`.
    """

    queue: str
    from_: str = field(name="from")
    to: str
    step_seconds: int
    points: tuple[ShareSample, ...] = ()
    usage: tuple[Usage, ...] = ()
    users: tuple[UserUsage, ...] = ()
    used: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
