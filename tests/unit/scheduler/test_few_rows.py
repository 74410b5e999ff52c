"""Few jobs at a time are handled one by one, and come to the same as many at once."""

import random

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.snapshots import Builder
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.deadlines import Deadlines
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.job_index import FEW
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import known_of, leased, message, submitted

NAMES = [f"{number:028d}" for number in range(2 * FEW)]


def fold(view: View, *events: ev.AnyEvent, time_ms: int) -> None:
    position = view.positions.get(0, 0)
    job_fold.fold_messages(view, [message(position, *events, time_ms=time_ms)], {})


def test_leases_of_one_message_are_those_of_many() -> None:
    leases = [leased(name, node=f"n{number % 3}") for number, name in enumerate(NAMES)]
    ended = ev.JobCancelRequested(job_id=JobId(NAMES[1]), reason="why")
    together, apart = View(), View()
    for view in (together, apart):
        fold(view, *[submitted(name) for name in NAMES], time_ms=1_000)
        fold(view, ended, time_ms=2_000)
        fold(view, ev.JobCancelled(job_id=ended.job_id, reason="why"), time_ms=2_000)
    fold(together, *leases, time_ms=3_000)
    for lease in leases:
        fold(apart, lease, time_ms=3_000)
    assert known_of(together) == known_of(apart)
    assert together.rows_to_examine == apart.rows_to_examine != set()


def test_deadlines_of_few_rows_are_those_of_many() -> None:
    chance, view = random.Random(1), View()
    few, many = Deadlines(few=len(NAMES)), Deadlines(few=0)
    for now_ms in range(1_000, 90_000, 1_000):
        name = chance.choice(NAMES)
        row, run = view.jobs.rows.get(JobId(name)), 1
        if row is None:
            queue_s, run_s = chance.choice([None, 5]), chance.choice([None, 3])
            fold(view, submitted(name, queue_s_max=queue_s, runtime_s_max=run_s), time_ms=now_ms)
        elif view.jobs.node[row] < 0:
            fold(view, leased(name, node=chance.choice("ab")), time_ms=now_ms)
        elif not view.jobs.running_ms[row]:
            fold(view, ev.JobRunRunning(job_id=JobId(name), run=run), time_ms=now_ms)
        elif chance.random() < 0.3:
            stop = ev.JobPreemptRequested(job_id=JobId(name), reason="why")
            fold(view, stop, time_ms=now_ms)
        else:
            fold(view, ev.JobRunStopped(job_id=JobId(name), run=run, reason=""), time_ms=now_ms)
        for deadlines in (few, many):
            deadlines.update(view)
            assert deadlines.list_violations(view) == []
        for find in ("find_queued_too_long", "find_running_too_long"):
            assert getattr(few, find)(now_ms) == getattr(many, find)(now_ms)
        nodes = few.find_nodes_with_runs(view)
        assert nodes == many.find_nodes_with_runs(view)
        assert few.find_rows_on_nodes(view, nodes) == many.find_rows_on_nodes(view, nodes)


def test_timers_of_few_rows_are_those_of_many() -> None:
    """The row of a job that ended before its start time has no timer any more."""
    view, clusters, queues = View(), Clusters(), Queues()
    few, many = (
        Builder((), Rules(), view, clusters, queues, few=count) for count in (len(NAMES), 0)
    )
    later, ended = (submitted(name, start_after_ms=90_000) for name in NAMES[:2])
    cancelled = ev.JobCancelled(job_id=ended.job_id, reason="why")
    for events in ([later, ended], [cancelled]):
        fold(view, *events, time_ms=1_000)
        for builder in (few, many):
            builder.update(1_000)
            assert builder.list_violations() == []
