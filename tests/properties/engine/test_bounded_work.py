"""The work of a round does not grow with jobs times nodes, in the adversarial cases of the bench.

Work is counted (`N_WORK`), not timed: the jobs that are tried, and the nodes, runs, shapes and
label values that are examined for them.
"""

from __future__ import annotations

import pytest

from bench import adversarial, engine
from fairlead_scheduler.engine import EngineSettings
from fairlead_scheduler.engine.preparation import round_builder
from fairlead_scheduler.engine.preparation.pool import array_types, prepared_pool, static_pool
from fairlead_scheduler.engine.round import never
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.scheduling import scheduling_pass
from fairlead_scheduler.engine.state.round_state import N_WORK

SMALL, LARGE = 200, 800
PER_DECISION_MAX = 1_000
"""Work per job that waits or is placed: eight nodes with 32 runs each are compared, twice."""
DECIDED_IN_THE_PASS = (
    "urgent-gangs",
    "urgent-shapes",
    "balance-of-two",
    "unlike-members",
    "pairs-with-label",
    "avoided-nodes",
)


def count_work(name: str, nodes: int) -> tuple[int, int]:
    """The work of a pass over a case, and how many jobs were queued."""
    snapshot = array_types.convert_arrays(engine.snapshot(**adversarial.MAKERS[name](nodes)))
    settings = EngineSettings(protected_fraction=0.0)
    clock = RoundClock(never, settings)
    static = static_pool.renew_static_pool(None, snapshot, settings, clock)
    start = prepared_pool.prepare_pool(snapshot, static, clock)
    model = round_builder.build_round(snapshot, settings, start, clock).model
    bounds = settings.offers_per_check, settings.work_per_check
    while scheduling_pass.run_pass(model, *bounds) != scheduling_pass.DONE:
        pass
    return int(model.counters[N_WORK]), int((snapshot.job_node == -1).sum())


@pytest.mark.parametrize("name", DECIDED_IN_THE_PASS)
def test_work_per_job_is_bounded_whatever_the_number_of_nodes(name: str) -> None:
    for nodes in (SMALL, LARGE):
        work, jobs = count_work(name, nodes)
        assert work <= PER_DECISION_MAX * jobs


@pytest.mark.parametrize(
    "name",
    [
        "urgent-gangs-with-rack",
        "gangs-of-a-rack",
        "urgent-gangs-of-a-domain",
        "gangs-of-a-domain",
    ],
)
def test_a_gang_tries_no_more_label_values_in_a_larger_pool(name: str) -> None:
    """There are more than sixteen values, or domains (T3), in both."""
    small, small_jobs = count_work(name, 2 * LARGE)
    large, large_jobs = count_work(name, 4 * LARGE)
    assert large / large_jobs <= 1.5 * max(small / small_jobs, 1)
