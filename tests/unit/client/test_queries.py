"""Reading lists page by page, waiting, and following changes."""

from itertools import islice

import pytest

from fairlead import Filter, JobSet, errors
from fairlead.blocking import job_query_methods
from fairlead.calls.exchange_types import Reply, Unreachable
from tests.unit.client.world import World, ok


def job_set(finished: bool, **states: int) -> object:
    jobs = sum(states.values())
    return {"queue": "q", "jobSet": "s", "jobs": jobs, "live": int(not finished), "states": states}


def test_a_list_is_read_to_its_last_page() -> None:
    pages = [{"queues": [{"name": "a"}, {"name": "b"}], "next": "x"}, {"queues": [{"name": "c"}]}]
    world = World(*map(ok, pages))
    found = list(world.client.queues())
    assert [getattr(item, "name", "") for item in found] == ["a", "b", "c"]
    assert ("cursor", "x") in world.asked[1].query


def test_a_list_that_is_not_read_to_its_end_requests_no_further_pages() -> None:
    world = World(ok({"queues": [{"name": "a"}, {"name": "b"}], "next": "x"}))
    assert len(list(islice(world.client.queues(), 1))) == 1


def test_the_chunks_of_an_export_are_passed_on() -> None:
    world = World((Reply(200, {}), [b"id,queue\n", b"0a,q\n"]))
    where = Filter(queue="q", states=("FAILED", "RUNNING"))
    found = list(world.client.export_jobs(where, q="x", format="ndjson"))
    assert found == [b"id,queue\n", b"0a,q\n"]
    assert world.asked[0].path == "/api/v1/jobs/export.csv"
    assert dict(world.asked[0].query) == {
        "queue": "q",
        "state": "FAILED,RUNNING",
        "q": "x",
        "format": "ndjson",
    }


def test_an_interrupted_export_raises() -> None:
    world = World((Reply(200, {}), [b"id\n", Unreachable("cut", sent=True)]))
    with pytest.raises(errors.ServerUnreachable, match="was interrupted: cut"):
        list(world.client.export_job_sets(active=True))
    assert dict(world.asked[0].query) == {"active": "true", "format": "csv"}


def test_a_fairness_query_has_the_start_and_end_times() -> None:
    output = {"queue": "q", "from": "a", "to": "b", "stepSeconds": 60, "used": {"cpu": 1.5}}
    world = World(ok(output))
    found = world.client.fairness("q", since="a", until="b")
    assert (found.from_, found.used) == ("a", {"cpu": 1.5})
    assert dict(world.asked[0].query) == {"queue": "q", "from": "a", "to": "b"}


def test_waiting_ends_when_all_jobs_ended() -> None:
    world = World(
        ok(job_set(False, RUNNING=1)), Reply(304, {}), ok(job_set(True, SUCCEEDED=1)), tick_s=1.0
    )
    found = world.client.wait("q", "s", after="pos")
    assert found.states == {"SUCCEEDED": 1}
    assert dict(world.asked[0].query) == {"after": "pos", "until": "finished", "wait": "30s"}


def test_waiting_raises_after_its_timeout() -> None:
    world = World(*[ok(job_set(False, RUNNING=1))] * 20, tick_s=1.0)
    with pytest.raises(errors.WaitTimeout, match="5 s"):
        world.client.wait("q", "s", timeout_s=5.0)


def test_a_server_that_does_not_wait_is_polled_with_a_pause() -> None:
    world = World(ok(job_set(False)), ok(job_set(False)), ok(job_set(True)))
    world.client.wait("q", "s")
    assert world.pauses == [job_query_methods.POLL_S] * 2


def test_watching_returns_each_change_and_ends_with_the_last() -> None:
    world = World(
        ok(job_set(False, RUNNING=2), etag='"1"'),
        Reply(304, {}),
        ok(job_set(True, SUCCEEDED=2), etag='"2"'),
    )
    found = list(world.client.watch("q", "s"))
    assert [item.states for item in found if isinstance(item, JobSet)] == [
        {"RUNNING": 2},
        {"SUCCEEDED": 2},
    ]
    assert world.asked[1].headers == (("if-none-match", '"1"'),)


def test_names_are_escaped_in_paths() -> None:
    world = World(ok(job_set(True)))
    world.client.job_set("q", "a/b c")
    assert world.asked[0].path == "/api/v1/jobsets/q/a%2Fb%20c"


def test_counts_of_a_job_set_add_up() -> None:
    states = {"SUCCEEDED": 3, "FAILED": 1, "RUNNING": 2}
    found = JobSet(queue="q", job_set="s", jobs=6, live=2, states=states)
    assert (found.ended, found.bad, found.is_finished) == (4, 1, False)


def test_the_timeout_error_of_several_jobs_has_the_given_timeout() -> None:
    def job(state: str) -> Reply:
        return ok({"id": "j", "queue": "q", "jobSet": "s", "state": state})

    world = World(job("SUCCEEDED"), *[job("RUNNING")] * 9, tick_s=1.0)
    with pytest.raises(errors.WaitTimeout, match="Job b did not end within 5 s"):
        world.client.wait_jobs(["a", "b"], timeout_s=5.0)
