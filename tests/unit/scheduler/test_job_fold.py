"""The fold of the log into the scheduler's view."""

from collections.abc import Sequence
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, JobFilter, PreemptionCause
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.state.folds import end_events, job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View
from tests.example_numbers import EXAMPLES
from tests.unit.scheduler.facts import (
    fold,
    known_of,
    leased,
    message,
    state,
    submitted,
)

A, B = JobId("a"), JobId("b")


def test_every_event_of_the_union_is_folded() -> None:
    assert set(job_fold._FOLDS) == set(ev.AnyEvent.__args__)


def test_the_first_submission_of_an_id_counts() -> None:
    view = fold([submitted("a", priority=1)], [submitted("a", priority=2)])
    assert view.jobs.priority[view.jobs.rows[A]] == 1


def test_a_submission_of_an_id_that_ended_before_changes_nothing() -> None:
    known = {A: job_table.EndedJob(JobState.SUCCEEDED, "d", 0)}
    view = fold([submitted("a")], known=known)
    assert A not in view.jobs.rows


def test_a_duplicate_within_one_message_is_one_job() -> None:
    view = fold([submitted("a"), submitted("a")])
    assert len(view.live_rows()) == 1


def test_a_job_passes_all_states_to_success() -> None:
    view = fold([submitted("a")])
    steps: list[tuple[ev.AnyEvent, str]] = [
        (leased("a"), "LEASED"),
        (ev.JobRunPending(job_id=A, run=1), "PENDING"),
        (ev.JobRunRunning(job_id=A, run=1), "RUNNING"),
        (ev.JobRunSucceeded(job_id=A, run=1), "RUNNING"),
        (ev.JobSucceeded(job_id=A), "SUCCEEDED"),
    ]
    for position, (event, want) in enumerate(steps, 1):
        job_fold.fold_messages(view, [message(position, event)], {})
        assert state(view, "a") == want
    assert A not in view.jobs.rows


def test_an_ended_run_is_pending_until_its_job_is_decided() -> None:
    view = fold([submitted("a")], [leased("a")], [ev.JobRunSucceeded(job_id=A, run=1)])
    assert attended(view) == {A}
    job_fold.fold_messages(view, [message(3, ev.JobSucceeded(job_id=A))], {})
    assert view.rows_to_examine == set()


def test_a_late_report_of_an_old_run_changes_nothing() -> None:
    view = fold(
        [submitted("a")],
        [leased("a")],
        [ev.JobRunLost(job_id=A, run=1, reason="gone")],
        [ev.JobRequeued(job_id=A, reason="gone")],
        [leased("a", run=2, node="n1")],
    )
    before = known_of(view)
    late = ev.JobRunFailed(job_id=A, run=1, category=FailureCategory.OOM, reason="")
    job_fold.fold_messages(view, [message(5, late, ev.JobRunRunning(job_id=A, run=1))], {})
    assert known_of(view) == before


def test_a_queued_job_ends_with_its_cancel_request() -> None:
    view = fold([submitted("a")], [ev.JobCancelRequested(job_id=A)])
    assert state(view, "a") == "CANCELLED"


def test_a_running_job_keeps_its_state_until_its_run_has_ended() -> None:
    view = fold([submitted("a")], [leased("a")], [ev.JobCancelRequested(job_id=A, reason="why")])
    row = view.jobs.rows[A]
    assert (state(view, "a"), view.jobs.flags[row] & job_table.STOP_CANCEL) == (
        "LEASED",
        job_table.STOP_CANCEL,
    )
    assert view.jobs.rare_properties[row].stop_reason == "why"


def test_a_lease_of_a_cancelled_job_is_a_run_to_stop() -> None:
    view = fold([submitted("a")], [ev.JobCancelRequested(job_id=A)], [leased("a")])
    row = view.jobs.rows[A]
    assert state(view, "a") == "CANCELLED"
    assert view.jobs.flags[row] & job_table.STOPPING
    assert attended(view) == {A}


