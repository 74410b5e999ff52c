"""What must hold in any round of any pool, whatever is in it (hypothesis)."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead_scheduler.cases.case_file import Case, CaseRound
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.engine import schedule
from tests.properties.engine import plain_progress, row_permutations
from tests.properties.engine.checked_rounds import count_changes, run_checked_round
from tests.properties.engine.plain import Pool
from tests.properties.engine.worlds import BOUNDED, cases

FEW = 10
"""Rounds after which a pool is at rest."""


def played(case: Case) -> World:
    """The world after the case's rounds."""
    world = World(case)
    for turn in case.rounds:
        world.begin(turn, 0)
        run_checked_round(world)
    return world


@BOUNDED
@given(cases())
def test_no_round_breaks_a_promise(case: Case) -> None:
    played(case)


@BOUNDED
@given(cases(), st.integers(0, 5))
def test_the_plan_does_not_depend_on_the_order_of_rows(case: Case, seed: int) -> None:
    world = World(case)
    for turn in case.rounds:
        world.begin(turn, 0)
        built = world.build()
        other, jobs, nodes = row_permutations.permute_rows(built.snapshot, seed)
        again = schedule(other, world.engine)
        plan = schedule(built.snapshot, world.engine)
        world.settle(built, plan)
        assert [jobs[j] for j in again.placed_job] == plan.placed_job.tolist()
        assert [nodes[n] for n in again.placed_node] == plan.placed_node.tolist()
        assert [jobs[j] for j in again.preempted_job] == plan.preempted_job.tolist()
        assert [jobs[j] for j in again.preemptor_job] == plan.preemptor_job.tolist()
        assert again.preempted_cause.tolist() == plan.preempted_cause.tolist()
        assert again.preempted_share.tolist() == plan.preempted_share.tolist()
        assert [jobs[j] for j in again.rejected_job] == plan.rejected_job.tolist()
        assert [jobs[j] for j in again.failed_job] == plan.failed_job.tolist()
        assert again.reasons.code.tolist() == plan.reasons.code.tolist()
        assert again.reasons.counts.tolist() == plan.reasons.counts.tolist()


@BOUNDED
@given(cases(limits=False), st.booleans())
def test_without_submissions_the_rounds_come_to_rest_and_every_job_has_what_it_could(
    case: Case, requeue: bool
) -> None:
    case.settings = msgspec.structs.replace(case.settings, requeue_preempted=requeue)
    world = played(case)
    for _ in range(FEW):
        world.begin(CaseRound(), 0)
        built, plan = run_checked_round(world)
        if not count_changes(plan):
            break
    else:
        raise AssertionError(f"something still changes after {FEW} quiet rounds")
    plain_progress.check_progress(Pool(built.snapshot, world.engine), plan)
    for _ in range(3):
        world.begin(CaseRound(), 0)
        built, plan = run_checked_round(world)
        assert not count_changes(plan), "a round changed something after one that changed nothing"
