"""L6: a round can end at any check, and the portions in between decide nothing (hypothesis)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead_scheduler.cases.case_file import Case
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.engine import EngineSettings, Plan, schedule
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.snapshot import Code
from tests.properties.engine import plain
from tests.properties.engine.plain import Pool
from tests.properties.engine.plain_reasons import check_preemptors
from tests.properties.engine.worlds import BOUNDED, cases


def in_small_portions(settings: EngineSettings) -> EngineSettings:
    """The clock is asked as often as it can be."""
    return replace(settings, offers_per_check=1, work_per_check=1, pairs_per_check=1)


@BOUNDED
@given(cases())
def test_a_round_in_small_portions_decides_the_same(case: Case) -> None:
    world = World(case)
    for turn in case.rounds:
        world.begin(turn, 0)
        built = world.build()
        plan = schedule(built.snapshot, world.engine)
        again = schedule(built.snapshot, in_small_portions(world.engine))
        assert flatten(again) == flatten(plan)
        world.settle(built, plan)


@BOUNDED
@given(cases(), st.integers(1, 80))
def test_whenever_time_is_up_the_plan_keeps_the_rules(case: Case, check: int) -> None:
    world = World(case)
    for turn in case.rounds:
        world.begin(turn, 0)
        built = world.build()
        asked: list[bool] = []

        def expired(asked: list[bool] = asked) -> bool:
            asked.append(len(asked) + 1 == check)
            return asked[-1]

        plan = schedule(built.snapshot, in_small_portions(world.engine), expired=expired)
        pool = Pool(built.snapshot, world.engine)
        plain.check(pool, plan)
        check_preemptors(pool, plan)
        for row in range(plan.reasons.code.size):
            assert reason_texts.describe_reason(built.snapshot, plan, row)
        assert len(asked) <= check, "the clock was asked again after time was up"
        if plan.stopped_by == Code.TIME_LIMIT:
            assert asked[-1]
        world.settle(built, plan)


def flatten(plan: Plan) -> dict[str, Any]:
    """A plan as lists, without the times of its steps."""
    result: dict[str, Any] = {}
    for part in (plan, plan.reasons, plan.shares, plan.nearness):
        for field in fields(part) if part is not None else ():
            value = getattr(part, field.name)
            if isinstance(value, np.ndarray):
                value = value.tolist()
            if field.name not in ("steps_ms", "reasons", "shares", "nearness"):
                result[field.name] = value
    return result
