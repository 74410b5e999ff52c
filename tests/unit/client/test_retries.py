"""When a request is asked again, and after how long."""

import pytest

from fairlead import errors
from fairlead.calls.exchange_types import Reply, Unreachable
from fairlead.transport.retry_policy import Retries, delay_s
from tests.unit.client.world import AWAY, BROKEN, World, ok, problem

POLICY = Retries(attempts_max=3, base_s=1.0, cap_s=4.0)
QUEUE = ok({"name": "a"})


@pytest.mark.parametrize("first", [AWAY, BROKEN, problem(429), problem(503), problem(502)])
def test_a_read_is_repeated_after_a_temporary_failure(first: Reply | Unreachable) -> None:
    world = World(first, QUEUE, retries=POLICY)
    assert world.client.queue("a").name == "a"
    assert len(world.pauses) == 1


@pytest.mark.parametrize("first", [AWAY, problem(429)])
def test_a_change_that_was_not_sent_is_repeated(first: Reply | Unreachable) -> None:
    world = World(first, QUEUE, retries=POLICY)
    assert world.client.create_queue("a").name == "a"


@pytest.mark.parametrize("first", [BROKEN, problem(503)])
def test_an_unrepeatable_change_that_was_sent_is_not_repeated(
    first: Reply | Unreachable,
) -> None:
    world = World(first, retries=POLICY)
    with pytest.raises(errors.FairleadError):
        world.client.create_queue("a")


def test_attempts_are_limited() -> None:
    world = World(AWAY, AWAY, AWAY, retries=POLICY)
    with pytest.raises(errors.ServerUnreachable, match="refused"):
        world.client.queue("a")
    assert len(world.asked) == 3


def test_a_refused_request_is_not_repeated() -> None:
    world = World(problem(404, "no queue a"), retries=POLICY)
    with pytest.raises(errors.NotFound, match="no queue a"):
        world.client.queue("a")


UNMET = Retries(attempts_max=5, first_attempts_max=2)


def test_a_server_that_never_answered_gets_fewer_attempts() -> None:
    world = World(*[AWAY] * 5, retries=UNMET)
    with pytest.raises(errors.ServerUnreachable):
        world.client.queue("a")
    assert len(world.asked) == 2


def test_a_server_that_has_answered_in_a_flow_gets_all_attempts() -> None:
    first = ok({"queue": "q", "jobSet": "s", "jobs": 1, "live": 1})
    last = ok({"queue": "q", "jobSet": "s", "jobs": 1, "live": 0})
    world = World(first, AWAY, AWAY, AWAY, last, retries=UNMET)
    assert len(list(world.client.watch("q", "s"))) == 2


def test_delays_double_up_to_their_cap_with_jitter() -> None:
    shortest = [delay_s(POLICY, attempt, AWAY, 0) for attempt in (1, 2, 3, 4)]
    longest = [delay_s(POLICY, attempt, AWAY, 2**64 - 1) for attempt in (1, 2, 3, 4)]
    assert shortest == [0.5, 1.0, 2.0, 2.0]
    assert longest == pytest.approx([1.0, 2.0, 4.0, 4.0])


def test_a_delay_respects_retry_after_up_to_one_minute() -> None:
    patient = Reply(503, {"retry-after": "7"})
    absurd = Reply(503, {"retry-after": "86400"})
    assert delay_s(POLICY, 1, patient, 0) == 7.0
    assert delay_s(POLICY, 1, absurd, 0) == 60.0
