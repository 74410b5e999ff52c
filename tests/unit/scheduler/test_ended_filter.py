"""Jobs of which Postgres cannot know that they ended are not looked up there."""

import random

from fairlead_common.domain.ids import JobId, client_job_ids, new_job_id
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import ended_filter
from fairlead_scheduler.state.jobs.ended_filter import EndedFilter
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import submitted

COUNT = 50_000


def client_ids(job_set: str, count: int = COUNT) -> list[JobId]:
    return client_job_ids(3, "q", job_set, [f"j{number}" for number in range(count)])


def random_ids(chance: random.Random) -> list[JobId]:
    return [new_job_id(3, 1_800_000_000_000, chance.getrandbits(80)) for _ in range(COUNT)]


def complete(ids: list[JobId]) -> EndedFilter:
    """A filter that knows that Postgres has these ids."""
    made = EndedFilter()
    made.add(ids)
    made.is_complete = True
    return made


def test_no_id_that_was_added_is_left_out() -> None:
    ids = client_ids("s") + random_ids(random.Random(1))
    assert complete(ids).select_possible(ids) == sorted(ids)


def test_few_other_ids_are_possible() -> None:
    made = complete(client_ids("s") + random_ids(random.Random(1)))
    others = client_ids("other") + random_ids(random.Random(2))
    assert len(made.select_possible(others)) < len(others) / 1000


def test_all_ids_are_possible_before_those_of_postgres_were_added() -> None:
    ids = client_ids("s", 20)
    assert EndedFilter().select_possible(ids) == sorted(ids)


def test_all_ids_are_possible_once_too_many_or_unusual_ids_were_added() -> None:
    ids = client_ids("s", 20)
    unusual = complete([JobId("unusual")])
    full = complete([])
    for _ in range(ended_filter.IDS_MAX // COUNT + 1):
        full.add(client_ids("other"))
    assert unusual.select_possible(ids) == full.select_possible(ids) == sorted(ids)


def test_a_new_job_is_looked_up_only_if_its_id_left_the_memory() -> None:
    view = View()
    view.saved_ends.is_complete = True
    job_id = client_ids("s", 1)[0]
    sequence = ev.EventSequence(queue="q", job_set="s", by="test", events=[submitted(job_id)])
    message = job_fold.Message(3, 0, 0, sequence)
    assert job_fold.find_ids_to_look_up(view, [message]) == []
    view.recent[job_id] = JobState.SUCCEEDED
    view.trim_recent(0)
    assert job_fold.find_ids_to_look_up(view, [message]) == [job_id]
