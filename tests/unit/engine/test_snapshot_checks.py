"""Snapshots that a round refuses, with the column and the error named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead_scheduler.engine import Snapshot, schedule
from fairlead_scheduler.engine.preparation.pool import snapshot_checks
from tests.unit.engine.pools import BALANCE, pool


def sound() -> Snapshot:
    """A pool with a run, a job and a gang."""
    made, _ = pool(
        {"id": "a", "queue": "A", "cpu": 1},
        {"id": "g", "queue": "B", "count": 2, "cpu": 1, "gang": {}},
    )
    return made


def test_a_valid_snapshot_has_no_errors() -> None:
    assert snapshot_checks.list_problems(sound()) == []


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_an_invalid_weight_is_refused_with_its_queue(weight: float) -> None:
    broken = replace(sound(), queue_weight=np.array([1.0, weight]))
    with pytest.raises(
        snapshot_checks.InvalidSnapshotError, match=r"queue_weight of 'B' is .*above 0"
    ):
        schedule(broken, BALANCE)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"node_allocatable": np.array([[-1, 0], [0, 0]])}, "node_allocatable has a negative"),
        ({"class_preemption": np.full(10, 7, np.uint8)}, "class_preemption"),
        ({"node_number": np.array([3, 3])}, "node_number has the same number twice"),
        ({"node_number": np.full(2, 1 << 40)}, "node_number has the same number twice"),
        ({"gang_min": np.array([0], np.int32)}, "gang_min is below 1"),
        ({"queue_tokens": np.array([np.nan, 1.0])}, "queue_tokens has a value"),
        ({"queue_names": ("B", "A")}, "queue_names are not ascending"),
        ({"shape_class": np.array([99, 0], np.int32)}, "shape_class has rows from 0 to 99"),
    ],
)
def test_a_column_that_breaks_its_rule_is_named(change: dict[str, object], error: str) -> None:
    broken = replace(sound(), **change)  # type: ignore[arg-type]
    assert any(error in problem for problem in snapshot_checks.list_problems(broken))


def test_job_rows_out_of_bounds_are_listed_on_request() -> None:
    broken = replace(sound(), job_node=np.array([5, -1, -1], np.int32))
    assert snapshot_checks.list_problems(broken) == [
        "job_node has rows from -1 to 5, but there are only 2"
    ]
