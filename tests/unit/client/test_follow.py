"""Event streams and logs that break off and go on."""

from itertools import islice

import pytest

from fairlead import Event, JobDetail, Run, errors
from fairlead.calls.event_messages import Message, Parser
from fairlead.calls.exchange_types import Reply
from tests.unit.client.world import BROKEN, World, ok, problem

OPEN = Reply(200, {})


def event(number: int, kind: str = "queued") -> bytes:
    return b'id: %d-0\ndata: {"type": "%s", "jobId": "j"}\n\n' % (number, kind.encode())


def types(items: list[Event]) -> list[tuple[str, str]]:
    return [(item.id, item.type) for item in items]


def finished(value: bool) -> Reply:
    return ok({"queue": "q", "jobSet": "s", "live": int(not value)})


def test_events_resume_after_the_last_one_when_the_connection_breaks() -> None:
    world = World(
        (OPEN, [event(1), event(2)[:9], BROKEN]),
        finished(False),
        (OPEN, [event(2), event(3, "finished")]),
        finished(True),
    )
    found = list(world.client.events("q", "s", until_finished=True))
    assert types(found) == [("1-0", "queued"), ("2-0", "queued"), ("3-0", "finished")]
    assert ("last-event-id", "1-0") in world.asked[2].headers


def test_events_begin_after_the_one_given() -> None:
    world = World((OPEN, [event(8)]))
    list(islice(world.client.events("q", "s", since="7-0"), 1))
    assert ("last-event-id", "7-0") in world.asked[0].headers


def test_a_reset_is_reported() -> None:
    world = World((OPEN, [b"event: reset\nid: 9-0\ndata: {}\n\n"]))
    assert types(list(islice(world.client.events("q", "s"), 1))) == [("9-0", "reset")]


def job(state: str, *runs: dict[str, object]) -> Reply:
    return ok({"id": "j", "queue": "q", "jobSet": "s", "state": state, "runs": runs}, etag='"1"')


STARTED = {"running": "2026-01-01T00:00:01.000Z"}
ENDED = {"ended": "2026-01-01T00:00:02.000Z"}


def test_an_interrupted_log_resumes_at_the_same_byte_of_the_run() -> None:
    began = job("RUNNING", {"run": 1, "state": "RUNNING", **STARTED})
    world = World(began, (OPEN, [b"one\n", b"tw", BROKEN]), (OPEN, [b"o\n"]))
    assert list(world.client.logs("j", follow=True)) == [b"one\n", b"tw", b"o\n"]
    assert [("run", "1") in each.query for each in world.asked] == [False, True, True]
    assert ("sinceBytes", "6") in world.asked[2].query


def test_a_followed_log_waits_for_a_run() -> None:
    returned = {"run": 1, "state": "RETURNED", **ENDED}
    world = World(
        job("QUEUED"),
        Reply(304, {}),
        job("QUEUED", returned),
        job("PENDING", returned, {"run": 2, "state": "PENDING"}),
        job("RUNNING", returned, {"run": 2, "state": "RUNNING", **STARTED}),
        (OPEN, [b"here\n"]),
    )
    assert list(world.client.logs("j", follow=True)) == [b"here\n"]
    assert ("run", "2") in world.asked[-1].query


def test_the_log_of_a_job_that_ended_without_a_run_is_refused_by_the_server() -> None:
    world = World(job("QUEUED"), job("CANCELLED"), problem(404, "has not run yet"))
    with pytest.raises(errors.NotFound, match="has not run yet"):
        list(world.client.logs("j", follow=True))


@pytest.mark.parametrize(
    ("run", "may"), [(None, False), (1, True), (2, True), (3, False), (4, False), (5, True)]
)
def test_only_the_next_run_is_waited_for_by_its_number(run: int | None, may: bool) -> None:
    runs = [
        Run(run=1, state="FAILED", running=STARTED["running"], ended=ENDED["ended"]),
        Run(run=2, state="RETURNED", ended=ENDED["ended"]),
        Run(run=3, state="PENDING"),
    ]
    detail = JobDetail(id="j", queue="q", job_set="s", state="PENDING", runs=tuple(runs))
    assert detail.may_have_log(run) is may


def test_the_tail_of_a_log_is_not_resumed() -> None:
    world = World((OPEN, [b"one\n", BROKEN]))
    with pytest.raises(errors.ServerUnreachable):
        list(world.client.logs("j", tail=3))


def test_a_log_since_a_time_is_requested_and_not_resumed() -> None:
    world = World((OPEN, [b"one\n", BROKEN]))
    with pytest.raises(errors.ServerUnreachable):
        list(world.client.logs("j", since="10m"))
    assert ("sinceTime", "10m") in world.asked[0].query


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_a_stream_has_the_same_messages_for_every_chunk_size(size: int) -> None:
    text = (
        ": ping\r\n\r\nevent: a\r\nid: 1\r\ndata: x\r\ndata: ÿ\r\n\r\n"
        "data:no space\n\nid: 2\n\nretry: 5\ndata: last\n\nunfinished"
    ).encode()
    parser = Parser()
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert [message for chunk in chunks for message in parser.feed(chunk)] == [
        Message("a", "x\nÿ", "1"),
        Message("message", "no space", "1"),
        Message("message", "last", "2"),
    ]
