"""The small pieces: chunks, cursors, cuts, shares of partitions, the bar of states."""

import itertools
import random

import pytest

from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobFilter
from fairlead_lookout.domain import event_chunks, public_events
from fairlead_lookout.domain.message_batches import cut_batches, find_job_ids
from fairlead_lookout.domain.model import JobSet, Line
from fairlead_lookout.http.pages import rendering
from fairlead_lookout.store.fold import partition_locks
from fairlead_lookout.store.fold.fold_cache import FoldCache
from fairlead_lookout.store.queries import list_cursors
from tests.unit.lookout.builders import PlainView, job_id, leased, message, resubmitted, submitted

KEY = ("q", "s")


def lines(count: int, size: int = 20) -> list[Line]:
    """So many events of about so many bytes, three to a message."""
    made = []
    for number in range(count):
        place = (number // 3, number % 3)
        pad = "x" * size
        text = f'{{"id":"5-{place[0]}-{place[1]}","type":"leased","pad":"{pad}"}}'
        made.append(Line(*place, 1_000, text.encode()))
    return made


def test_chunks_hold_every_line_once_and_in_order() -> None:
    told = lines(2_000, size=500)
    packed = list(event_chunks.pack_chunks({KEY: JobSet(1, KEY, 0)}, {KEY: told}))
    assert len(packed) > 1
    assert packed[0].previous == (-1, 0)
    for before, after in itertools.pairwise(packed):
        assert after.previous == before.last
    seen = [line for chunk in packed for _, line in event_chunks.split_after(chunk.data, (-1, 0))]
    assert seen == [line.json for line in told]
    assert all(len(chunk.data) < event_chunks.CHUNK_BYTES_MAX for chunk in packed)


@pytest.mark.parametrize("count", [1, 7, 300])
def test_a_chunk_is_read_behind_any_of_its_events(count: int) -> None:
    told = lines(count)
    (chunk,) = event_chunks.pack_chunks({KEY: JobSet(1, KEY, 0)}, {KEY: told})
    for index, line in enumerate(told):
        rest = [
            place for place, _ in event_chunks.split_after(chunk.data, (line.position, line.item))
        ]
        assert rest == [(each.position, each.item) for each in told[index + 1 :]]


def test_a_line_longer_than_a_chunk_is_a_chunk_of_its_own() -> None:
    told = [*lines(1), *lines(1, size=event_chunks.CHUNK_BYTES_MAX), *lines(1)]
    assert len(list(event_chunks.pack_chunks({KEY: JobSet(1, KEY, 0)}, {KEY: told}))) == 3


def test_a_cursor_leads_back_to_its_place_in_its_list() -> None:
    query = ("jobs", "q", None, ["QUEUED"])
    cursor = list_cursors.encode(query, -5, "0abc")
    assert list_cursors.decode(query, cursor) == (-5, "0abc")
    assert list_cursors.decode(query, None) is None
    for wrong in (("jobs", "q", None, []), ("jobsets", "q", None, ["QUEUED"])):
        with pytest.raises(Problem):
            list_cursors.decode(wrong, cursor)


@pytest.mark.parametrize("text", ["", "%", "AAAA", "W10", "x" * 400, "é", "W251bGxd"])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        list_cursors.decode(("jobs",), text)
    (fault,) = refused.value.field_errors
    assert fault.detail == "Unknown cursor. Request the list again without `cursor`."


@pytest.mark.parametrize(
    "text",
    ["", "-", "1", "1-", "-1", "1--1", "a-1-1", "1-1", "1-1-1-1", "1-1-" + "9" * 40, "1-1-٣"],
)
def test_what_is_no_event_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the id of an event"):
        public_events.parse_id(text)


def test_a_request_about_many_jobs_is_a_batch_by_itself() -> None:
    asked = events.JobsCancelRequested(filter=JobFilter(queue="q"))
    told = [
        message(0, submitted("a")),
        message(2, asked),
        message(4, submitted("b")),
        message(6, submitted("c")),
    ]
    number = told[0].partition
    batches = list(cut_batches(told, {number: 0}, {number: 8}, 10))
    assert [(len(batch.messages), batch.is_bulk_request) for batch in batches] == [
        (1, False),
        (1, True),
        (2, False),
    ]
    places = [(batch.before[number], batch.after[number]) for batch in batches]
    assert places == [(0, 1), (1, 3), (3, 8)]


def test_a_batch_ends_behind_a_message_that_asks_something_of_many_jobs_among_others() -> None:
    asked = events.JobsCancelRequested(filter=JobFilter(queue="q"))
    told = [message(0, submitted("a")), message(2, asked, submitted("b")), message(4, asked)]
    number = told[0].partition
    batches = list(cut_batches(told, {number: 0}, {number: 8}, 10))
    assert [(len(batch.messages), batch.is_bulk_request) for batch in batches] == [
        (2, False),
        (1, True),
    ]


def test_cuts_join_up_whatever_their_size() -> None:
    told = [message(2 * place, submitted(f"j{place}")) for place in range(20)]
    number = told[0].partition
    for most in (1, 3, 20, 100):
        batches = list(cut_batches(told, {number: 0}, {number: 40}, most))
        assert batches[0].before == {number: 0}
        assert batches[-1].after == {number: 40}
        for before, after in itertools.pairwise(batches):
            assert after.before == before.after
        assert [each for batch in batches for each in batch.messages] == told


def test_positions_that_move_without_messages_are_written_too() -> None:
    (batch,) = cut_batches([], {0: 5}, {0: 6}, 10)
    assert (batch.before, batch.after) == ({0: 5}, {0: 6})
    assert list(cut_batches([], {0: 5}, {0: 5}, 10)) == []


@pytest.mark.parametrize("folders", [1, 2, 3, 5, 31, 32, 40])
def test_shares_of_partitions_add_up_to_all(folders: int) -> None:
    shares = [partition_locks.fair_share(folders, rank) for rank in range(folders)]
    assert sum(shares) == 32
    assert max(shares) - min(shares) <= 1


def test_the_least_recently_touched_jobs_are_forgotten_first() -> None:
    view = PlainView()
    view.cache = FoldCache(jobs_max=2)
    view.fold(message(0, submitted("a"), submitted("b")))
    view.fold(message(1, leased("a")))
    view.fold(message(2, submitted("c")))
    assert list(view.cache.jobs) == [job_id("a"), job_id("c")]


def test_the_bar_of_states_fills_its_width() -> None:
    chance = random.Random(1)
    for _ in range(20):
        states = {state: chance.randrange(5) for state in ("QUEUED", "RUNNING", "FAILED")}
        total = sum(states.values())
        pieces = rendering.divide_bar(states, total)
        assert sum(piece.width for piece in pieces) == pytest.approx(100 if total else 0, abs=0.01)
        assert rendering.summarize_states(states).count(",") == max(0, len(pieces) - 1)


def test_a_batch_refers_to_the_jobs_that_it_names_and_then_to_those_that_it_resubmits() -> None:
    found = find_job_ids(
        [message(0, submitted("b"), resubmitted("old", "a")), message(1, leased("b"), leased("c"))]
    )
    assert list(found) == [job_id(name) for name in ("b", "a", "c", "old")]
