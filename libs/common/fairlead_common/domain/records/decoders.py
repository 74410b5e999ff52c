"""Decodes and checks the records of each topic. Pure.

Everything that a reader does with a record relies on what is checked here: its key, its value and
the ranges of its numbers. A record that fails is `Undecodable`, and nothing else is ever raised.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar, cast, get_args

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.ids import (
    ALPHABET,
    JOB_ID_LENGTH,
    GroupId,
    JobId,
    RunId,
    is_job_id,
    run_id,
)
from fairlead_common.domain.records import (
    clusters,
    configuration,
    events,
    index_sets,
    leases,
    scheduling_reports,
)
from fairlead_common.domain.records.clusters import (
    LEADER_KEY,
    ClusterRecord,
    Heartbeat,
    LeaderHeartbeat,
    Node,
)
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.domain.records.events import EventSequence
from fairlead_common.domain.records.leases import GroupMembers, Lease
from fairlead_common.domain.records.scheduling_reports import Report
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log.append_limits import TOPIC_NAME
from fairlead_common.log.protocol import Entry
from fairlead_common.log.topics import CLUSTERS, CONFIG, JOBS, LEASES_PREFIX, REPORTS
from fairlead_common.log.topics import leases as leases_topic

OPTIONAL_PREFIX: Final = "optional."
"""A reader that does not know an event type whose tag begins so leaves the event out.

Any other unknown type may change what later events mean: the reader stops before the record.
"""

EVENTS_PER_CHECK: Final = 1_000
"""How many events `decode_job_batch` checks together at least, and so keeps in memory."""
REASON_LENGTH_MAX: Final = 300
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""An escaped NUL in JSON: Postgres stores no text with one."""
_RUN: Final = re.compile(rf"[0-9a-z]{{{JOB_ID_LENGTH}}}-[1-9][0-9]{{0,8}}")
_RUN_SUFFIX: Final = re.compile("-[1-9][0-9]{0,8}")
_ALPHABET: Final = ALPHABET.encode()
_OF_JOBS: Final = frozenset(
    each for each in get_args(events.AnyEvent) if issubclass(each, events.JobEvent)
)
_ArrayEvent = (
    events.ArraySubmitted
    | events.ArrayCancelRequested
    | events.ArrayTasksCancelled
    | events.ArrayEnded
)
_TAGS: Final = frozenset(str(each.__struct_config__.tag) for each in get_args(events.AnyEvent))

T = TypeVar("T")


