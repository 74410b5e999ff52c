"""Settings of the scheduler, on top of those that every service has."""

from typing import Final

import msgspec

from fairlead_common.classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.settings import Settings

LEASES_PER_APPEND_MAX: Final = 2_500
APPEND_BYTES_MAX: Final = 16 * 1_048_576


class Rate(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A token bucket: `per_second` tokens are added, at most `burst` are kept."""

    per_second: float
    burst: float


class Rules(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What the engine is told (scheduling.md); the same names are used by cases and simulations.

    Fractions are of the pool's total. `floating` maps a resource that is on no node to how much of
    it there is. `max_unacknowledged_leases` counts per executor.
    """

    protected_fraction_of_fair_share: float = 1.0
    round_limit: dict[str, float] = {}
    rate: Rate | None = None
    queue_rate: Rate | None = None
    preemption_rate: Rate | None = None
    lookback: int = 0
    floating: dict[str, float] = {}
    class_limits: dict[str, dict[str, float]] = {}
    cost_multipliers: dict[str, float] = {}
    max_unacknowledged_leases: int = 2_500
    placement: str = "best-fit"
    gang_assembly_timeout_s: int = 0


class SchedulerSettings(Settings, frozen=True, kw_only=True, rename="camel"):
    """`cycle_s`: a cycle at least this often; `cycle_s_min`: never more often than this.

    An executor is stale after `executor_stale_s` without a heartbeat (nothing new goes there) and
    lost after `executor_timeout_s` (its runs are given up). So are the runs on a node that its
    executor has reported gone for `node_gone_s`. A run that is beyond its maximum run time is
    stopped by its executor, else after `deadline_grace_s` (and its own grace) by the scheduler.
    """

    http_port: int = 8082
    priority_classes: tuple[PriorityClass, ...] = DEFAULT_CLASSES
    rules: Rules = Rules()
    cycle_s: float = 1.0
    cycle_s_min: float = 0.2
    checkpoint_s: float = 1.0
    executor_stale_s: float = 30.0
    executor_timeout_s: float = 600.0
    node_gone_s: float = 60.0
    deadline_grace_s: float = 60.0
    round_s_max: float = 5.0
    ended_kept_days: int = 30
    standby_poll_s: float = 0.5
    retries_unstarted_max: int = 10
