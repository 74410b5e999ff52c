"""How messages are divided into batches."""

import itertools
from collections import deque

from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobFilter
from fairlead_lookout.domain.message_batches import cut_batches, find_job_ids
from tests.unit.lookout.builders import job_id, leased, message, resubmitted, submitted


def test_a_bulk_request_is_a_batch_of_its_own() -> None:
    bulk = events.JobsCancelRequested(filter=JobFilter(queue="q"))
    messages = [
        message(0, submitted("a")),
        message(2, bulk),
        message(4, submitted("b")),
        message(6, submitted("c")),
    ]
    number = messages[0].partition
    batches = list(cut_batches(deque(messages), {number: 0}, {number: 8}, 10))
    assert [(len(batch.messages), batch.is_bulk_request) for batch in batches] == [
        (1, False),
        (1, True),
        (2, False),
    ]
    places = [(batch.before[number], batch.after[number]) for batch in batches]
    assert places == [(0, 1), (1, 3), (3, 8)]


def test_a_message_with_a_bulk_request_among_others_ends_its_batch() -> None:
    bulk = events.JobsCancelRequested(filter=JobFilter(queue="q"))
    messages = [message(0, submitted("a")), message(2, bulk, submitted("b")), message(4, bulk)]
    number = messages[0].partition
    batches = list(cut_batches(deque(messages), {number: 0}, {number: 8}, 10))
    assert [(len(batch.messages), batch.is_bulk_request) for batch in batches] == [
        (2, False),
        (1, True),
    ]


def test_batches_of_any_size_join_up() -> None:
    messages = [message(2 * place, submitted(f"j{place}")) for place in range(20)]
    number = messages[0].partition
    for most in (1, 3, 20, 100):
        batches = list(cut_batches(deque(messages), {number: 0}, {number: 40}, most))
        assert batches[0].before == {number: 0}
        assert batches[-1].after == {number: 40}
        for before, after in itertools.pairwise(batches):
            assert after.before == before.after
        assert [each for batch in batches for each in batch.messages] == messages


def test_messages_of_a_batch_are_not_retained_while_it_is_folded() -> None:
    messages = deque(message(2 * place, submitted(f"j{place}")) for place in range(6))
    number = messages[0].partition
    left = [len(messages) for _ in cut_batches(messages, {number: 0}, {number: 12}, 2)]
    assert left == [3, 1, 0]


def test_positions_that_move_without_messages_are_written_too() -> None:
    (batch,) = cut_batches(deque(), {0: 5}, {0: 6}, 10)
    assert (batch.before, batch.after) == ({0: 5}, {0: 6})
    assert list(cut_batches(deque(), {0: 5}, {0: 5}, 10)) == []


def test_a_batch_refers_to_the_jobs_that_it_names_and_then_to_those_that_it_resubmits() -> None:
    found = find_job_ids(
        [message(0, submitted("b"), resubmitted("old", "a")), message(1, leased("b"), leased("c"))]
    )
    assert list(found) == [job_id(name) for name in ("b", "a", "c", "old")]
