"""What a round uses again of the round before it."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.preparation import round_builder
from fairlead_scheduler.engine.preparation.pool.snapshot_checks import InvalidSnapshotError
from fairlead_scheduler.engine.preparation.pool.static_pool import SOURCES, renew_static_pool
from fairlead_scheduler.engine.round import never
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.tiny_pools import make_tiny_pool

SETTINGS = EngineSettings()
CLOCK = RoundClock(never, SETTINGS)


def decide(snapshot: Snapshot) -> Plan:
    return schedule(snapshot, SETTINGS)


def test_the_static_part_is_used_again_while_its_columns_are_the_same_objects() -> None:
    snapshot = make_tiny_pool(plain=True)
    static = renew_static_pool(None, snapshot, SETTINGS, CLOCK)
    later = replace(snapshot, now_ms=2_000, job_node=np.array([0, -1], np.int32))
    assert renew_static_pool(static, later, SETTINGS, CLOCK) is static
    assert renew_static_pool(static, later, EngineSettings(), CLOCK) is not static


FULL = replace(
    make_tiny_pool(plain=True),
    floating=("seats",),
    floating_total=np.ones(1, np.int64),
    shape_floating=np.zeros((2, 1), np.int64),
    shape_rank=np.zeros((2, 1), np.uint8),
    queue_limit_fraction=np.ones((2, 2, 3)),
    queue_limit_amount=np.full((2, 2, 3), 9.0),
    class_ceiling=np.ones((2, 3)),
    class_away_value=np.full((2, 0), 0),
)


def _copy(value: Any) -> Any:
    """An equal array, or another tuple or text."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return (*value, "z") if isinstance(value, tuple) else f"{value} "


@pytest.mark.parametrize("name", SOURCES)
def test_the_static_part_is_made_anew_when_a_column_is_another_object(name: str) -> None:
    static = renew_static_pool(None, FULL, SETTINGS, CLOCK)
    values: Any = {name: _copy(getattr(FULL, name))}
    changed = replace(FULL, **values)
    assert [each for each in SOURCES if getattr(changed, each) is not getattr(FULL, each)] == [name]
    try:
        assert renew_static_pool(static, changed, SETTINGS, CLOCK) is not static
    except (InvalidSnapshotError, IndexError, ValueError):
        assert isinstance(values[name], tuple), "it was made anew, of columns that do not fit"


def test_a_round_does_not_use_the_static_part_of_other_nodes() -> None:
    snapshot = make_tiny_pool(plain=True)
    static = renew_static_pool(None, snapshot, SETTINGS, CLOCK)
    closed = replace(snapshot, node_flags=np.full(3, 2, np.uint8))
    plan = schedule(closed, SETTINGS, static=static)
    assert plan.placed_job.tolist() == decide(closed).placed_job.tolist() == []
    assert decide(snapshot).placed_job.size == 2


def test_what_was_made_when_time_was_up_is_not_used_again() -> None:
    snapshot = make_tiny_pool(plain=True)
    up = RoundClock(lambda: True, SETTINGS)
    static = renew_static_pool(None, snapshot, SETTINGS, up)
    assert not static.complete
    again = renew_static_pool(static, snapshot, SETTINGS, CLOCK)
    assert again.complete
    assert schedule(snapshot, SETTINGS, static=static).placed_job.size == 2


def test_an_invalid_column_is_found_when_it_changes() -> None:
    snapshot = make_tiny_pool(plain=True)
    static = renew_static_pool(None, snapshot, SETTINGS, CLOCK)
    with pytest.raises(InvalidSnapshotError, match="queue_weight"):
        schedule(replace(snapshot, queue_weight=np.zeros(2)), SETTINGS, static=static)
    with pytest.raises(InvalidSnapshotError, match="queue_tokens"):
        schedule(replace(snapshot, queue_tokens=np.full(2, np.nan)), SETTINGS, static=static)


def test_rounds_that_cannot_preempt_write_nothing_to_what_they_share() -> None:
    shared = round_builder.unread_tables(2, 2, 2)
    before = {
        (name, field): array.copy()
        for name, part in shared.items()
        for field, array in part._asdict().items()  # type: ignore[attr-defined]
        if isinstance(array, np.ndarray)
    }
    rng = np.random.default_rng(1)
    for _ in range(50):
        jobs = 40
        made = replace(
            make_tiny_pool(plain=True),
            node_allocatable=rng.integers(0, 9, (3, 2)),
            job_queue=rng.integers(0, 2, jobs).astype(np.int32),
            job_shape=np.zeros(jobs, np.int32),
            class_value=np.zeros(2, np.int64),
            job_priority=rng.integers(0, 3, jobs),
            job_submission=np.arange(jobs),
            job_node=np.full(jobs, -1, np.int32),
            job_started_ms=np.zeros(jobs, np.int64),
        )
        decide(made)
    for (name, field), array in before.items():
        after: Any = {**shared}[name]
        assert np.array_equal(getattr(after, field), array), (name, field)


def _list_values(value: Any) -> Any:
    """What a plan contains, to be compared."""
    if is_dataclass(value):
        return {field.name: _list_values(getattr(value, field.name)) for field in fields(value)}
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("classes", [[0, 0], [0, 1]], ids=["plain", "urgent"])
def test_rounds_in_retained_tables_decide_as_rounds_in_new_ones(classes: list[int]) -> None:
    rng = np.random.default_rng(1)
    pool = replace(make_tiny_pool(plain=True), class_value=np.array(classes, np.int64))
    static, preempted = renew_static_pool(None, pool, SETTINGS, CLOCK), 0
    for jobs in rng.choice([6, 9, 9, 30], 60).tolist():
        snapshot = replace(
            pool,
            now_ms=int(rng.integers(1_000, 9_000)),
            job_queue=rng.integers(0, 2, jobs).astype(np.int32),
            job_shape=rng.integers(0, 2, jobs).astype(np.int32),
            job_priority=rng.integers(0, 3, jobs),
            job_submission=rng.permutation(jobs),
            job_node=rng.choice([-1, -1, -1, 0, 1], jobs).astype(np.int32),
            job_started_ms=rng.integers(0, 1_000, jobs),
        )
        assert renew_static_pool(static, snapshot, SETTINGS, CLOCK) is static
        plan = schedule(snapshot, SETTINGS, static=static)
        assert _list_values(plan) == _list_values(decide(snapshot))
        preempted += plan.preempted_job.size
    assert preempted
