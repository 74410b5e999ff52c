"""From a job with `array` to an event, or to its errors."""

import pytest

from fairlead_common.domain import ids
from fairlead_common.domain.records import events, index_sets
from fairlead_submit.domain.arrays import array_terms
from tests.unit.submit.test_submission import RUN, prepared


def made(array: object, **fields: object) -> events.ArraySubmitted:
    result, found = prepared([{**RUN, **fields, "array": array}])
    assert found == []
    (event,) = result.make_events(result.jobs)
    assert isinstance(event, events.ArraySubmitted)
    return event


def errors(array: object, **fields: object) -> list[tuple[str, str]]:
    _, found = prepared([{**RUN, **fields, "array": array}])
    return [(error.pointer, error.detail) for error in found]


def test_an_array_is_one_event_with_the_job_as_template() -> None:
    event = made({"count": 1_000_000, "maxRunning": 5000, "indexes": "0-999999:10"}, priority=3)
    assert (event.count, event.indexes, event.running_max) == (1_000_000, "0-999990:10", 5000)
    assert ids.array_id(event.template.job_id) == event.array
    assert str(event.template.job_id) == event.array
    assert event.template.priority == 3


def test_without_indexes_an_array_has_all_of_them() -> None:
    assert made({"count": 3}).indexes == "0-2"


def test_tasks_count_as_jobs() -> None:
    result, _ = prepared([{**RUN, "array": {"count": 30, "indexes": "0-29:3"}}, RUN])
    assert [result.count_tasks(job.job_id) for job in result.jobs] == [10, 1]


def test_the_id_of_an_array_with_a_client_id_is_always_the_same() -> None:
    one, other = (made({"count": 3}, clientId="a") for _ in range(2))
    assert (one.array, one.template.digest) == (other.array, other.template.digest)
    longer = made({"count": 4}, clientId="a")
    assert longer.array == one.array
    assert longer.template.digest != one.template.digest


def test_new_ids_of_a_request_differ_by_more_than_the_tasks_of_an_array() -> None:
    jobs: list[object] = [RUN, {**RUN, "array": {"count": 3}}, {**RUN, "array": {"count": 5}}, RUN]
    result, found = prepared(jobs)
    assert found == []
    assert len({ids.array_id(job.job_id) for job in result.jobs[:3]}) == 3
    assert [len(terms.indexes) for terms in result.arrays.values()] == [3, 5]


def test_the_job_with_the_client_id_of_an_array_is_not_a_task_of_it() -> None:
    (job,) = prepared([{**RUN, "clientId": "a"}])[0].jobs
    assert ids.array_id(job.job_id) != made({"count": 3}, clientId="a").array


def test_jobs_and_arrays_wait_for_arrays_of_the_request_or_of_the_job_set() -> None:
    array = {"count": 3}
    jobs: list[object] = [
        {**RUN, "clientId": "a", "array": array},
        {**RUN, "clientId": "j"},
        {**RUN, "after": ["j", {"array": "a"}, {"array": "other"}, {"array": "a"}]},
        {**RUN, "after": [{"array": "a"}, "j"], "array": array},
    ]
    result, found = prepared(jobs)
    assert found == []
    first, job, merge, waiting = result.make_events(result.jobs)
    assert isinstance(first, events.ArraySubmitted)
    assert isinstance(job, events.JobSubmitted)
    assert isinstance(merge, events.JobSubmitted)
    assert isinstance(waiting, events.ArraySubmitted)
    *others, outside = map(str, merge.after)
    assert others == [job.job_id, first.array]
    assert list(map(str, result.arrays_outside)) == [outside]
    assert list(result.arrays_outside.values()) == ["/jobs/2/after/2/array"]
    assert result.outside == {}
    assert list(map(str, waiting.template.after)) == [first.array, job.job_id]


@pytest.mark.parametrize(
    ("after", "pointer", "detail"),
    [
        ("a", "", 'is job 0, which is an array; to wait for all its tasks, write {"array":"a"}'),
        ({"array": "c"}, "/array", "is this one or a later one of the request"),
        ({"array": "j"}, "/array", "is job 1, which is not an array"),
        ({}, "/array", "is missing"),
        ({"array": "\n"}, "/array", "not printable"),
    ],
)
def test_what_a_job_cannot_wait_for_is_refused(after: object, pointer: str, detail: str) -> None:
    jobs: list[object] = [
        {**RUN, "clientId": "a", "array": {"count": 3}},
        {**RUN, "clientId": "j"},
        {**RUN, "clientId": "c", "after": [after]},
    ]
    _, (error,) = prepared(jobs)
    assert error.pointer == f"/jobs/2/after/0{pointer}"
    assert detail in error.detail


