"""The checks of the scheduler's state find what contradicts itself, and only that."""

from collections.abc import Callable

import numpy as np
import pytest

from fairlead_common.domain.ids import ArrayId, JobId
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.log import Entry
from fairlead_scheduler.rules.decider import DecidedRound, Decider
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.deadlines import Deadlines
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from fairlead_scheduler.state.view_validation import list_view_violations
from tests.unit.scheduler.facts import submitted


def scheduler_state() -> View:
    """Jobs that wait, depend on others, are in a gang, run, and have ended."""
    view = View()
    events: list[ev.AnyEvent] = [
        submitted("waits"),
        submitted("depends", after=("waits",)),
        submitted("m0", gang=ev.Gang("g", 2)),
        submitted("m1", gang=ev.Gang("g", 2)),
        submitted("runs"),
        submitted("ended"),
        ev.JobRunLeased(job_id=JobId("runs"), run=1, executor="e", node="n"),
        ev.JobCancelRequested(job_id=JobId("ended")),
    ]
    sequence = ev.EventSequence(queue="q", job_set="s", by="test", events=events)
    job_fold.fold_messages(view, [job_fold.Message(0, 0, 1_000, sequence)], {})
    return view


def row_of(view: View, name: str) -> int:
    return view.jobs.rows[JobId(name)]


def test_a_folded_state_is_valid() -> None:
    scheduler_state().validate()


def forget_the_attention(view: View) -> None:
    view.jobs.flags[row_of(view, "waits")] |= job_table.CANNOT_START


def lose_a_dependent(view: View) -> None:
    view.dependents.clear()


def lose_a_member(view: View) -> None:
    view.gang_members[job_table.GangName("q", "s", "g")].discard(JobId("m0"))


def list_a_row_as_free(view: View) -> None:
    view.jobs.flags[row_of(view, "waits")] |= job_table.FREE


def run_nowhere(view: View) -> None:
    view.jobs.node[row_of(view, "runs")] = -1


def name_no_shape(view: View) -> None:
    view.jobs.shape[row_of(view, "waits")] = 99


def wait_with_a_run(view: View) -> None:
    view.jobs.state[row_of(view, "runs")] = job_table.QUEUED


def never_release(view: View) -> None:
    view.lingering.clear()


def count_an_unknown_follower(view: View) -> None:
    view.array_followers[ArrayId("a")] += 1


def lose_an_id(view: View) -> None:
    view.jobs.rows.remove(row_of(view, "waits"))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (forget_the_attention, "jobs that must be examined are not"),
        (lose_a_dependent, "the dependents of 1 jobs are wrong"),
        (lose_a_member, "the members of 1 gangs are wrong"),
        (list_a_row_as_free, "the list of free rows"),
        (run_nowhere, "jobs with a run, on no node"),
        (name_no_shape, "numbers of a shape have no name"),
        (wait_with_a_run, "queued jobs with a live run"),
        (never_release, "ended jobs are never released"),
        (count_an_unknown_follower, "array a has 0 followers, and 1 are counted"),
        (lose_an_id, "the index has 5 ids, but 6 rows have a job"),
    ],
)
def test_what_contradicts_itself_is_named(damage: Callable[[View], None], problem: str) -> None:
    view = scheduler_state()
    damage(view)
    found = list_view_violations(view)
    assert any(problem in sentence for sentence in found), found
    with pytest.raises(AssertionError, match=problem):
        view.validate()


def test_a_wrong_number_of_runs_on_a_node_is_named() -> None:
    view, deadlines = scheduler_state(), Deadlines()
    deadlines.update(view)
    assert deadlines.list_violations(view) == []
    view.jobs.run_state[row_of(view, "runs")] = job_table.NO_RUN
    assert len(deadlines.list_violations(view)) == 1


def decide(view: View) -> tuple[Decider, DecidedRound]:
    """A round of the pool, and its decider."""
    clusters = Clusters()
    record = cluster_records.node_record(Node(executor="e", name="n", allocatable={"cpu": 4000}))
    clusters.fold([Entry(0, 0, record.key, record.value, 0)])
    decider = Decider(SchedulerSettings(), view, clusters, Queues(), Leases(), began_ms=0)
    housekeeping = decider.decide_housekeeping(2_000)
    decided = decider.decide_round("default", housekeeping, 2_000, lambda: 0.0)
    assert decided is not None
    return decider, decided


def test_a_row_that_changed_without_an_entry_in_the_journal_is_named() -> None:
    view = scheduler_state()
    decider, _ = decide(view)
    decider.validate()
    view.jobs.priority[row_of(view, "waits")] += 1
    with pytest.raises(AssertionError, match="rows changed and are counted as before"):
        decider.validate()


def test_rows_of_the_snapshot_are_rows_of_the_job_table() -> None:
    view = scheduler_state()
    _, decided = decide(view)
    snapshot = decided.built.snapshot
    assert np.shares_memory(snapshot.job_priority, view.jobs.priority)
    assert snapshot.job_node.size == view.jobs.used
    assert view.jobs.rows.ids_at(decided.plan.placed_job) == decided.placed_ids


def test_a_violation_names_the_job() -> None:
    view = scheduler_state()
    run_nowhere(view)
    assert list_view_violations(view) == ["jobs with a run, on no node (1): runs"]
