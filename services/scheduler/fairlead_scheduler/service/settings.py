"""Settings of the scheduler, on top of those that every service has."""

import math
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_common.domain import priority_classes
from fairlead_common.domain.errors import Fault
from fairlead_common.domain.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.service.settings import Settings, SettingsError

LEASES_PER_APPEND_MAX: Final = 2_500
APPEND_BYTES_MAX: Final = 16 * 1_048_576
PLACEMENTS: Final = ("best-fit", "spread", "pack", "fragmentation")
AVOIDED_MAX: Final = 64
"""Most nodes that a job remembers to avoid."""


class Rate(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A token bucket: `per_second` tokens are added, at most `burst` are kept."""

    per_second: float
    burst: float


class PoolRules(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """Rules of one pool. What is set here replaces the whole value of the same name in `rules`; a
    rate that is `null` lifts that limit.
    """

    protected_fraction_of_fair_share: float | UnsetType = UNSET
    round_limit: dict[str, float] | UnsetType = UNSET
    rate: Rate | UnsetType | None = UNSET
    queue_rate: Rate | UnsetType | None = UNSET
    preemption_rate: Rate | UnsetType | None = UNSET
    lookback: int | UnsetType = UNSET
    floating: dict[str, float] | UnsetType = UNSET
    class_limits: dict[str, dict[str, float]] | UnsetType = UNSET
    cost_multipliers: dict[str, float] | UnsetType = UNSET
    placement: str | UnsetType = UNSET
    gang_assembly_timeout_s: int | UnsetType = UNSET

    def given(self) -> dict[str, object]:
        """What is set here, by field."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value is not UNSET}


class Rules(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What the engine is told (docs/rules.md); the same names are used by cases and simulations.

    Fractions are of the pool's total. `floating` maps a resource that is on no node to how much of
    it there is. `max_unacknowledged_leases` counts per executor. `pools`: other rules for the pools
    of these names.
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
    pools: dict[str, PoolRules] = {}

    def of(self, pool: str) -> "Rules":
        """The rules of a pool: these, but for what is set for it."""
        own = self.pools.get(pool)
        if own is None:
            return self
        return msgspec.structs.replace(self, pools={}, **own.given())

    def faults(self, class_names: Collection[str]) -> list[Fault]:
        """What contradicts itself, by the setting's name."""
        found = self._own_faults(class_names)
        for pool, own in self.pools.items():
            given = Rules(**own.given())  # type: ignore[arg-type]  # fields of the same types
            place = f"rules.pools.{pool}"
            found += [
                Fault(fault.pointer.replace("rules", place, 1), fault.detail)
                for fault in given._own_faults(class_names)
            ]
        return found

    def _own_faults(self, class_names: Collection[str]) -> list[Fault]:
        """Faults of these rules, without those of single pools."""
        found: list[Fault] = []
        protected = self.protected_fraction_of_fair_share
        found += _faults_of("rules.protectedFractionOfFairShare", protected, least=0)
        for name, fraction in self.round_limit.items():
            place = f"rules.roundLimit.{name}"
            found += _faults_of(place, fraction, least=0, most=1, open_end=True)
        for rate_name in ("rate", "queue_rate", "preemption_rate"):
            rate: Rate | None = getattr(self, rate_name)
            if rate is not None:
                place = f"rules.{_camel(rate_name)}"
                found += _faults_of(f"{place}.perSecond", rate.per_second, least=0, open_end=True)
                found += _faults_of(f"{place}.burst", rate.burst, least=1)
        for name, limits in self.class_limits.items():
            if name not in class_names:
                known = ", ".join(sorted(class_names))
                detail = f"is no priority class; there are {known}"
                found.append(Fault(f"rules.classLimits.{name}", detail))
            for resource, fraction in limits.items():
                place = f"rules.classLimits.{name}.{resource}"
                found += _faults_of(place, fraction, least=0, most=1)
        for table in ("floating", "cost_multipliers"):
            for name, amount in getattr(self, table).items():
                found += _faults_of(f"rules.{_camel(table)}.{name}", amount, least=0)
        found += _faults_of("rules.lookback", self.lookback, least=0)
        unacknowledged = self.max_unacknowledged_leases
        found += _faults_of("rules.maxUnacknowledgedLeases", unacknowledged, least=1)
        found += _faults_of("rules.gangAssemblyTimeoutS", self.gang_assembly_timeout_s, least=0)
        if self.placement not in PLACEMENTS:
            detail = f"is {self.placement!r}; choose one of {', '.join(PLACEMENTS)}"
            found.append(Fault("rules.placement", detail))
        return found


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

    def faults(self) -> list[Fault]:
        """What types cannot say, by the setting's name."""
        found = priority_classes.faults(self.priority_classes)
        found += self.rules.faults({item.name for item in self.priority_classes})
        above = ("cycle_s", "cycle_s_min", "checkpoint_s", "executor_stale_s", "executor_timeout_s")
        for name in (*above, "round_s_max", "standby_poll_s", "node_gone_s"):
            found += _faults_of(_camel(name), getattr(self, name), least=0, open_end=True)
        found += _faults_of("deadlineGraceS", self.deadline_grace_s, least=0)
        found += _faults_of("endedKeptDays", self.ended_kept_days, least=1)
        unstarted = self.retries_unstarted_max
        found += _faults_of("retriesUnstartedMax", unstarted, least=1, most=AVOIDED_MAX)
        if self.executor_stale_s >= self.executor_timeout_s:
            found.append(
                Fault(
                    "executorTimeoutS",
                    f"is {self.executor_timeout_s}; an executor is stale before its runs are given"
                    f" up: set it above executorStaleS ({self.executor_stale_s})",
                )
            )
        if self.cycle_s_min > self.cycle_s:
            detail = f"is {self.cycle_s_min}, above cycleS ({self.cycle_s})"
            found.append(Fault("cycleSMin", detail))
        return found

    def check(self) -> None:
        """Raises `SettingsError` if there are faults."""
        if found := self.faults():
            raise SettingsError(found)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _faults_of(
    name: str, value: float, *, least: float, most: float = math.inf, open_end: bool = False
) -> list[Fault]:
    """What is wrong with a number; `open_end`: it must be above `least`."""
    if math.isfinite(value) and least <= value <= most and not (open_end and value == least):
        return []
    bound = f"must be {'above' if open_end else 'at least'} {least:g}"
    return [Fault(name, f"is {value}; it {bound}{f' and at most {most:g}' * (most < math.inf)}")]