class Undecodable(WorldError):
    """The record cannot be decoded; the message says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason[:REASON_LENGTH_MAX])


class UnknownEventType(Undecodable):
    """The record contains events of unknown types that must not be skipped."""

    def __init__(self, types: Sequence[str]) -> None:
        listed = [each[:60] for each in types[:5]]
        self.types = tuple(listed)
        super().__init__(f"event type {', '.join(listed)} is unknown to this version")


class UnknownOptionalType(Undecodable):
    """The record contains events of an unknown optional type; `value` is the record without them,
    None if nothing remains.
    """

    def __init__(self, types: Sequence[str], value: bytes | None) -> None:
        super().__init__(f"optional type {types[0][:60]} is unknown to this version")
        self.value = value


def decode_jobs(entry: Entry) -> EventSequence:
    """The events of a record of `fairlead.jobs`. Raises `Undecodable`."""
    sequence = _decode_sequence(_value(entry))
    _check_events(sequence.events)
    return sequence


def decode_job_batch(entries: Sequence[Entry]) -> Iterator[EventSequence]:
    """`decode_jobs` of each entry; the events of several are checked together, in half the time.

    Raises `Undecodable` if any entry is; it does not say which.
    """
    sequences = list[EventSequence]()
    found = list[events.AnyEvent]()
    for value in _values(entries):
        sequence = _decode_sequence(value)
        sequences.append(sequence)
        found += sequence.events
        if len(found) >= EVENTS_PER_CHECK:
            _check_events(found)
            yield from sequences
            sequences, found = [], []
    _check_events(found)
    yield from sequences


def _decode_sequence(value: bytes) -> EventSequence:
    try:
        return events.decode(value)
    except (ValueError, RecursionError) as error:
        raise _explained(value, error) from None


def decode_lease(entry: Entry) -> Lease | GroupMembers | None:
    """The lease, or the members of a group, of a record of `fairlead.leases.*`; None if it ended.

    Raises `Undecodable`.
    """
    run = RunId(entry.key)
    if not _RUN.fullmatch(run):
        group = leases.group_of(_checked_key(entry))
        if group is not None:
            return _decode_members(entry, group)
        _check_run_id(run)
    if entry.value is None:
        return None
    lease = _decoded(entry, leases.decode)
    if (named := run_id(lease.job_id, lease.run)) != run:
        raise Undecodable(f"the lease is of run {named}, its key is not")
    for other in lease.after:
        _check_run_id(other)
    if lease.spec and bytes(memoryview(lease.spec)[:1]) != b"{":
        raise Undecodable("the pod spec of the lease is not a JSON object")
    return lease


def decode_leases(entries: Sequence[Entry]) -> list[Lease | GroupMembers | None]:
    """`decode_lease` of each entry; usual records are checked together, in half the time.

    Raises `Undecodable` if any entry is; it does not say which.
    """
    ids = [JobId(entry.key[:JOB_ID_LENGTH]) for entry in entries]
    suffixes = {entry.key[JOB_ID_LENGTH:] for entry in entries}
    if _are_job_ids(ids) and all(map(_RUN_SUFFIX.fullmatch, suffixes)):
        with_value = [entry for entry in entries if entry.value is not None]
        try:
            found = list(map(leases.decode, _values(with_value)))
        except (ValueError, RecursionError):
            return list(map(decode_lease, entries))
        if (
            [run_id(lease.job_id, lease.run) for lease in found]
            == [entry.key for entry in with_value]
            and not [lease for lease in found if lease.after]
            and _find_first_bytes([lease.spec for lease in found]) <= {b"{", b""}
        ):
            decoded = iter(found)
            return [None if entry.value is None else next(decoded) for entry in entries]
    return list(map(decode_lease, entries))


def _decode_members(entry: Entry, group: GroupId) -> GroupMembers | None:
    if not is_job_id(group):
        raise Undecodable(f"{group[:60]!r} is not the id of a group")
    if entry.value is None:
        return None
    members = _decoded(entry, leases.decode_group)
    _check_key(entry, f"{leases.GROUP_PREFIX}{members.group}")
    return members


def decode_cluster(entry: Entry) -> ClusterRecord | None:
    """A record of `fairlead.clusters`, None if it was deleted. Raises `Undecodable`."""
    executor, _, node = _checked_key(entry).partition("/")
    if not TOPIC_NAME.fullmatch(leases_topic(executor).name):
        raise Undecodable(f"{executor[:60]!r} cannot name an executor")
    if entry.value is None:
        return None
    match _decoded(entry, clusters.decode):
        case Heartbeat() as heartbeat:
            _check_key(entry, heartbeat.executor)
            return heartbeat
        case Node() as found:
            _check_key(entry, f"{found.executor}/{found.name}")
            if not node:
                raise Undecodable("the node has no name")
            return found
        case LeaderHeartbeat() as leader:
            _check_key(entry, LEADER_KEY)
            return leader


def decode_configuration(entry: Entry) -> Queue | Cordon | None:
    """A record of `fairlead.config`, None if it was deleted. Raises `Undecodable`."""
    _checked_key(entry)
    if entry.value is None:
        return None
    item = _decoded(entry, configuration.decode)
    _check_key(entry, configuration.key(item))
    return item


def decode_report(entry: Entry) -> Report | None:
    """A record of `fairlead.reports`, None if it was deleted. Raises `Undecodable`."""
    _checked_key(entry)
    if entry.value is None:
        return None
    report = _decoded(entry, scheduling_reports.decode)
    _check_key(entry, scheduling_reports.key(report))
    return report


def find_decoder(topic: str) -> Callable[[Entry], object] | None:
    """The decoder of a topic's records; None for an unknown topic."""
    if topic.startswith(LEASES_PREFIX):
        return decode_lease
    return _DECODERS.get(topic)


