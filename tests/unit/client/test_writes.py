"""A client sees what it wrote without being told which position that was."""

from collections.abc import Sequence
from itertools import islice

from fairlead.calls.exchange_types import Reply
from fairlead.calls.submission_batches import JOBS_MAX
from fairlead.calls.submission_positions import JOB_SETS_MAX, SubmissionPositions
from fairlead.models.job_models import Event, Filter
from tests.unit.client.world import World, ok


def submitted(position: str, *, duplicate: bool = False) -> Reply:
    job = {"id": "j1", "clientId": "a", "duplicate": duplicate}
    return ok({"position": position, "jobs": [job]})


def finished(job_set: str = "s") -> Reply:
    return ok({"queue": "q", "jobSet": job_set, "isFinished": True, "states": {}})


def afters(world: World) -> Sequence[str | None]:
    """The positions that the requests asked to see."""
    return [dict(request.query).get("after") for request in world.asked]


def submit(world: World, job_set: str = "s") -> None:
    world.client.submit("q", job_set, [{"command": ["true"], "cpu": "1", "memory": "1Mi"}])


def test_waiting_for_a_job_set_includes_its_submissions() -> None:
    world = World(submitted("p1"), submitted("p2"), finished())
    submit(world)
    submit(world, "other")
    world.client.wait("q", "s")
    assert afters(world) == [None, None, "p1"]


def test_duplicates_do_not_hide_the_position_of_new_jobs() -> None:
    world = World(submitted("p1"), submitted("none", duplicate=True), finished())
    jobs = [{"command": ["true"]}] * (JOBS_MAX + 1)
    done = world.client.submit("q", "s", jobs)
    world.client.wait("q", "s")
    assert done.position == "p1"
    assert afters(world) == [None, None, "p1"]


def test_a_duplicate_submission_does_not_replace_the_position() -> None:
    world = World(submitted("p1"), submitted("none", duplicate=True), finished())
    submit(world)
    submit(world)
    world.client.wait("q", "s")
    assert afters(world) == [None, None, "p1"]


def test_a_given_position_overrides_the_recorded_one() -> None:
    world = World(submitted("p1"), finished())
    submit(world)
    world.client.job_set("q", "s", after="mine")
    assert afters(world) == [None, "mine"]


def test_a_job_set_without_submissions_is_read_without_a_position() -> None:
    world = World(submitted("p1"), finished("theirs"))
    submit(world)
    world.client.job_set("q", "theirs")
    assert afters(world) == [None, None]


def test_events_of_a_job_set_wait_for_its_submission() -> None:
    world = World(submitted("p1"), (Reply(200, {}), [b'id: 1\ndata: {"type": "queued"}\n\n']))
    submit(world)
    (event,) = islice(world.client.events("q", "s"), 1)
    assert isinstance(event, Event)
    assert afters(world) == [None, "p1"]


def test_the_number_of_recorded_job_sets_is_limited() -> None:
    writes = SubmissionPositions()
    for number in range(JOB_SETS_MAX + 1):
        writes.record("q", f"s{number}", f"p{number}")
    writes.record("q", "s1", "again")
    writes.record("q", "new", "newest")
    assert writes.position("q", "s0") is None
    assert writes.position("q", "s2") is None
    assert writes.position("q", "s1") == "again"
    assert writes.position() == "newest"


def test_lists_and_counts_wait_for_submissions() -> None:
    empty = ok({"jobs": [], "jobSets": [], "groups": [], "total": "0"})
    world = World(submitted("p1"), submitted("p2"), *[empty] * 5)
    submit(world)
    submit(world, "other")
    mine = Filter(queue="q", job_set="s")
    assert list(world.client.iter_jobs(mine)) == []
    assert world.client.count_jobs(["state"], mine) == ()
    assert list(world.client.iter_jobs(Filter(queue="q"))) == []
    assert list(world.client.job_sets()) == []
    assert world.client.count_jobs(["state"], after="mine") == ()
    assert afters(world) == [None, None, "p1", "p1", "p2", "p2", "mine"]
