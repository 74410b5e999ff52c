"""The rules of scheduling as settings, cases and simulations define them: limits, rates,
placement."""

import math
from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_common.domain.errors import FieldError
from fairlead_scheduler.state import pool_topology

PLACEMENTS: Final = ("best-fit", "spread", "pack")
WEIGHT_MAX: Final = 1e6
"""The greatest weight of a resource in the resource score (G9)."""
AVOIDED_MAX: Final = 64
"""The most nodes that a job avoids; the oldest are dropped first."""


class Rate(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The rate of a token bucket, which holds at most `burst` tokens."""

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
    ceiling: dict[str, dict[str, float]] | UnsetType = UNSET
    cost_multipliers: dict[str, float] | UnsetType = UNSET
    score_weights: dict[str, float] | UnsetType = UNSET
    placement: str | UnsetType = UNSET
    gang_assembly_timeout_s: int | UnsetType = UNSET
    topology: tuple[str, ...] | UnsetType = UNSET

    def given(self) -> dict[str, object]:
        """What is set here, by field."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value is not UNSET}


class Rules(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The rules of scheduling (docs/rules.md), with the same names in cases and simulations.

    Fractions are of the pool's total. `class_limits`: class -> resource -> what a queue without a
    limit of its own holds at most; `ceiling`: the same for every queue. `floating` maps a resource
    that is on no node to how much of it there is, in whole units. `score_weights`: weights of
    resources in the score by which queues with `order: fair` count running time, beside those of
    `resource_scores.py`. `max_unacknowledged_leases` counts per executor.
    `topology`: node labels of its levels, widest first (T1). `pools`: other rules for
    the pools of these names.
    """

    protected_fraction_of_fair_share: float = 1.0
    round_limit: dict[str, float] = {}
    rate: Rate | None = None
    queue_rate: Rate | None = None
    preemption_rate: Rate | None = None
    lookback: int = 0
    floating: dict[str, float] = {}
    class_limits: dict[str, dict[str, float]] = {}
    ceiling: dict[str, dict[str, float]] = {}
    cost_multipliers: dict[str, float] = {}
    score_weights: dict[str, float] = {}
    max_unacknowledged_leases: int = 2_500
    placement: str = "best-fit"
    gang_assembly_timeout_s: int = 0
    group_freeze_s_max: int = 600
    topology: tuple[str, ...] = ()
    pools: dict[str, PoolRules] = {}

    def for_pool(self, pool: str) -> "Rules":
        """The rules of a pool: these, but for what is set for it."""
        own = self.pools.get(pool)
        if own is None:
            return self
        return msgspec.structs.replace(self, pools={}, **own.given())

    def find_errors(self, class_names: Collection[str]) -> list[FieldError]:
        """The field errors of these rules and of rules of single pools, by the setting's name."""
        found = self._find_own_errors(class_names)
        for pool, own in self.pools.items():
            given = Rules(**own.given())  # type: ignore[arg-type]  # fields of the same types
            place = f"rules.pools.{pool}"
            found += [
                FieldError(error.pointer.replace("rules", place, 1), error.detail)
                for error in given._find_own_errors(class_names)
            ]
        return found

    def _find_own_errors(self, class_names: Collection[str]) -> list[FieldError]:
        """The field errors of these rules, without rules of single pools."""
        found: list[FieldError] = []
        protected = self.protected_fraction_of_fair_share
        found += check_number("rules.protectedFractionOfFairShare", protected, least=0)
        for name, fraction in self.round_limit.items():
            place = f"rules.roundLimit.{name}"
            found += check_number(place, fraction, least=0, most=1, open_end=True)
        for rate_name in ("rate", "queue_rate", "preemption_rate"):
            rate: Rate | None = getattr(self, rate_name)
            if rate is not None:
                place = f"rules.{camel(rate_name)}"
                found += check_number(f"{place}.perSecond", rate.per_second, least=0, open_end=True)
                found += check_number(f"{place}.burst", rate.burst, least=1)
        for table in ("class_limits", "ceiling"):
            found += _check_classes(f"rules.{camel(table)}", getattr(self, table), class_names)
        for table in ("floating", "cost_multipliers"):
            for name, amount in getattr(self, table).items():
                found += check_number(f"rules.{camel(table)}.{name}", amount, least=0)
        for name, weight in self.score_weights.items():
            place = f"rules.scoreWeights.{name}"
            found += check_number(place, weight, least=0, most=WEIGHT_MAX)
        for name, amount in self.floating.items():
            if math.isfinite(amount) and amount != int(amount):
                detail = f"is {amount}; {name} is counted in whole units"
                found.append(FieldError(f"rules.floating.{name}", detail))
        found += check_number("rules.lookback", self.lookback, least=0)
        unacknowledged = self.max_unacknowledged_leases
        found += check_number("rules.maxUnacknowledgedLeases", unacknowledged, least=1)
        found += check_number("rules.gangAssemblyTimeoutS", self.gang_assembly_timeout_s, least=0)
        found += check_number("rules.groupFreezeSMax", self.group_freeze_s_max, least=0)
        found += pool_topology.find_topology_errors("rules.topology", self.topology)
        if self.placement not in PLACEMENTS:
            detail = f"is {self.placement!r}; choose one of {', '.join(PLACEMENTS)}"
            found.append(FieldError("rules.placement", detail))
        return found


def _check_classes(
    place: str, limits: Mapping[str, Mapping[str, float]], class_names: Collection[str]
) -> list[FieldError]:
    """What is wrong with limits by class."""
    found: list[FieldError] = []
    for name, fractions in limits.items():
        if name not in class_names:
            detail = f"is not a priority class; choose one of {', '.join(sorted(class_names))}"
            found.append(FieldError(f"{place}.{name}", detail))
        for resource, fraction in fractions.items():
            found += check_number(f"{place}.{name}.{resource}", fraction, least=0, most=1)
    return found


def camel(name: str) -> str:
    """The name of a setting for the name of its field."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def check_number(
    name: str, value: float, *, least: float, most: float = math.inf, open_end: bool = False
) -> list[FieldError]:
    """What is wrong with a number; `open_end`: it must be above `least`."""
    if math.isfinite(value) and least <= value <= most and not (open_end and value == least):
        return []
    bound = f"must be {'above' if open_end else 'at least'} {least:g}"
    return [
        FieldError(name, f"is {value}; it {bound}{f' and at most {most:g}' * (most < math.inf)}")
    ]
