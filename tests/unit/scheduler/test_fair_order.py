"""What order `fair` counts (G9): resource scores, former runs, and what is saved of them."""

import msgspec
import numpy as np
import pytest

from fairlead_common.domain.ids import GroupId, JobId, client_job_id
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.log import Entry
from fairlead_scheduler.engine.plan import queue_positions
from fairlead_scheduler.snapshots import Builder, resource_scores
from fairlead_scheduler.state import queue_state
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.jobs.job_table import RareProperties
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import fold, leased, message, submitted

GIB = 1 << 30


def test_a_gpu_scores_100_a_cpu_1_and_a_gib_a_tenth() -> None:
    names = ("amd.com/gpu", "cpu", "ephemeral-storage", "memory", "nvidia.com/gpu")
    request = np.array(
        [[0, 2500, GIB, 4 * GIB, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 2], [0, 1, 0, 1 << 20, 0]]
    )
    score = resource_scores.score_shapes(names, request, {})
    assert score.tolist() == [2_500 + 400, 100_000, 200_000, 1]
    own = {"cpu": 0.0, "ephemeral-storage": 2.0}
    assert resource_scores.score_shapes(names, request, own).tolist() == [
        2_400,
        100_000,
        200_000,
        0,
    ]


def test_the_score_of_former_runs_is_that_of_their_resources() -> None:
    used = [("cpu", 2_000 * 30_000), ("memory", 10 * GIB * 30_000)]
    assert resource_scores.score_use(used, {}) == 30 * (2_000 + 1_000)


def run(
    view: View, position: int, name: str, end: ev.AnyEvent, after_ms: int, run: int = 1
) -> None:
    """A run of this job, from a second before `after_ms` at position 1 on."""
    began_ms = 1_000_000 * position
    job_fold.fold_messages(view, [message(position, leased(name, run), time_ms=began_ms)], {})
    ended = message(position + 1, end, time_ms=began_ms + after_ms)
    job_fold.fold_messages(view, [ended], {})


def test_runs_that_stopped_or_failed_count_and_returned_ones_do_not() -> None:
    view = fold([submitted("a")])
    job = JobId("a")
    again = ev.JobRequeued(job_id=job, reason="")
    run(view, 1, "a", ev.JobRunStopped(job_id=job, run=1, reason=""), 5_000)
    job_fold.fold_messages(view, [message(3, again)], {})
    run(view, 4, "a", ev.JobRunReturned(job_id=job, run=2, reason=""), 7_000, run=2)
    job_fold.fold_messages(view, [message(6, again)], {})
    run(view, 7, "a", ev.JobRunLost(job_id=job, run=3, reason=""), 9_000, run=3)
    rare = view.jobs.rare_properties[view.jobs.rows[job]]
    assert (rare.ran_ms, rare.ran_until_ms) == (14_000, 7_009_000)
    saved = msgspec.json.decode(msgspec.json.encode(rare), type=RareProperties)
    assert (saved.ran_ms, saved.ran_until_ms) == (14_000, 7_009_000)


@pytest.mark.parametrize("count", [1, 8], ids=["one by one", "in a batch"])
def test_a_group_counts_the_runs_of_members_that_have_ended(count: int) -> None:
    group = GroupId(client_job_id(0, "q", "s", "group"))
    names = [client_job_id(0, "q", "s", f"w-{index}") for index in range(count)]
    terms = ev.Group(roles=(ev.GroupRole("w", count, count),))
    members = [
        submitted(name, group=ev.GroupMember(group, "w", index)) for index, name in enumerate(names)
    ]
    view = fold([ev.GroupSubmitted(group=group, terms=terms, digest="d"), *members])
    starts = message(1, *(leased(name) for name in names), time_ms=10_000)
    ends = message(2, *(ev.JobRunSucceeded(job_id=name, run=1) for name in names), time_ms=70_000)
    done = message(3, *(ev.JobSucceeded(job_id=name) for name in names[1:]), time_ms=71_000)
    for each in (starts, ends, done):
        job_fold.fold_messages(view, [each], {})
    state = view.groups[group]
    assert (state.used, state.ran_until_ms) == ({"cpu": count * 1_000 * 60_000}, 70_000)
    saved = msgspec.json.decode(msgspec.json.encode(state), type=GroupState)
    assert (saved.used, saved.ran_until_ms) == (state.used, 70_000)


def test_an_unknown_order_in_the_log_counts_as_fifo_and_is_named() -> None:
    queue, problems = queue_state.sanitize_queue(Queue(name="q", order="lifo"))
    assert queue.order == configuration.FIFO
    assert problems == ["its order 'lifo' is not fifo or fair, so it counts as fifo"]


def test_only_the_pool_that_is_built_is_measured() -> None:
    view = fold([submitted("a", pool="a"), submitted("b", pool="b")])
    clusters, queues = Clusters(), Queues()
    order = configuration.record(Queue(name="q", order=configuration.FAIR))
    queues.fold([Entry(0, 0, order.key, order.value, 0)], clusters)
    for position, name in ((1, "a"), (4, "b")):
        stopped = ev.JobRunStopped(job_id=JobId(name), run=1, reason="")
        run(view, position, name, stopped, 60_000)
        again = ev.JobRequeued(job_id=JobId(name), reason="")
        job_fold.fold_messages(view, [message(position + 2, again)], {})
    builder = Builder((), Rules(), view, clusters, queues)

    def measure(pool: str, now_ms: int) -> list[float]:
        builder.update(now_ms)
        times = builder.build(pool, now_ms=now_ms).snapshot.job_weighted_time
        assert times is not None
        return [float(times[view.jobs.rows[JobId(name)]]) for name in "ab"]

    end_ms = 4_060_000
    assert measure("b", end_ms) == [0.0, 60_000.0]
    assert measure("a", end_ms + 10_000) == [0.0, 60_000.0], "that of b is of its last snapshot"
    assert measure("b", end_ms + 10_000) == [0.0, 50_000.0]


def test_jobs_ahead_are_counted_up_to_the_first_of_a_shape_or_gang() -> None:
    first = queue_positions.find_first(np.array([-1, 3, 0, 3, -1, 0]), np.array([0, 3, 1, 7]))
    assert first.tolist() == [2, 1, queue_positions.UNKNOWN, queue_positions.UNKNOWN]
    none = np.zeros(0, np.int32)
    assert queue_positions.find_first(none, np.array([2])).tolist() == [queue_positions.UNKNOWN]


def test_large_numbers_of_jobs_ahead_are_rounded() -> None:
    assert "1 job is ahead" in queue_positions.describe_jobs_ahead("q", 1)
    assert ": 100 jobs are ahead" in queue_positions.describe_jobs_ahead("q", 100)
    assert "about 12,000 jobs are ahead" in queue_positions.describe_jobs_ahead("q", 12_345)