def find_batch_decoder(topic: str) -> Callable[[Sequence[Entry]], Sequence[object]] | None:
    """A decoder of many records of a topic at once, if the topic has one."""
    return decode_leases if topic.startswith(LEASES_PREFIX) else None


_DECODERS: Final[dict[str, Callable[[Entry], object]]] = {
    JOBS: decode_jobs,
    CLUSTERS: decode_cluster,
    CONFIG: decode_configuration,
    REPORTS: decode_report,
}


def _checked_key(entry: Entry) -> str:
    key = entry.key
    if not key:
        raise Undecodable("the record has no key")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            raise Undecodable("the key is not UTF-8 text") from None
    if "\0" in key:
        raise Undecodable("the key holds a NUL character")
    return key


def _value(entry: Entry) -> bytes:
    """The value of a record, which must have one, after the checks that apply to every value."""
    _checked_key(entry)
    value = entry.value
    if value is None:
        raise Undecodable("the record has no value")
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError as error:
            raise Undecodable(f"the value is not UTF-8 text: {error.reason}") from None
    if b"\\" in value and b"\\u0000" in value and _NUL.search(value):
        raise Undecodable("the value holds a NUL character")
    return value


def _values(entries: Sequence[Entry]) -> list[bytes]:
    """`_value` of each entry; usual records are checked together, in half the time."""
    keys, values = [entry.key for entry in entries], [entry.value or b"" for entry in entries]
    joined = "".join(keys)
    if (
        all(keys)
        and all(values)
        and joined.isascii()
        and "\0" not in joined
        and all(map(bytes.isascii, values))
        and not any(b"\\" in value and b"\\u0000" in value for value in values)
    ):
        return values
    return list(map(_value, entries))


def _decoded(entry: Entry, decode: Callable[[bytes], T]) -> T:
    value = _value(entry)
    try:
        return decode(value)
    except (ValueError, RecursionError) as error:
        kind = _type_of(value)
        if kind.startswith(OPTIONAL_PREFIX):
            raise UnknownOptionalType([kind], None) from None
        raise Undecodable(str(error)) from None


def _type_of(value: bytes | msgspec.Raw) -> str:
    """The tag of a record or event; empty if it has none."""
    try:
        return _tagged.decode(value).type
    except (ValueError, RecursionError):
        return ""


def _check_key(entry: Entry, expected: str) -> None:
    if entry.key != expected:
        raise Undecodable(f"the value belongs to the key {expected[:100]!r}")


def _check_run_id(run: RunId) -> None:
    if not _RUN.fullmatch(run):
        raise Undecodable(f"{run[:60]!r} is not a run id")


def _check_events(found: Sequence[events.AnyEvent]) -> None:
    kinds = set(map(type, found))
    of_jobs, others = found, list[events.AnyEvent]()
    if not kinds <= _OF_JOBS:
        of_jobs = [event for event in found if type(event) in _OF_JOBS]
        others = [event for event in found if type(event) not in _OF_JOBS]
    ids = [event.job_id for event in cast("Sequence[events.JobEvent]", of_jobs)]
    ids += [JobId(event.group) for event in others if isinstance(event, events.GroupEvent)]
    arrays = [event for event in others if isinstance(event, _ArrayEvent)]
    ids += [JobId(event.array) for event in arrays]
    _check_arrays(arrays)
    if not _are_job_ids(ids):
        wrong = next(each for each in ids if not is_job_id(each))
        raise Undecodable(f"{wrong[:60]!r} is not a job id")
    if events.JobSubmitted in kinds:
        submitted = of_jobs
        if len(kinds) > 1:
            submitted = [event for event in of_jobs if type(event) is events.JobSubmitted]
        _check_submitted(cast("Sequence[events.JobSubmitted]", submitted))
    if events.JobRequeued in kinds:
        requeued = [event for event in of_jobs if isinstance(event, events.JobRequeued)]
        _check_shapes([event.shape for event in requeued if event.shape])


