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

DECISIONS = (
    *("placed_job", "placed_node", "placed_value", "placed_tier"),
    *("preempted_job", "preempted_cause", "preemptor_job", "preempted_share", "preemptor_share"),
    *("rejected_job", "rejected_code", "failed_job", "failed_code"),
    *("shape_feasible", "gang_feasible", "queue_scheduled", "queue_preempted", "queue_waiting"),
)
"""What of a plan is no explanation."""
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
@given(cases())
def test_a_round_that_is_not_explained_decides_the_same(case: Case) -> None:
    world = World(case)
    for turn in case.rounds:
        world.begin(turn, 0)
        built = world.build()
        short = schedule(built.snapshot, world.engine, explain=False)
        plan = schedule(built.snapshot, world.engine)
        refused = plan.rejected_job.size + plan.failed_job.size > 0
        assert (plan.explained, short.explained) == (True, refused)
        assert refused or short.reasons.code.size == 0
        for name in DECISIONS:
            assert getattr(short, name).tolist() == getattr(plan, name).tolist(), name
        assert (short.stopped_by, short.limited) == (plan.stopped_by, plan.limited)
        world.settle(built, plan)


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