@pytest.mark.parametrize(
    ("array", "pointer", "detail"),
    [
        ({"count": 0}, "count", "is 0; an array has at least 1 and at most 10000000 tasks"),
        ({"count": 10**9}, "count", "is 1000000000; an array has at least 1"),
        ({}, "count", "is missing"),
        ({"count": 3, "maxRunning": 0}, "maxRunning", "is 0; at least 1 is expected"),
        ({"count": 3, "maxRunning": 2**31}, "maxRunning", "at most 10000000, the most tasks"),
        ({"count": 3, "indexes": "x"}, "indexes", "'x' is not a number"),
        ({"count": 3, "indexes": "0-3"}, "indexes", "has 3, but the indexes of this array are 0"),
    ],
)
def test_what_is_no_array_is_refused(array: object, pointer: str, detail: str) -> None:
    ((place, text),) = errors(array)
    assert place == f"/jobs/0/array/{pointer}"
    assert detail in text


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"gang": {"name": "g", "size": 2}}, "/jobs/0/gang"),
        ({"hold": True}, "/jobs/0/hold"),
        ({"maxQueueSeconds": 5}, "/jobs/0/maxQueueSeconds"),
    ],
)
def test_fields_of_single_jobs_are_refused(fields: dict[str, object], pointer: str) -> None:
    ((place, text),) = errors({"count": 3}, **fields)
    assert place == pointer
    assert "is not allowed with `array`" in text


def test_an_array_waits_for_few_jobs() -> None:
    many = [f"j{number}" for number in range(101)]
    assert made({"count": 3}, after=many[:100]).template.after
    ((place, text),) = errors({"count": 3}, after=many)
    assert (place, "at most 100 are allowed with `array`" in text) == ("/jobs/0/after", True)


def test_what_a_request_names_can_be_written_in_one_event() -> None:
    """Both sets have 10,000 ranges, and what they have in common has more."""
    every = index_sets.parse(",".join(f"{40 * n}-{40 * n + 29}" for n in range(10_000)))
    named = index_sets.parse(",".join(f"{40 * n + 20}-{40 * n + 49}" for n in range(10_000)))
    assert len(every.common(named).ranges) > index_sets.RANGES_MAX
    with pytest.raises(ValueError, match="names 19999 ranges of the tasks"):
        array_terms.choose_indexes(every, named, 0)


def test_requests_divide_an_array_into_a_bounded_number_of_ranges() -> None:
    every, few = index_sets.make_full(1_000_000), index_sets.parse("3,17")
    most = array_terms.DIVIDED_MAX - 3
    assert array_terms.choose_indexes(every, few, most) == few
    with pytest.raises(ValueError, match="into 100001 ranges; at most 100000 are allowed"):
        array_terms.choose_indexes(every, few, most + 1)


def test_an_array_follows_an_earlier_array_of_the_request_or_of_the_job_set() -> None:
    array = {"count": 3}
    jobs: list[object] = [
        {**RUN, "clientId": "a", "array": array},
        {**RUN, "clientId": "b", "array": {**array, "afterCorresponding": "a"}},
        {**RUN, "clientId": "c", "array": {**array, "afterCorresponding": "other"}},
    ]
    result, found = prepared(jobs)
    assert found == []
    first, second, third = result.make_events(result.jobs)
    assert isinstance(first, events.ArraySubmitted)
    assert isinstance(second, events.ArraySubmitted)
    assert isinstance(third, events.ArraySubmitted)
    assert (first.after, second.after) == (None, first.array)
    assert result.arrays_outside == {third.after: "/jobs/2/array/afterCorresponding"}


@pytest.mark.parametrize(
    ("after", "detail"), [("b", "is this one or a later one"), ("c", "which is not an array")]
)
def test_what_an_array_cannot_follow_is_refused(after: str, detail: str) -> None:
    array = {"count": 3, "afterCorresponding": after}
    jobs = [{**RUN, "clientId": "c"}, {**RUN, "clientId": "b", "array": array}]
    _, (error,) = prepared(jobs)
    assert error.pointer == "/jobs/1/array/afterCorresponding"
    assert detail in error.detail


def test_defaults_cannot_make_arrays() -> None:
    _, found = prepared([RUN], defaults={"array": {"count": 2}})
    assert [error.pointer for error in found] == ["/defaults/array"]