def test_an_ended_job_with_a_live_run_is_removed_when_the_run_ends() -> None:
    view = fold(
        [submitted("a")],
        [ev.JobCancelRequested(job_id=A)],
        [leased("a")],
        [ev.JobRunStopped(job_id=A, run=1, reason="")],
    )
    assert A not in view.jobs.rows
    assert view.orphaned_runs == {"a-1"}


def test_a_job_that_ended_while_queued_keeps_its_row_for_a_while() -> None:
    view = fold([submitted("a")], [ev.JobCancelRequested(job_id=A)])
    assert A in view.jobs.rows
    later = message(2, submitted("b"), time_ms=1000 + end_events.ROW_RELEASE_DELAY_MS)
    job_fold.fold_messages(view, [later], {})
    assert A not in view.jobs.rows


def test_a_job_waits_until_all_dependencies_succeeded() -> None:
    view = fold([submitted("a"), submitted("b"), submitted("c", after=(A, B))])
    row = view.jobs.rows[JobId("c")]
    succeed: list[ev.AnyEvent] = []
    for name in ("a", "b"):
        assert view.jobs.flags[row] & job_table.DEPENDS
        succeed = [leased(name), ev.JobRunSucceeded(job_id=JobId(name), run=1)]
        succeed.append(ev.JobSucceeded(job_id=JobId(name)))
        job_fold.fold_messages(view, [message(view.positions[0], *succeed)], {})
    assert not view.jobs.flags[row] & job_table.DEPENDS


def test_a_job_with_a_failed_dependency_is_cancelled_with_the_reason() -> None:
    view = fold([submitted("a"), submitted("b", after=(A,))], [ev.JobCancelRequested(job_id=A)])
    row = view.jobs.rows[B]
    assert view.jobs.flags[row] & job_table.CANNOT_START
    assert "CANCELLED" in view.jobs.rare_properties[row].cannot_start_reason
    assert B in attended(view)


def test_a_dependency_that_ends_in_the_same_batch_is_found() -> None:
    view = fold([submitted("a")], [ev.JobCancelRequested(job_id=A)])
    view.ended, view.recent = {}, {}  # as after a save whose memory is gone
    late_ms = 1000 + end_events.ROW_RELEASE_DELAY_MS
    messages = [message(2, submitted("x"), time_ms=late_ms)]
    messages.append(message(3, submitted("b", after=(A,)), time_ms=late_ms))
    assert job_fold.find_ids_to_look_up(view, messages) == sorted([JobId("x"), B])
    job_fold.fold_messages(view, messages, {})
    assert view.jobs.flags[view.jobs.rows[B]] & job_table.CANNOT_START


def test_a_gang_restarts_as_a_whole_until_a_member_has_ended() -> None:
    gang = ev.Gang(name="g", size=2)
    name = job_table.GangName("q", "s", "g")
    both = [submitted("a", gang=gang), submitted("b", gang=gang)]
    view = fold(both, [leased("a"), leased("b")])
    assert name not in view.gang_started
    stopped: list[ev.AnyEvent] = [
        ev.JobRunStopped(job_id=A, run=1, reason=""),
        ev.JobRequeued(job_id=A, reason=""),
    ]
    job_fold.fold_messages(view, [message(2, *stopped)], {})
    assert name not in view.gang_started
    ended: list[ev.AnyEvent] = [ev.JobRunSucceeded(job_id=B, run=1), ev.JobSucceeded(job_id=B)]
    job_fold.fold_messages(view, [message(3, *ended)], {})
    assert name in view.gang_started
    assert view.jobs.rare_properties[view.jobs.rows[A]].gang_started


def test_a_job_with_a_dependency_that_succeeded_long_ago_can_start() -> None:
    known = {A: job_table.EndedJob(JobState.SUCCEEDED, "d", 0)}
    view = fold([submitted("b", after=(A,))], known=known)
    assert not view.jobs.flags[view.jobs.rows[B]] & job_table.DEPENDS


