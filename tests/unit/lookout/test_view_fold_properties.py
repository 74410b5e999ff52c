"""However the log is cut, and whatever of it is read again, the view is the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.domain import ids
from fairlead_common.domain.lifecycle import STOPPING, JobFlag, JobState
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobFilter
from fairlead_common.domain.story import build_story
from fairlead_lookout.domain.model import Message
from fairlead_lookout.domain.transitions import WITH_RUN
from tests.example_numbers import EXAMPLES
from tests.unit.lookout.builders import (
    QUEUE,
    PlainView,
    cancel,
    failed,
    failed_run,
    job_id,
    leased,
    message,
    pending,
    requeued,
    resubmitted,
    running,
    submitted,
    succeeded,
)
from tests.unit.lookout.histories import history

NAMES = ("a", "b", "c")
RESUBMITTED = ("a2", "b2", "a3")


def _events() -> st.SearchStrategy[list[events.AnyEvent]]:
    names = st.sampled_from(NAMES)
    runs = st.integers(1, 3)
    one: list[st.SearchStrategy[list[events.AnyEvent]]] = [
        names.map(lambda name: [submitted(name, hold=name == "c")]),
        st.tuples(names, st.sampled_from(RESUBMITTED)).map(lambda at: [resubmitted(*at)]),
        names.map(lambda name: [failed_run(name), failed(name)]),
        st.tuples(names, runs).map(lambda at: [leased(*at)]),
        st.tuples(names, runs).map(lambda at: [pending(*at)]),
        st.tuples(names, runs).map(lambda at: [running(*at)]),
        st.tuples(names, runs).map(lambda at: succeeded(*at)),
        st.tuples(names, runs).map(lambda at: [failed_run(*at), requeued(at[0])]),
        names.map(lambda name: [cancel(name)]),
        names.map(lambda name: [events.JobReleased(job_id=job_id(name))]),
        st.sampled_from([(), (JobState.QUEUED,), (JobState.RUNNING,)]).map(
            lambda states: [
                events.JobsCancelRequested(filter=JobFilter(queue=QUEUE, states=states))
            ]
        ),
        st.integers(0, 3).map(
            lambda priority: [
                events.JobsReprioritized(filter=JobFilter(queue=QUEUE), priority=priority)
            ]
        ),
    ]
    return st.one_of(one)


def _messages() -> st.SearchStrategy[list[Message]]:
    parts = st.lists(st.lists(_events(), min_size=1, max_size=4), min_size=1, max_size=25)
    return parts.map(
        lambda found: [
            message(2 * place, *[event for some in part for event in some])
            for place, part in enumerate(found)
        ]
    )


def _whole(view: PlainView) -> tuple[object, ...]:
    return (
        dict(view.cache.jobs),
        view.runs,
        {
            key: (each.jobs, each.live, each.by_state(), each.last, each.superseded)
            for key, each in view.cache.job_sets.items()
        },
        view.published,
        view.positions,
    )


@given(_messages(), st.data())
@settings(max_examples=EXAMPLES or 60)
def test_any_cut_of_the_log_into_batches_gives_the_same_view(
    messages: list[Message], data: st.DataObject
) -> None:
    whole, cut = PlainView(), PlainView()
    whole.fold(*messages)
    rest = list(messages)
    while rest:
        size = data.draw(st.integers(1, len(rest)), label="batch")
        cut.fold(*rest[:size])
        del rest[:size]
    assert _whole(cut) == _whole(whole)


@given(_messages(), st.data())
@settings(max_examples=EXAMPLES or 50)
def test_reading_parts_of_the_log_again_changes_nothing(
    messages: list[Message], data: st.DataObject
) -> None:
    once, again = PlainView(), PlainView()
    once.fold(*messages)
    for end in range(1, len(messages) + 1):
        start = data.draw(st.integers(0, end - 1), label="start")
        again.fold(*messages[start:end])
    assert _whole(again) == _whole(once)


@given(_messages())
@settings(max_examples=EXAMPLES or 60)
def test_counters_always_agree_with_the_jobs(messages: list[Message]) -> None:
    view = PlainView()
    for each in messages:
        view.fold(each)
        states = [job.state for job in view.cache.jobs.values()]
        for job_set in view.cache.job_sets.values():
            assert job_set.by_state() == {state: states.count(state) for state in set(states)}
            assert job_set.jobs == len(states)
            live = [job for job in view.cache.jobs.values() if job.ended_ms is None]
            assert job_set.live == len(live)


@given(_messages())
@settings(max_examples=EXAMPLES or 60)
def test_a_superseded_job_did_not_succeed_and_its_job_set_counts_it_once(
    messages: list[Message],
) -> None:
    view = PlainView()
    for each in messages:
        view.fold(each)
        jobs = view.cache.jobs.values()
        superseded = [job for job in jobs if job.superseded_by is not None]
        for job in superseded:
            assert job.state in ("FAILED", "CANCELLED")
            assert job.superseded_by in view.cache.jobs
        for job_set in view.cache.job_sets.values():
            assert job_set.superseded == len(superseded)


def _check_stories(messages: list[Message]) -> None:
    """The plain definition of a job's history has the states and flags that lookout shows."""
    view = PlainView()
    view.fold(*messages)
    sequences = [(message.time_ms, message.sequence) for message in messages]
    for job in view.cache.jobs.values():
        last = build_story(ids.JobId(job.id), sequences)[-1]
        assert last.state == job.state
        assert job.held == (JobFlag.HOLD in last.flags)
        if job.state in WITH_RUN:
            stops = "preempt" if last.flags & STOPPING else None
            assert job.stopping == ("cancel" if JobFlag.STOP_CANCEL in last.flags else stops)


@given(_messages())
def test_a_story_ends_in_the_state_that_lookout_shows(messages: list[Message]) -> None:
    _check_stories(messages)


@given(st.integers(0, 10_000))
def test_stories_of_all_kinds_of_events_end_in_the_state_that_lookout_shows(seed: int) -> None:
    _check_stories([message(place, *events) for place, events in enumerate(history(seed))])
