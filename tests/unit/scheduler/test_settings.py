"""Settings that contradict each other are refused at start, by name."""

import math

import msgspec
import pytest

from fairlead_common.domain.scheduling.priority_classes import (
    AwayNodeType,
    Preemption,
    PriorityClass,
)
from fairlead_common.domain.scheduling.shapes import Taint
from fairlead_common.service.settings import SettingsError
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.pool_rules import PoolRules, Rate, Rules

PLAIN = SchedulerSettings()
TAINTS = (Taint(key="gpu", value="true"),)


def rules(**fields: object) -> dict[str, object]:
    return {"rules": msgspec.structs.replace(Rules(), **fields)}


def classes(*several: PriorityClass) -> dict[str, object]:
    return {"priority_classes": several}


def one(**fields: object) -> dict[str, object]:
    return classes(msgspec.structs.replace(PriorityClass(name="p", value=5), **fields))


def away(value: int, preemption: Preemption = Preemption.ANY, taints: object = TAINTS) -> object:
    entry = AwayNodeType(taints=TAINTS, value=value)
    entry = msgspec.structs.replace(entry, taints=taints)
    return one(preemption=preemption, away_node_types=(entry,))


INVALID_SETTINGS = {
    "no class at all": (classes(), "priorityClasses: must contain at least one class"),
    "two classes of one name": (
        classes(PriorityClass(name="p", value=1), PriorityClass(name="p", value=2)),
        "priorityClasses: names 'p' 2 times",
    ),
    "a class limit above all": (one(limits={"cpu": 1.5}), "priorityClasses[0].limits.cpu: is 1.5"),
    "guests that never leave": (
        away(1, Preemption.NONE),
        "].awayNodeTypes: lets jobs of class",
    ),
    "guests above home": (away(9), "priorityClasses[0].awayNodeTypes[0].value: is 9"),
    "guests of no nodes": (away(1, taints=()), "awayNodeTypes[0].taints: is empty"),
    "a rate of nothing": (
        rules(rate=Rate(per_second=0, burst=5)),
        "rules.rate.perSecond: is 0; it must be above 0",
    ),
    "a burst below one job": (
        rules(queue_rate=Rate(per_second=1, burst=0.5)),
        "rules.queueRate.burst: is 0.5; it must be at least 1",
    ),
    "a placement of a pool that does not exist": (
        rules(pools={"gpu": PoolRules(placement="tight")}),
        "rules.pools.gpu.placement: is 'tight'",
    ),
    "a limit of a pool for a class that does not exist": (
        rules(pools={"gpu": PoolRules(class_limits={"nobody": {"cpu": 1.0}})}),
        "rules.pools.gpu.classLimits.nobody",
    ),
    "a round of nothing": (rules(round_limit={"cpu": 0}), "rules.roundLimit.cpu: is 0"),
    "a round above the pool": (rules(round_limit={"cpu": 2}), "at most 1"),
    "no number": (
        rules(protected_fraction_of_fair_share=math.nan),
        "rules.protectedFractionOfFairShare: is nan",
    ),
    "a limit of an unknown class": (
        rules(class_limits={"x": {"cpu": 0.5}}),
        "rules.classLimits.x: is not a priority class; choose one of default",
    ),
    "a ceiling of an unknown class": (
        rules(ceiling={"x": {"cpu": 0.5}}),
        "rules.ceiling.x: is not a priority class; choose one of default",
    ),
    "a ceiling above the pool": (
        rules(ceiling={"default": {"cpu": 1.5}}),
        "rules.ceiling.default.cpu: is 1.5; it must be at least 0 and at most 1",
    ),
    "a part of a licence": (
        rules(floating={"licence": 2.5}),
        "rules.floating.licence: is 2.5; licence is counted in whole units",
    ),
    "placement for fragmentation": (
        rules(placement="fragmentation"),
        "rules.placement: is 'fragmentation'; choose one of best-fit, spread, pack",
    ),
    "a level that is no label": (
        rules(topology=("zone", "the rack")),
        "rules.topology.1: is 'the rack', which is not the key of a node label",
    ),
    "two levels of one name": (
        rules(pools={"gpu": PoolRules(topology=("a.com/rack", "b.com/rack"))}),
        "rules.pools.gpu.topology.1: is 'b.com/rack'; another level has the name 'rack'",
    ),
    "nodes above racks": (
        rules(topology=("hostname", "rack")),
        "rules.topology.0: is 'hostname', the node itself, which can only be the last level",
    ),
    "too many levels": (
        rules(topology=tuple(f"level{number}" for number in range(9))),
        "rules.topology: has 9 levels; at most 8",
    ),
    "a negative licence": (rules(floating={"licence": -1}), "rules.floating.licence: is -1"),
    "a negative multiplier": (rules(cost_multipliers={"cpu": -1}), "rules.costMultipliers.cpu"),
    "a negative score": (
        rules(score_weights={"memory": -0.1}),
        "rules.scoreWeights.memory: is -0.1; it must be at least 0 and at most 1e+06",
    ),
    "an unknown order of nodes": (rules(placement="random"), "rules.placement: is 'random'"),
    "no lease at all": (rules(max_unacknowledged_leases=0), "rules.maxUnacknowledgedLeases: is 0"),
    "more nodes tried than a job remembers": (
        {"retries_unstarted_max": 65},
        "retriesUnstartedMax: is 65; it must be at least 1 and at most 64",
    ),
    "stale after lost": (
        {"executor_stale_s": 900.0},
        "executorTimeoutS: is 600.0; an executor is stale before its runs are given up",
    ),
    "a cycle shorter than the shortest": ({"cycle_s": 0.1}, "cycleSMin: is 0.2, above cycleS"),
    "a round without time": ({"round_s_max": 0.0}, "roundSMax: is 0.0; it must be above 0"),
}


@pytest.mark.parametrize(("fields", "said"), INVALID_SETTINGS.values(), ids=INVALID_SETTINGS.keys())
def test_invalid_settings_are_refused_by_name(fields: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        msgspec.structs.replace(PLAIN, **fields).check()
    assert said in str(caught.value)


def test_all_invalid_settings_are_reported_at_once() -> None:
    PLAIN.check()
    wrong = msgspec.structs.replace(PLAIN, round_s_max=-1.0, executor_timeout_s=1.0)
    with pytest.raises(SettingsError) as caught:
        wrong.check()
    assert len(caught.value.errors) == 2