def test_a_cancel_by_filter_matches_only_earlier_jobs() -> None:
    chosen = JobFilter(queue="q", job_set="s")
    view = fold([submitted("a")], [ev.JobsCancelRequested(filter=chosen)], [submitted("b")])
    assert (state(view, "a"), state(view, "b")) == ("CANCELLED", "QUEUED")


def test_a_filter_on_state_and_labels_ignores_other_jobs() -> None:
    chosen = JobFilter(queue="q", states=(JobState.QUEUED,), labels={"team": "red"})
    view = fold(
        [submitted("a", labels={"team": "red"}), submitted("b", labels={"team": "blue"})],
        [ev.JobsCancelRequested(filter=chosen)],
    )
    assert (state(view, "a"), state(view, "b")) == ("CANCELLED", "QUEUED")


MANY = [f"j{number:02}" for number in range(40)]


def _singly(names: Sequence[str], kind: type[ev.JobEvent], **said: object) -> list[ev.AnyEvent]:
    return [cast(ev.AnyEvent, kind(job_id=JobId(name), **said)) for name in names]


def test_a_bulk_preemption_equals_single_ones() -> None:
    before = (
        [submitted(name) for name in MANY],
        [leased(name) for name in MANY[:35]],
        _singly(MANY[:3], ev.JobCancelRequested, reason="enough"),
    )
    wanted = ev.JobsPreemptRequested(filter=JobFilter(queue="q"), reason="room")
    together = fold(*before, [wanted])
    singly = fold(*before, _singly(MANY, ev.JobPreemptRequested, reason="room"))
    assert known_of(together) == known_of(singly)
    assert attended(together) == attended(singly) == set(MANY[:35])
    for name in MANY[:35]:
        rare = [
            view.jobs.rare_properties[view.jobs.rows[JobId(name)]] for view in (together, singly)
        ]
        assert rare[0].stop_reason == rare[1].stop_reason
    _check(together)


def _at_once(*batches: Sequence[ev.AnyEvent]) -> View:
    """A view after these messages, which the log took at one time."""
    view = View()
    for position, events in enumerate(batches):
        job_fold.fold_messages(view, [message(position, *events, time_ms=0)], {})
    return view


UNUSUAL: dict[str, list[list[ev.AnyEvent]]] = {
    "all alike": [],
    "one that another waits for": [[submitted("late", after=(JobId(MANY[7]),))]],
    "one with a gang": [[submitted("j07x", gang=ev.Gang(name="g", size=1))], [leased("j07x")]],
    "one that was queued again": [_singly(MANY[7:8], ev.JobRequeued, reason="again")],
    "one that runs again": [
        _singly(MANY[7:8], ev.JobRequeued, reason="again"),
        [leased(MANY[7], run=2)],
    ],
    "one that is gone": [_singly(MANY[7:8], ev.JobCancelled, reason="enough")],
}


