"""Events as messages: cut at the bounds of a message, in order, each to its partition."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain import ids
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import decoders, events, leases
from fairlead_common.domain.records.leases import GroupMembers, LiveMember
from fairlead_common.log.protocol import RECORD_BYTES_MAX, Entry, Record

KIB = 1024


def cancelled(name: str, reason_bytes: int = 0) -> events.AnyEvent:
    """A small event, or one of about the size asked for."""
    return events.JobCancelled(job_id=ids.JobId(name), reason="x" * reason_bytes)


def names(record: Record) -> list[str]:
    """The job ids that a message mentions, in order."""
    assert record.value is not None
    sequence = events.decode(record.value)
    return [event.job_id for event in sequence.events if isinstance(event, events.JobEvent)]


def test_no_events_make_no_message() -> None:
    assert events.records("q", "s", "ada", []) == []


def test_a_message_has_its_job_set_and_caller() -> None:
    (record,) = events.records("q", "s", "ada", [cancelled("a")], request="r1", traceparent="t1")
    assert (record.topic, record.key) == ("fairlead.jobs", "q/s")
    assert record.partition == ids.job_set_partition("q", "s")
    assert record.value is not None
    sequence = events.decode(record.value)
    assert (sequence.queue, sequence.job_set, sequence.by) == ("q", "s", "ada")
    assert (sequence.request, sequence.traceparent) == ("r1", "t1")


def test_an_event_without_a_job_set_goes_to_the_given_partition() -> None:
    (record,) = events.records("", "", "ada", [cancelled("a")], partition=7)
    assert (record.key, record.partition) == ("/", 7)


@pytest.mark.parametrize(
    ("count", "messages"), [(1, 1), (999, 1), (1_000, 1), (1_001, 2), (2_500, 3)]
)
def test_a_message_holds_at_most_a_thousand_events(count: int, messages: int) -> None:
    made = events.records("q", "s", "ada", [cancelled(str(n)) for n in range(count)])
    assert len(made) == messages
    assert [name for record in made for name in names(record)] == [str(n) for n in range(count)]


def test_large_events_are_spread_over_messages_of_at_most_a_mebibyte() -> None:
    made = events.records("q", "s", "ada", [cancelled(str(n), 300 * KIB) for n in range(7)])
    assert len(made) > 1
    assert all(len(record.value or b"") <= RECORD_BYTES_MAX for record in made)
    assert [name for record in made for name in names(record)] == list("0123456")


def test_a_too_large_event_is_not_split() -> None:
    (record,) = events.records("q", "s", "ada", [cancelled("a", RECORD_BYTES_MAX)])
    assert len(record.value or b"") > RECORD_BYTES_MAX


@given(st.lists(st.sampled_from([0, 10, 200 * KIB, 700 * KIB]), max_size=12))
def test_messages_preserve_order_and_bounds_for_all_sizes(sizes: list[int]) -> None:
    made = events.records("q", "s", "ada", [cancelled(str(n), s) for n, s in enumerate(sizes)])
    names_of_records = [names(record) for record in made]
    assert [name for part in names_of_records for name in part] == [
        str(n) for n in range(len(sizes))
    ]
    assert all(part for part in names_of_records)
    assert all(len(record.value or b"") <= RECORD_BYTES_MAX for record in made)


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"nonsense", b'{"queue": 1}'])
def test_an_invalid_message_is_refused(value: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        events.decode(value)


GROUP = ids.GroupId("0" * 28)
MEMBERS = GroupMembers(
    group=GROUP, name="fit", members=(LiveMember("ps", 0, JobState.RUNNING, "n0", "10.0.0.1"),)
)


def member_entry(key: str, value: bytes | None) -> Entry:
    return Entry(0, 0, key, value, 0)


def test_a_lease_topic_also_holds_the_members_of_groups() -> None:
    record = leases.group_record("e", GROUP, MEMBERS)
    assert decoders.decode_lease(member_entry(record.key, record.value)) == MEMBERS
    ended = leases.group_record("e", GROUP, None)
    assert decoders.decode_lease(member_entry(ended.key, ended.value)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("group/x", b"{}"),
        (f"group/{GROUP}", b"{}"),
        (f"group/{'1' * 28}", msgspec.json.encode(MEMBERS)),
        (f"group/{GROUP}", b'{"group":"x","name":"n","members":[["ps",0,"SLEEPING","n0"]]}'),
    ],
)
def test_members_that_cannot_be_decoded_are_reported(key: str, value: bytes) -> None:
    with pytest.raises(decoders.Undecodable):
        decoders.decode_lease(member_entry(key, value))


def lease_value(spec: str) -> bytes:
    place = '"run":2,"queue":"q","jobSet":"s","node":"n0"'
    return f'{{"jobId":"{GROUP}",{place},"spec": {spec}}}'.encode()


def test_a_lease_has_the_key_of_its_run_and_an_object_as_pod_spec() -> None:
    lease = decoders.decode_lease(member_entry(f"{GROUP}-2", lease_value('{"containers":[]}')))
    assert isinstance(lease, leases.Lease)
    assert bytes(lease.spec) == b'{"containers":[]}'
    assert decoders.decode_lease(member_entry(f"{GROUP}-2", None)) is None


@pytest.mark.parametrize(
    ("key", "spec", "reason"),
    [
        (f"{GROUP}-3", "{}", f"the lease is of run {GROUP}-2, its key is not"),
        (f"{GROUP}-2", "[]", "the pod spec of the lease is not a JSON object"),
        (f"{GROUP}-2", '"{}"', "the pod spec of the lease is not a JSON object"),
        (f"{GROUP}-0", "{}", f"'{GROUP}-0' is not a run id"),
        ("", "{}", "the record has no key"),
        (f"{GROUP}-2\0", "{}", "the key holds a NUL character"),
    ],
)
def test_a_lease_that_cannot_be_decoded_is_reported(key: str, spec: str, reason: str) -> None:
    with pytest.raises(decoders.Undecodable, match=reason):
        decoders.decode_lease(member_entry(key, lease_value(spec)))


ENDED = (f"{GROUP}-3", None)
GOOD = (f"{GROUP}-2", lease_value('{"containers":[]}'))
UNUSUAL = [
    (f"{GROUP}-2", lease_value('{"a":"ü"}')),
    (f"{GROUP}-2", lease_value("{}")[:-1] + b',"after":["' + GROUP.encode() + b'-1"]}'),
    (leases.group_record("e", GROUP, MEMBERS).key, msgspec.json.encode(MEMBERS)),
    (f"group/{GROUP}", None),
    ("z" * 28 + "-1", None),
]
WRONG = [
    ("", None),
    (f"{GROUP}-0", None),
    (f"{GROUP}0-1", None),
    (GROUP, None),
    ("\udcff" * 28 + "-1", None),
    (f"{GROUP}-3", lease_value("{}")),
    (f"{GROUP}-2", lease_value("[]")),
    (f"{GROUP}-2", lease_value("{}")[:-1]),
    (f"{GROUP}-2", lease_value('{"a":"\\u0000"}')),
    (f"{GROUP}-2", lease_value("{}")[:-1] + b',"after":["x"]}'),
    (f"{GROUP}-2", b""),
    (f"{GROUP}-2", b"\xff"),
]


@given(st.lists(st.sampled_from([ENDED, GOOD, GOOD, *UNUSUAL]), max_size=6))
def test_leases_decoded_together_are_those_decoded_one_by_one(
    records: list[tuple[str, bytes | None]],
) -> None:
    entries = [Entry(0, at, key, value, 0) for at, (key, value) in enumerate(records)]
    assert decoders.decode_leases(entries) == list(map(decoders.decode_lease, entries))


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("beside", [[], [ENDED, GOOD], UNUSUAL])
def test_leases_are_refused_together_with_one_that_cannot_be_decoded(
    wrong: tuple[str, bytes | None], beside: list[tuple[str, bytes | None]]
) -> None:
    entries = [member_entry(key, value) for key, value in [*beside, wrong]]
    with pytest.raises(decoders.Undecodable):
        decoders.decode_leases(entries)
