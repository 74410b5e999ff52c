"""Rule L6: a round ends when time is up, whichever step it is in."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.snapshot import Code
from tests.unit.engine.pools import codes, placed, pool, preempted, run

PREPARE, ORDER, PASS, FIT, EXPLAIN = range(5)


@dataclass
class StepClock:
    """Time is up at a check of a step; both are counted, no time passes."""

    step: int
    check: int = 1
    checks: list[int] = field(default_factory=list)
    """how often each step asked"""

    def clock_s(self) -> float:
        """Called between two steps."""
        self.checks.append(0)
        return 0.0

    def expired(self) -> bool:
        """Whether this is the check at which time is up."""
        self.checks[-1] += 1
        return len(self.checks) - 1 == self.step and self.checks[-1] >= self.check


def schedule_until(made: Snapshot, settings: EngineSettings, clock: StepClock) -> Plan:
    """A round in which time is up as the clock says."""
    return schedule(made, settings, expired=clock.expired, clock_s=clock.clock_s)


def test_every_step_asks_whether_time_is_up() -> None:
    made, _ = pool(
        run("a", "A", "n0", cpu=4),
        run("b", "A", "n1", cpu=4),
        {"id": "c", "queue": "B", "cpu": 4},
        {"id": "u", "queue": "A", "cpu": 4, "priorityClass": "p1"},
    )
    clock = StepClock(step=-1)
    plan = schedule_until(made, EngineSettings(protected_fraction=0.0, work_per_check=1), clock)
    assert plan.stopped_by == Code.NONE
    assert all(clock.checks[:5])


@pytest.mark.parametrize("step", [PREPARE, ORDER])
def test_when_time_is_up_before_the_pass_everything_waits(step: int) -> None:
    made, names = pool(
        run("a", "A", "n0", cpu=4), run("b", "A", "n1", cpu=4), {"id": "c", "queue": "B", "cpu": 4}
    )
    settings = EngineSettings(protected_fraction=0.0)
    plan = schedule_until(made, settings, StepClock(step))
    assert placed(plan, names) == []
    assert preempted(plan, names) == []
    assert codes(plan) == {Code.TIME_LIMIT}
    assert plan.queue_waiting.tolist() == [0, 1]
    assert plan.stopped_by == Code.TIME_LIMIT
    assert plan.limited


def test_nothing_is_rejected_that_was_not_examined_in_time() -> None:
    """Section 6: the job is too large for every node."""
    made, _ = pool({"id": "a", "queue": "A", "cpu": 400})
    plan = schedule_until(made, EngineSettings(), StepClock(PREPARE))
    assert plan.rejected_job.size == 0
    assert not plan.shape_feasible.any()
    assert schedule(made, EngineSettings()).rejected_job.size == 1


def test_when_time_is_up_in_the_pass_evicted_runs_return_together() -> None:
    made, names = pool(
        run("a", "A", "n0", cpu=4), run("b", "A", "n1", cpu=4), {"id": "c", "queue": "B", "cpu": 4}
    )
    settings = EngineSettings(protected_fraction=0.0, offers_per_check=1)
    for check in range(1, 3):
        plan = schedule_until(made, settings, StepClock(PASS, check))
        assert len(preempted(plan, names)) == len(placed(plan, names)) <= 1
        assert plan.stopped_by == Code.TIME_LIMIT
        assert plan.limited


def test_the_clock_is_asked_between_portions_of_offers_only() -> None:
    made, names = pool({"id": "a", "queue": "A", "count": 8, "cpu": 1})
    plan = schedule_until(made, EngineSettings(offers_per_check=3), StepClock(PASS, 2))
    assert placed(plan, names) == [f"a{n}" for n in range(6)]
    assert codes(plan) == {Code.NOT_REACHED}
    assert plan.stopped_by == Code.TIME_LIMIT


def test_the_clock_is_asked_earlier_where_offers_need_much_work() -> None:
    """Each of these offers examines the node's runs."""
    made, names = pool(
        run("a", "A", "n0", count=4, cpu=1),
        run("b", "A", "n1", count=4, cpu=1),
        {"id": "u", "queue": "B", "count": 8, "cpu": 1, "priorityClass": "p1"},
    )
    for check in range(2, 8):
        plan = schedule_until(made, EngineSettings(work_per_check=1), StepClock(PASS, check))
        assert 0 < len(placed(plan, names)) <= check
        assert plan.stopped_by == Code.TIME_LIMIT


def test_a_gang_that_is_still_choosing_its_label_value_waits_when_time_is_up() -> None:
    """N7: the clock is asked between two values; the gang fits the last of them only."""
    nodes = [
        {
            "name": f"n{rack}{cpu}{number}",
            "resources": {"cpu": cpu, "memory": "16Gi"},
            "labels": {"rack": f"r{rack}"},
        }
        for rack, sizes in enumerate([(3, 1), (3, 1), (3, 1), (2, 2)])
        for number, cpu in enumerate(sizes)
    ]
    gang = {"minSize": 2, "uniformityLabel": "rack"}
    made, names = pool({"id": "g", "queue": "A", "count": 2, "cpu": 2, "gang": gang}, nodes=nodes)
    settings = EngineSettings(work_per_check=1)
    clock = StepClock(step=-1)
    assert placed(schedule_until(made, settings, clock), names) == ["g0", "g1"]
    assert clock.checks[PASS] >= 4
    for check in range(1, 4):
        plan = schedule_until(made, settings, StepClock(PASS, check))
        assert placed(plan, names) == []
        assert plan.stopped_by == Code.TIME_LIMIT


def test_what_is_not_explained_in_time_says_so_and_has_no_counts() -> None:
    groups = [{"id": f"j{cpu}x", "queue": "A", "cpu": cpu} for cpu in (2, 3, 4)]
    runs = [run(f"r{n}", "B", f"n{n}", cpu=3, priorityClass="p2np") for n in range(2)]
    made, _ = pool(*runs, *groups)
    settings = EngineSettings(pairs_per_check=1)
    plan = schedule_until(made, settings, StepClock(EXPLAIN))
    in_time = schedule(made, settings)
    assert plan.reasons.code.tolist().count(Code.TIME_LIMIT) == 2
    assert sorted(plan.reasons.counts.sum(axis=1).tolist()) == [0, 0, 2]
    assert Code.TIME_LIMIT not in codes(in_time)
    assert in_time.reasons.counts.sum(axis=1).tolist() == [2, 2, 2]
    assert plan.limited
    assert not in_time.limited
