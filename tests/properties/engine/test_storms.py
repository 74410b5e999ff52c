"""No preempted work starts a cycle (R10, R13): crowded clusters come to rest, whatever runs there.

`FAIRLEAD_SEEDS` says how many clusters are tried; `pytest tests/properties/engine/test_storms.py -k
"[17]"` tries one again.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from fairlead_scheduler.engine.snapshot import Int32, Tier
from fairlead_scheduler.snapshots.built_snapshot import BuiltSnapshot
from tests.properties.engine.checked_rounds import count_changes, run_checked_round
from tests.properties.engine.storms import FREEZES_S, Storm

SEEDS: Final = int(os.environ.get("FAIRLEAD_SEEDS", "50"))
FOUND: Final = (
    *(40, 76, 210, 337, 5398, 5703, 7180, 21887, 22022, 31556),
    *(100205, 101264, 200302, 400050, 400862, 800785, 900948),
)
"""Clusters that found something: a gang with order fair, a surplus member whose group returned, a
reason after a pass that had nothing left to place, members left over that preempt, (twice) a
surplus member that was reached before its group returned, a gang below its minimum that lost what
had just joined it, a cause after a chain of displaced jobs, (twice) gangs of several classes that
displaced each other for ever, a member left over whose gang has a stricter class, (twice) a gang
that took by fair share and by urgency from one queue, members that were placed one by one but
stopped together, a member that joined such a gang, two jobs of a queue that took, one by fair share
and one by urgency, what a gang took back, and a gang that fits only after a month, because
preemption chooses other nodes then."""
TURNS: Final = 3
STEP_S: Final = 10
FEW: Final = 10
"""Rounds after which a cluster is at rest, if no group in it grows step by step."""
QUIET: Final = 1 + max(FREEZES_S) // STEP_S
"""Rounds without a change in which every freeze ends."""
PAUSES_S: Final = (3_600, 30 * 86_400)
"""In these only the times change that runs have worked (R9, G9)."""


def come_to_rest(storm: Storm) -> None:
    """Play rounds until nothing changes."""
    quiet, rounds_max = 0, FEW + QUIET * storm.surplus
    for _ in range(rounds_max + QUIET):
        storm.pass_time(STEP_S)
        _, plan = run_checked_round(storm.world)
        quiet = 0 if count_changes(plan) else quiet + 1
        if quiet > QUIET:
            return
    raise AssertionError(f"something still changes after {rounds_max} rounds")


def is_any_in_gang(pool: BuiltSnapshot, jobs: Int32) -> bool:
    """Whether any of these jobs, given by row, is a member of a gang."""
    gang = pool.snapshot.job_gang
    return gang is not None and bool((gang[jobs] >= 0).any())


@pytest.mark.parametrize("seed", sorted({*range(SEEDS), *FOUND}))
def test_a_crowded_cluster_comes_to_rest_and_stays_there(seed: int) -> None:
    storm = Storm(seed)
    for _ in range(TURNS):
        storm.submit()
        run_checked_round(storm.world)
        come_to_rest(storm)
        for pause_s in PAUSES_S:
            storm.pass_time(pause_s)
            pool, plan = run_checked_round(storm.world)
            if count_changes(plan):
                preempting = plan.placed_job[plan.placed_tier > Tier.FREE]
                assert is_any_in_gang(pool, preempting), "time alone changed what runs"
                come_to_rest(storm)
        storm.end_some()
        run_checked_round(storm.world)
        come_to_rest(storm)