@pytest.mark.parametrize("between", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_a_batch_of_ends_equals_single_ends(between: list[list[ev.AnyEvent]]) -> None:
    before: list[list[ev.AnyEvent]] = [
        [submitted(name) for name in MANY],
        [leased(name) for name in MANY],
        _singly(MANY, ev.JobRunStopped, run=1, reason="asked to"),
        *between,
    ]
    names = [*MANY, "j07x", MANY[5]]
    for kind in (ev.JobPreempted, ev.JobCancelled, ev.JobSucceeded):
        said = {} if kind is ev.JobSucceeded else {"reason": "room"}
        apart = [_singly([name], kind, **said) for name in names]
        together = _at_once(*before, _singly(names, kind, **said))
        singly = _at_once(*before, *apart)
        once = _at_once(*before, _singly(MANY, kind, **said))
        assert known_of(together) == known_of(singly)
        assert attended(together) == attended(singly)
        assert {n: once.state_of(JobId(n)) for n in MANY} == {
            n: together.state_of(JobId(n)) for n in MANY
        }
        for view in (together, once):
            _check(view)


def test_capacity_of_a_preempted_run_is_marked_until_it_ends() -> None:
    preempting = ev.JobRunPreempting(
        job_id=A, run=1, cause=PreemptionCause.URGENCY, reason="for b", for_job=B
    )
    view = fold([submitted("a")], [leased("a")], [preempting])
    row = view.jobs.rows[A]
    assert view.jobs.flags[row] & job_table.CAPACITY_REASSIGNED
    stopped = ev.JobRunStopped(job_id=A, run=1, reason="")
    job_fold.fold_messages(view, [message(3, stopped, ev.JobRequeued(job_id=A, reason=""))], {})
    assert not view.jobs.flags[row] & (job_table.CAPACITY_REASSIGNED | job_table.STOPPING)


_NAMES = ("a", "b", "c")
_jobs = st.sampled_from([JobId(name) for name in _NAMES])
_runs = st.integers(1, 2)
_events = st.one_of(
    st.builds(
        lambda n, p, after: submitted(n, priority=p, after=tuple(JobId(a) for a in after)),
        st.sampled_from(_NAMES),
        st.integers(0, 2),
        st.lists(st.sampled_from(("a", "x")), max_size=1),
    ),
    st.builds(leased, st.sampled_from(_NAMES), _runs, st.sampled_from(("n0", "n1"))),
    st.builds(ev.JobRunPending, job_id=_jobs, run=_runs),
    st.builds(ev.JobRunRunning, job_id=_jobs, run=_runs),
    st.builds(ev.JobRunSucceeded, job_id=_jobs, run=_runs),
    st.builds(ev.JobRunStopped, job_id=_jobs, run=_runs, reason=st.just("")),
    st.builds(ev.JobRequeued, job_id=_jobs, reason=st.just(""), counted=st.booleans()),
    st.builds(ev.JobSucceeded, job_id=_jobs),
    st.builds(ev.JobCancelRequested, job_id=_jobs),
    st.builds(ev.JobCancelled, job_id=_jobs, reason=st.just("")),
    st.builds(ev.JobReprioritized, job_id=_jobs, priority=st.integers(0, 9)),
    st.builds(ev.JobsCancelRequested, filter=st.just(JobFilter(queue="q"))),
)
_history = st.lists(st.lists(_events, min_size=1, max_size=5), max_size=12)


def attended(view: View) -> set[JobId]:
    """The jobs that housekeeping must look at."""
    return {view.jobs.rows.id_at(row) for row in view.rows_to_examine}


def _check(view: View) -> None:
    """What is true of every view at every moment."""
    jobs = view.jobs
    for job_id, row in jobs.rows.items():
        assert jobs.rows.id_at(row) == job_id
        assert not jobs.flags[row] & job_table.FREE
    assert len(view.live_rows()) == len(jobs.rows)
    for row in view.rows_to_examine:
        assert not jobs.flags[row] & job_table.FREE


@settings(max_examples=EXAMPLES or 120)
@given(history=_history, data=st.data())
def test_any_split_and_repetition_of_the_log_gives_the_same_view(
    history: list[list[ev.AnyEvent]], data: st.DataObject
) -> None:
    whole = [message(position, *events) for position, events in enumerate(history)]
    once = View()
    job_fold.fold_messages(once, whole, {})
    _check(once)
    again = View()
    at = 0
    while at < len(whole):
        upto = data.draw(st.integers(at + 1, len(whole)))
        back = data.draw(st.integers(0, at))
        job_fold.fold_messages(again, whole[back:upto], {})
        _check(again)
        at = upto
    assert known_of(again) == known_of(once)


def _in_partition(partition: int, event: ev.AnyEvent) -> ev.AnyEvent:
    """The same about a job of this partition."""
    if not isinstance(event, ev.JobEvent):
        return event

    def there(job_id: JobId) -> JobId:
        return JobId(f"0{partition}{job_id}".ljust(28, "0"))

    moved = msgspec.structs.replace(event, job_id=there(event.job_id))
    if isinstance(moved, ev.JobSubmitted):
        after = tuple(map(there, moved.after))
        return msgspec.structs.replace(moved, after=after)
    return moved


@settings(max_examples=EXAMPLES or 120)
@given(
    history=st.lists(
        st.tuples(st.integers(0, 2), st.lists(_events, min_size=1, max_size=5)), max_size=20
    ),
    step_ms=st.sampled_from([1_000, 20_000]),
    twice=st.booleans(),
)
def test_messages_folded_in_a_batch_equal_single_folds(
    history: list[tuple[int, list[ev.AnyEvent]]], step_ms: int, twice: bool
) -> None:
    entries = []
    for number, (partition, events) in enumerate(history):
        folded = [_in_partition(partition, event) for event in events]
        (record,) = ev.records("q", f"s{partition}", "test", folded, partition=partition)
        entries.append(Entry(partition, number, record.key, record.value, step_ms * number))
    together, singly = View(), View()
    if twice:  # what was read before is read again, with the rest
        job_fold.fold_messages(together, job_fold.decode_batch(entries[: len(entries) // 2]), {})
    job_fold.fold_messages(together, job_fold.decode_batch(entries), {})
    _check(together)
    for each in job_fold.read_messages(entries):
        job_fold.fold_messages(singly, [each], {})
    assert known_of(together) == known_of(singly)
    assert together.positions == singly.positions
    assert attended(together) == attended(singly)
    assert together.orphaned_runs == singly.orphaned_runs
    live = [job_id for job_id, _ in together.jobs.rows.items() if job_id in singly.specs]
    assert together.specs.get_all(live) == singly.specs.get_all(live)
    assert (
        dict(together.specs.begin_save() or ()).keys()
        == dict(singly.specs.begin_save() or ()).keys()
    )
    assert together.specs.get_all(live) == singly.specs.get_all(live)


@settings(max_examples=EXAMPLES or 50)
@given(
    folded=st.lists(st.integers(0, 39), min_size=17, max_size=60),
    once=st.booleans(),
    run=st.integers(1, 2),
    cancelled=st.lists(st.integers(0, 39), max_size=2),
)
def test_a_batch_of_successes_equals_single_ones(
    folded: list[int], once: bool, run: int, cancelled: list[int]
) -> None:
    names = [f"00j{number:02}".ljust(28, "0") for number in range(40)]
    before = [message(0, *map(submitted, names)), message(1, *map(leased, names))]
    if cancelled:
        ended = [ev.JobCancelled(job_id=JobId(names[number]), reason="") for number in cancelled]
        before.append(message(2, *ended))
    folded = list(dict.fromkeys(folded)) if once else folded
    entries = []
    for position, number in enumerate(folded, 3):
        succeeded = ev.JobRunSucceeded(job_id=JobId(names[number]), run=run if position == 5 else 1)
        (record,) = ev.records("q", "s", "test", [succeeded], partition=0)
        entries.append(Entry(0, position, record.key, record.value, 1000 * position))
    together, singly = View(), View()
    job_fold.fold_messages(together, [*before, *job_fold.decode_batch(entries)], {})
    _check(together)
    job_fold.fold_messages(singly, [*before, *job_fold.read_messages(entries)], {})
    assert known_of(together) == known_of(singly)
    assert together.positions == singly.positions
    assert attended(together) == attended(singly)
    assert together.orphaned_runs == singly.orphaned_runs


@settings(max_examples=EXAMPLES or 80)
@given(history=_history)
def test_no_job_ever_leaves_a_final_state(history: list[list[ev.AnyEvent]]) -> None:
    view = View()
    final: dict[str, str] = {}
    for position, events in enumerate(history):
        for event in events:
            job_fold.fold_messages(view, [message(position, event)], {})
            view.positions[0] = position
        for name in _NAMES:
            now = view.state_of(JobId(name))
            if name in final:
                assert now is not None
                assert now.value == final[name]
            elif now in JOB_ENDED:
                final[name] = now.value
