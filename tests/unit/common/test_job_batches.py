"""Records of `fairlead.jobs` that are decoded and checked together."""

from collections.abc import Sequence

import pytest

from fairlead_common.domain.ids import ArrayId, GroupId, JobId, new_job_id
from fairlead_common.domain.records import decoders
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.decoders import EVENTS_PER_CHECK, Undecodable
from fairlead_common.log import Entry


def entries(ids: Sequence[JobId]) -> list[Entry]:
    """A record for each job whose run succeeded, and a group's and an array's every hundred."""
    made = list[Entry]()
    for number, job_id in enumerate(ids):
        found: list[ev.AnyEvent] = [ev.JobRunSucceeded(job_id=job_id, run=1)]
        if number % 100 == 0:
            found += [
                ev.GroupSucceeded(group=GroupId(job_id)),
                ev.ArrayEnded(array=ArrayId(job_id)),
            ]
        (record,) = ev.records("q", "s", "test", found)
        made.append(Entry(0, number, record.key, record.value, 0))
    return made


def job_ids(count: int) -> list[JobId]:
    return [new_job_id(0, 1_700_000_000_000, number) for number in range(count)]


def test_records_of_several_checks_are_decoded_in_order() -> None:
    batch = entries(job_ids(2 * EVENTS_PER_CHECK))
    assert list(decoders.decode_job_batch(batch)) == list(map(decoders.decode_jobs, batch))


@pytest.mark.parametrize("place", [0, 1, EVENTS_PER_CHECK + 1])
def test_an_invalid_id_anywhere_makes_the_batch_undecodable(place: int) -> None:
    ids = job_ids(EVENTS_PER_CHECK + 2)
    ids[place] = JobId("not-a-job-id")
    with pytest.raises(Undecodable, match="not-a-job-id"):
        list(decoders.decode_job_batch(entries(ids)))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("", b"{}", "no key"),
        ("a\0b", b"{}", "NUL character"),
        ("q/s", None, "no value"),
        ("q/s", b'{"by":"\xff"}', "not UTF-8"),
        ("q/s", b'{"by":"a\\u0000b"}', "NUL character"),
    ],
)
def test_one_unusual_record_is_checked_as_if_it_were_alone(
    key: str, value: bytes | None, reason: str
) -> None:
    batch = entries(job_ids(3))
    batch[1] = Entry(0, 1, key, value, 0)
    with pytest.raises(Undecodable, match=reason):
        list(decoders.decode_job_batch(batch))


def test_text_beyond_ascii_is_accepted_in_a_batch() -> None:
    (record,) = ev.records("größe", "s", "test", [ev.JobRunSucceeded(job_id=job_ids(1)[0], run=1)])
    batch = [*entries(job_ids(2)), Entry(0, 2, record.key, record.value, 0)]
    assert list(decoders.decode_job_batch(batch))[2].queue == "größe"
