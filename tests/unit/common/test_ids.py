"""Ids of jobs and runs, and the number that orders submissions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain import ids
from fairlead_common.log.protocol import partition_of
from fairlead_common.log.topics import JOB_PARTITIONS

PARTITIONS = st.integers(0, JOB_PARTITIONS - 1)
TIMES_MS = st.integers(1_767_225_600_000, 2_000_000_000_000)
BITS_80 = st.integers(0, 2**80 - 1)
NAMES = st.text(max_size=40)
INT64 = range(-(2**63), 2**63)
JOB_ID_PATTERN = f"^[{ids.ALPHABET}]{{{ids.JOB_ID_LENGTH}}}$"


@given(PARTITIONS, TIMES_MS, BITS_80)
def test_a_fresh_id_has_the_form_of_one_and_names_its_partition(
    partition: int, time_ms: int, bits: int
) -> None:
    job_id = ids.new_job_id(partition, time_ms, bits)
    assert len(job_id) == ids.JOB_ID_LENGTH
    assert re.match(JOB_ID_PATTERN, job_id)
    assert ids.partition_of_job(job_id) == partition


@given(PARTITIONS, TIMES_MS, TIMES_MS, BITS_80, BITS_80)
def test_a_later_fresh_id_of_a_partition_sorts_later(
    partition: int, a_ms: int, b_ms: int, a: int, b: int
) -> None:
    first = ids.new_job_id(partition, a_ms, a)
    second = ids.new_job_id(partition, b_ms, b)
    assert (first < second) == ((a_ms, a) < (b_ms, b))


@given(NAMES, NAMES, NAMES)
def test_a_clients_own_id_always_names_the_same_job(queue: str, job_set: str, own: str) -> None:
    partition = ids.job_set_partition(queue, job_set)
    job_id = ids.client_job_id(partition, queue, job_set, own)
    assert job_id == ids.client_job_id(partition, queue, job_set, own)
    assert re.match(JOB_ID_PATTERN, job_id)
    assert ids.partition_of_job(job_id) == partition


def test_a_clients_own_id_names_the_same_job_in_every_version() -> None:
    partition = ids.job_set_partition("default", "fits")
    assert partition == 17
    assert ids.client_job_id(partition, "default", "fits", "trial-7") == (
        "0hj14bnryjmsdkbe7r9e7yyw0ks9"
    )


def test_ids_of_a_batch_are_those_of_its_items() -> None:
    own = [f"trial-{n}" for n in range(100)]
    made = ids.client_job_ids(3, "q", "s", own)
    assert made == [ids.client_job_id(3, "q", "s", item) for item in own]
    assert len(set(made)) == len(own)


@pytest.mark.parametrize(
    "other", [("q2", "s", "a"), ("q", "s2", "a"), ("q", "s", "b"), ("q", "sa", "")]
)
def test_queue_job_set_and_own_id_all_count(other: tuple[str, str, str]) -> None:
    assert ids.client_job_id(0, "q", "s", "a") != ids.client_job_id(0, *other)


@pytest.mark.parametrize(
    "text", ["", "0", "0" * 27, "0" * 29, "0" * 27 + "l", "0" * 27 + "A", "0" * 27 + "é"]
)
def test_an_invalid_job_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="28 characters"):
        ids.partition_of_job(text)


def test_a_job_set_has_the_partition_of_its_key() -> None:
    assert ids.job_set_key("q", "s") == "q/s"
    assert ids.job_set_partition("q", "s") == partition_of("q/s", JOB_PARTITIONS)


@given(PARTITIONS, TIMES_MS, BITS_80, st.integers(1, 10_000))
def test_a_run_id_says_which_run_of_which_job(
    partition: int, time_ms: int, bits: int, run: int
) -> None:
    job_id = ids.new_job_id(partition, time_ms, bits)
    assert ids.parse_run_id(ids.run_id(job_id, run)) == (job_id, run)


@pytest.mark.parametrize("text", ["", "a", "a-", "a-b"])
def test_an_invalid_run_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="int"):
        ids.parse_run_id(text)


# Order of submission -------------------------------------------------------------------------

POSITIONS = st.integers(0, 2**50)
INDEXES = st.integers(0, 999)


@given(st.integers(0, 2_500_000_000_000), PARTITIONS, POSITIONS, INDEXES)
def test_the_number_fits_a_column_of_int64(
    time_ms: int, partition: int, position: int, index: int
) -> None:
    assert ids.submission_number(time_ms, partition, position, index) in INT64


@given(TIMES_MS, st.integers(4, 10_000), PARTITIONS, PARTITIONS, POSITIONS, POSITIONS, INDEXES)
def test_an_earlier_tick_has_the_smaller_number(
    time_ms: int, later_ms: int, p: int, q: int, a: int, b: int, index: int
) -> None:
    first = ids.submission_number(time_ms, p, a, index)
    assert first < ids.submission_number(time_ms + later_ms, q, b, 0)


@given(TIMES_MS, PARTITIONS, st.integers(0, 2**40), st.integers(0, 511), st.integers(0, 511))
def test_messages_of_one_append_time_are_numbered_in_order(
    time_ms: int, partition: int, block: int, a: int, b: int
) -> None:
    first, second = sorted((a, b))
    start = 512 * block
    one = ids.submission_number(time_ms, partition, start + first, 999)
    two = ids.submission_number(time_ms, partition, start + second, 0)
    assert one < two if first < second else one > two


@given(TIMES_MS, PARTITIONS, POSITIONS, INDEXES, INDEXES)
def test_jobs_of_a_message_are_numbered_in_their_order(
    time_ms: int, partition: int, position: int, a: int, b: int
) -> None:
    one = ids.submission_number(time_ms, partition, position, a)
    two = ids.submission_number(time_ms, partition, position, b)
    assert (one < two) == (a < b)
    assert (one == two) == (a == b)


@given(TIMES_MS, POSITIONS, INDEXES, PARTITIONS, PARTITIONS)
def test_numbers_of_two_partitions_differ(
    time_ms: int, position: int, index: int, p: int, q: int
) -> None:
    one = ids.submission_number(time_ms, p, position, index)
    two = ids.submission_number(time_ms, q, position, index)
    assert (one == two) == (p == q)


def test_the_number_has_bits_for_every_partition() -> None:
    assert JOB_PARTITIONS <= 32


@pytest.mark.parametrize("job_set", ["s", "team/nightly/7"])
def test_a_job_is_named_by_queue_job_set_and_client_id(job_set: str) -> None:
    partition = ids.job_set_partition("q", job_set)
    expected = ids.client_job_id(partition, "q", job_set, "trial-7")
    assert ids.job_ids_of(f"q/{job_set}/trial-7")[0] == expected
    assert ids.job_ids_of(expected) == [expected]


def test_a_name_with_more_slashes_can_be_that_of_several_jobs() -> None:
    def named(job_set: str, client_id: str) -> str:
        partition = ids.job_set_partition("q", job_set)
        return ids.client_job_id(partition, "q", job_set, client_id)

    assert ids.job_ids_of("q/s/fit/worker-0") == [
        named("s/fit", "worker-0"),
        named("s", "fit/worker-0"),
    ]
    assert ids.job_ids_of("q/s//c") == [named("s/", "c"), named("s", "/c")]


def test_an_array_is_named_by_its_client_id_or_by_a_task() -> None:
    partition = ids.job_set_partition("q", "s")
    expected = ids.client_array_id(partition, "q", "s", "scan")
    assert ids.array_ids_of("q/s/scan") == [expected]
    assert ids.array_ids_of(ids.task_id(expected, 7)) == [expected]


@pytest.mark.parametrize("text", ["", "trial-7", "s/trial-7", "//", "q//c", "/s/c", "q/s/"])
def test_an_invalid_job_reference_is_refused(text: str) -> None:
    for parse in (ids.job_ids_of, ids.array_ids_of):
        with pytest.raises(ValueError, match="neither a job id"):
            parse(text)


@given(PARTITIONS, st.lists(NAMES, min_size=1, max_size=20))
def test_many_ids_that_are_made_by_columns_are_those_of_each_client_id(
    partition: int, client_ids: list[str]
) -> None:
    many = [f"{text}{index % 90}" for index in range(ids.COLUMNS_MIN) for text in client_ids]
    made = ids.client_job_ids(partition, "queue", "set", many)
    assert made == [ids.client_job_id(partition, "queue", "set", text) for text in many]
