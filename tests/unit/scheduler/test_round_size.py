"""What a scheduler decides before the engine's kernels are compiled."""

from dataclasses import replace

import numpy as np
import pytest

from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.kernels import round_size
from fairlead_scheduler.kernels.round_size import KernelsMissing, RoundSizeLimit
from tests.unit.engine.pools import pool


def a_round(engine: RoundSizeLimit, snapshot: Snapshot) -> Plan:
    return engine(snapshot, EngineSettings(), expired=lambda: False, clock_s=lambda: 0.0)


def small() -> Snapshot:
    return pool({"id": "a", "queue": "A", "cpu": 1})[0]


def large() -> Snapshot:
    return replace(small(), node_number=np.arange(round_size.PAIRS_MAX + 1))


def test_a_small_round_runs_without_kernels() -> None:
    assert a_round(RoundSizeLimit(schedule), small()).placed_job.tolist() == [0]


def test_large_round_is_postponed_until_kernels_are_compiled() -> None:
    with pytest.raises(KernelsMissing, match="1 job shapes and 300001 nodes"):
        a_round(RoundSizeLimit(schedule), large())


def test_large_rounds_run_in_python_if_compiling_failed() -> None:
    plan = schedule(small(), EngineSettings())
    engine = RoundSizeLimit(lambda *_, **__: plan)
    engine.over = True
    assert a_round(engine, large()) is plan