def _check_arrays(found: Sequence[_ArrayEvent]) -> None:
    for event in found:
        try:
            if isinstance(event, events.ArraySubmitted):
                _check_submitted([event.template])
                if event.count not in range(1, index_sets.INDEX_MAX + 2):
                    raise ValueError(f"are below {event.count}")
                index_sets.parse(event.indexes)
                if event.after is not None and not _are_job_ids([JobId(event.after)]):
                    raise ValueError("follow tasks of something that is not an array")
            elif not isinstance(event, events.ArrayEnded) and event.indexes:
                index_sets.parse(event.indexes)
        except ValueError as error:
            raise Undecodable(f"the indexes of array {event.array}: {error}") from None


def _are_job_ids(ids: list[JobId]) -> bool:
    """As `is_job_id` of each, for all at once: a fifth of the time."""
    text = "".join(ids)
    if not text.isascii():
        return False
    joined = text.encode()
    return (
        set(map(len, ids)) <= {JOB_ID_LENGTH}
        and not joined.translate(None, _ALPHABET)
        and not joined[::JOB_ID_LENGTH].strip(b"0")
    )


def _check_submitted(found: Sequence[events.JobSubmitted]) -> None:
    _check_shapes([event.shape for event in found])
    for event in [event for event in found if event.after or event.array is not None]:
        if event.after and not _are_job_ids(list(event.after)):
            raise Undecodable("the job depends on something that is not a job id")
        if event.array is not None and not _are_job_ids([JobId(event.array.array)]):
            raise Undecodable("the job is a task of something that is not an array")
    if _find_first_bytes([event.spec for event in found]) - {b"{"}:
        raise Undecodable("the pod spec is not a JSON object")


def _find_first_bytes(found: Sequence[msgspec.Raw]) -> set[bytes]:
    return {bytes(raw)[:1] for raw in found}


def _check_shapes(found: Sequence[msgspec.Raw]) -> None:
    """Most jobs have a shape that others had before: those are not decoded again."""
    if not found:
        return
    for raw in set(b"\0".join(found).split(b"\0")) - _shapes:  # JSON contains no such byte
        _check_shape(raw)


def _check_shape(raw: bytes) -> None:
    try:
        shapes.decode(raw)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"the shape cannot be decoded: {error}") from None
    if len(_shapes) >= SHAPES_MAX:
        _shapes.clear()
    _shapes.add(raw)


SHAPES_MAX: Final = 10_000
_shapes: Final[set[bytes]] = set()
"""Shapes that were decoded before; emptied when there are `SHAPES_MAX`."""


class _Envelope(msgspec.Struct, rename="camel"):
    """An `EventSequence` whose events are not decoded yet."""

    queue: str
    job_set: str
    by: str
    events: list[msgspec.Raw]
    request: str = ""
    traceparent: str = ""


class _Tagged(msgspec.Struct):
    type: str = ""


_envelopes: Final = msgspec.json.Decoder(_Envelope)
_tagged: Final = msgspec.json.Decoder(_Tagged)
_events: Final[msgspec.json.Decoder[events.AnyEvent]] = msgspec.json.Decoder(events.AnyEvent)


def _explained(value: bytes, error: Exception) -> Undecodable:
    """What is wrong with a record of `fairlead.jobs` that could not be decoded as a whole."""
    try:
        envelope = _envelopes.decode(value)
        types = [_tagged.decode(raw).type for raw in envelope.events]
    except (ValueError, RecursionError):
        return Undecodable(str(error))
    unknown = [each for each in dict.fromkeys(types) if each not in _TAGS]
    required = [each for each in unknown if not each.startswith(OPTIONAL_PREFIX)]
    if required:
        return UnknownEventType(required)
    known = [raw for raw, each in zip(envelope.events, types, strict=True) if each in _TAGS]
    for raw in known:
        try:
            _events.decode(raw)
        except (ValueError, RecursionError) as cause:
            return Undecodable(str(cause))
    if not unknown:
        return Undecodable(str(error))
    envelope.events = known
    return UnknownOptionalType(unknown, msgspec.json.encode(envelope))
