"""Public events: their ids, and the text of those that are formatted by hand."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.records import events
from fairlead_lookout.domain import public_events
from fairlead_lookout.domain.model import Job, JobSet, Line, Message, Run
from fairlead_lookout.domain.public_events import EventType, EventWriter, PublicEvent
from tests.unit.lookout.builders import job_id, submitted

NAMES = st.text(max_size=12)


@pytest.mark.parametrize(
    "text",
    ["", "-", "1", "1-", "-1", "1--1", "a-1-1", "1-1", "1-1-1-1", "1-1-" + "9" * 40, "1-1-٣"],
)
def test_an_invalid_event_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the id of an event"):
        public_events.parse_id(text)


def _start(queue: str, name: str, by: str) -> tuple[EventWriter, JobSet]:
    writer = EventWriter()
    sequence = events.EventSequence(queue=queue, job_set=name, by=by, events=[])
    writer.start_message(Message(3, 17, 1_700_000_000_123, sequence))
    return writer, JobSet(1, (queue, name), 3)


def _encode_plainly(line: Line, **fields: object) -> bytes:
    """The event with these fields as `PublicEvent` defines it; id, time and position of `line`."""
    written = msgspec.json.decode(line.json, type=PublicEvent)
    event = PublicEvent(id=written.id, time=written.time, position=written.position, **fields)  # type: ignore[arg-type]
    return msgspec.json.encode(event)


@given(NAMES, NAMES, NAMES, NAMES, st.integers(1, 2**31 - 1))
def test_a_step_of_a_run_is_written_as_the_event_would_be_encoded(
    queue: str, name: str, executor: str, node: str, number: int
) -> None:
    writer, job_set = _start(queue, name, "anna")
    run = Run(number, "RUNNING", executor, node, "default", 0)
    job = Job(job_id("a"), job_set.key, "default", 0, 0, "", "RUNNING", 0, 0, latest=run)
    kinds: tuple[EventType, ...] = ("leased", "running")
    for kind in kinds:
        writer.write_step(job_set, kind, job.id, run)
    writer.write_run(job_set, "succeeded", job)
    lines = writer.lines[job_set.key]
    for kind, line in zip((*kinds, "succeeded"), lines, strict=True):
        plain = _encode_plainly(
            line, type=kind, job_id=job.id, run=number, cluster=executor, node=node,
            queue=queue, job_set=name,
        )  # fmt: skip
        assert line.json == plain


@given(NAMES, NAMES, NAMES, st.none() | NAMES, NAMES, st.integers(-(2**31), 2**31 - 1))
def test_a_submission_is_written_as_the_event_would_be_encoded(
    queue: str, name: str, by: str, client_id: str | None, priority_class: str, priority: int
) -> None:
    writer, job_set = _start(queue, name, by)
    event = submitted("a", client_id=client_id, priority=priority, priority_class=priority_class)
    writer.write_submission(job_set, event)
    (line,) = writer.lines[job_set.key]
    assert line.json == _encode_plainly(
        line, type="submitted", job_id=event.job_id, client_id=client_id, priority=priority,
        priority_class=priority_class, by=by, queue=queue, job_set=name,
    )  # fmt: skip


def test_a_job_set_has_the_id_of_its_last_event_once_the_message_is_finished() -> None:
    writer, job_set = _start("q", "s", "anna")
    other = JobSet(2, ("q", "t"), 3)
    writer.write_submission(job_set, submitted("a"))
    writer.write_submission(other, submitted("b", "t"))
    writer.write_submission(job_set, submitted("c"))
    writer.finish_message()
    assert (job_set.last, other.last) == ((17, 2), (17, 1))
    assert (job_set.position, job_set.first_ms, job_set.last_ms) == (
        17,
        1_700_000_000_123,
        1_700_000_000_123,
    )
