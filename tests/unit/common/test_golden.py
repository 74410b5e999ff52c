"""What the log holds stays readable: a golden line per record type, and newer fields tolerated."""

from collections.abc import Callable
from typing import get_args

import msgspec
import pytest

from fairlead_common.domain.records import (
    clusters,
    configuration,
    events,
    leases,
    scheduling_reports,
)
from fairlead_common.domain.scheduling import shapes
from tests.unit.common import goldens

FILES: dict[str, tuple[tuple[type[msgspec.Struct], ...], Callable[[bytes], object]]] = {
    "events.jsonl": (
        get_args(events.AnyEvent),
        lambda line: msgspec.json.decode(line, type=events.AnyEvent),
    ),
    "sequences.jsonl": ((events.EventSequence,), events.decode),
    "leases.jsonl": ((leases.Lease,), leases.decode),
    "group_members.jsonl": ((leases.GroupMembers,), leases.decode_group),
    "clusters.jsonl": (get_args(clusters.ClusterRecord), clusters.decode),
    "config.jsonl": ((configuration.Queue, configuration.Cordon), configuration.decode),
    "reports.jsonl": (
        (
            scheduling_reports.WaitingReport,
            scheduling_reports.QueueShare,
            scheduling_reports.RoundReport,
            scheduling_reports.GroupNearness,
        ),
        scheduling_reports.decode,
    ),
    "shapes.jsonl": ((shapes.Shape,), shapes.decode),
}
LINES = [
    pytest.param(name, line, id=f"{name}-{at}-{goldens.tag(line)}")
    for name in FILES
    for at, line in enumerate(goldens.lines(name))
]
KINDS = [
    pytest.param(name, kind, id=f"{name}-{kind.__name__}")
    for name, (kinds, _) in FILES.items()
    for kind in kinds
]


@pytest.mark.parametrize(("name", "line"), LINES)
def test_a_golden_line_is_read_and_written_again_byte_for_byte(name: str, line: bytes) -> None:
    _, decode = FILES[name]
    assert msgspec.json.encode(decode(line)) == line


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_every_field_of_every_record_type_is_in_a_golden_line(
    name: str, kind: type[msgspec.Struct]
) -> None:
    of_kind = [line for line in goldens.lines(name) if goldens.tag(line) == goldens.tag_of(kind)]
    missing = goldens.unseen_fields(kind, of_kind)
    assert not missing, (
        f"{kind.__name__} has fields that no golden line shows: add a line with"
        f" {sorted(missing)} to tests/unit/golden/{name}, and leave the old lines as they are"
    )


@pytest.mark.parametrize(("name", "line"), LINES)
def test_a_field_of_a_newer_version_is_ignored(name: str, line: bytes) -> None:
    _, decode = FILES[name]
    newer = msgspec.json.encode(msgspec.json.decode(line) | {"inventedLater": {"deep": [1]}})
    assert decode(newer) == decode(line)


def test_no_two_record_types_of_a_topic_share_a_tag() -> None:
    for kinds, _ in FILES.values():
        tags = [goldens.tag_of(kind) for kind in kinds]
        assert len(set(tags)) == len(tags)


def test_a_record_of_an_unknown_type_is_refused_not_guessed() -> None:
    with pytest.raises(msgspec.ValidationError, match="jobInvented"):
        events.decode(b'{"queue":"q","jobSet":"s","by":"b","events":[{"type":"jobInvented"}]}')
