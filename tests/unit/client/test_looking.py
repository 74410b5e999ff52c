"""Reading lists page by page, waiting, and following changes."""

import pytest

from fairlead import JobSet, errors, looking, managing
from fairlead.steps import Reply
from tests.unit.client.world import World, ok


def job_set(finished: bool, **states: int) -> object:
    jobs = sum(states.values())
    return {"queue": "q", "jobSet": "s", "jobs": jobs, "live": int(not finished), "states": states}


def test_a_list_is_read_to_its_last_page() -> None:
    pages = [{"queues": [{"name": "a"}, {"name": "b"}], "next": "x"}, {"queues": [{"name": "c"}]}]
    world = World(*map(ok, pages))
    found = world.emitted(managing.queues())
    assert [getattr(item, "name", "") for item in found] == ["a", "b", "c"]
    assert ("cursor", "x") in world.asked[1].query


def test_a_list_that_is_not_read_to_its_end_asks_for_no_more_pages() -> None:
    world = World(ok({"queues": [{"name": "a"}, {"name": "b"}], "next": "x"}))
    assert len(world.emitted(managing.queues(), most=1)) == 1


def test_waiting_ends_when_all_jobs_ended() -> None:
    world = World(
        ok(job_set(False, RUNNING=1)), Reply(304, {}), ok(job_set(True, SUCCEEDED=1)), tick_s=1.0
    )
    found = world.finish(looking.wait("q", "s", after="pos"))
    assert found.states == {"SUCCEEDED": 1}
    assert dict(world.asked[0].query) == {"after": "pos", "until": "finished", "wait": "30s"}


def test_waiting_with_a_time_limit_gives_up_after_it() -> None:
    world = World(*[ok(job_set(False, RUNNING=1))] * 20, tick_s=1.0)
    with pytest.raises(errors.WaitTimeout, match="5 s"):
        world.finish(looking.wait("q", "s", timeout_s=5.0))


def test_a_server_that_answers_at_once_is_not_asked_in_a_tight_loop() -> None:
    world = World(ok(job_set(False)), ok(job_set(False)), ok(job_set(True)))
    world.finish(looking.wait("q", "s"))
    assert world.pauses == [looking.POLL_S] * 2


def test_watching_tells_each_change_once_and_ends_with_the_last() -> None:
    world = World(
        ok(job_set(False, RUNNING=2), etag='"1"'),
        Reply(304, {}),
        ok(job_set(True, SUCCEEDED=2), etag='"2"'),
    )
    found = world.emitted(looking.watch("q", "s"))
    assert [item.states for item in found if isinstance(item, JobSet)] == [
        {"RUNNING": 2},
        {"SUCCEEDED": 2},
    ]
    assert world.asked[1].headers == (("if-none-match", '"1"'),)


def test_names_are_escaped_in_paths() -> None:
    world = World(ok(job_set(True)))
    world.finish(looking.job_set("q", "a/b c"))
    assert world.asked[0].path == "/api/v1/jobsets/q/a%2Fb%20c"


def test_counts_of_a_job_set_add_up() -> None:
    states = {"SUCCEEDED": 3, "FAILED": 1, "RUNNING": 2}
    found = JobSet(queue="q", job_set="s", jobs=6, live=2, states=states)
    assert (found.ended, found.bad, found.is_finished) == (4, 1, False)
