"""The public events: what people and programs receive about jobs, one JSON object each.

They are made from the events of the log, with differences: an event that changed nothing is left
out, a bulk request becomes one event per job, and a failed run is published when the scheduler has
decided whether it is retried.

The events that every job has are formatted as text: this takes a third of the time of making and
encoding a `PublicEvent`, which defines the order of the fields.
"""

from typing import Final, Literal

import msgspec

from fairlead_common.domain import position_tokens, timestamps
from fairlead_common.domain.records.events import JobSubmitted
from fairlead_lookout.domain.model import Job, JobSet, JobSetKey, Line, Message, Preemption, Run

EventType = Literal[
    "submitted",
    "rejected",
    "queued",
    "leased",
    "pending",
    "running",
    "succeeded",
    "failed",
    "runFailed",
    "preempting",
    "preempted",
    "requeued",
    "cancelling",
    "cancelled",
    "reprioritized",
    "finished",
    "groupSubmitted",
    "groupRunning",
    "groupScaled",
    "groupUpdated",
    "groupRecreated",
    "groupRestartRequested",
    "groupRestarting",
    "groupCancelling",
    "groupSucceeded",
    "groupFailed",
    "groupCancelled",
    "arraySubmitted",
    "arrayCancelling",
    "arrayTasksCancelled",
    "arrayEnded",
]
"""The types of public events."""


class PublicEvent(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """One public event. `id` is `<partition>-<position>-<item>`; other fields are optional.

    `position` is the opaque token that `?after=` takes. `counts` (of `finished`) are the jobs of
    the job set by state.
    """

    id: str
    type: EventType
    job_id: str | None = None
    group: str | None = None
    array: str | None = None
    tasks: int | None = None
    run: int | None = None
    client_id: str | None = None
    priority: int | None = None
    priority_class: str | None = None
    cluster: str | None = None
    node: str | None = None
    code: str | None = None
    category: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    cause: str | None = None
    for_job: str | None = None
    will_retry: bool | None = None
    final: bool | None = None
    by: str | None = None
    counts: dict[str, int] | None = None
    time: str
    position: str
    queue: str
    job_set: str


ID_MAX: Final = 40
_encode: Final = msgspec.json.Encoder().encode


def parse_id(text: str) -> tuple[int, int]:
    """(position, item) of an event id. Raises ValueError."""
    parts = text.split("-")
    if len(parts) != 3 or len(text) > ID_MAX or not all(map(_is_number, parts)):
        raise ValueError(f"{text[:ID_MAX]!r} is not the id of an event")
    return int(parts[1]), int(parts[2])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 2**63


class EventWriter:
    """Writes the public events of a batch. The id of an event is the position of its message and a
    count, so it is unique in the log; `published` is that count.

    `finish_message` must be called before the job sets are used: until then they do not have the
    id of their last event.
    """

    def __init__(self) -> None:
        self.lines: dict[JobSetKey, list[Line]] = {}
        self.preemptions: list[Preemption] = []
        self.published = 0
        self._message: Message
        self._id_prefix = ""
        self._time = ""
        self._position = ""
        self._head = ""
        self._tail = ""
        self._by = ""
        self._job_set: JobSet | None = None
        self._own_lines: list[Line] = []
        self._placed: dict[tuple[str, str], str] = {}
        """The JSON of the cluster and the node of a run."""

    def start_message(self, message: Message) -> None:
        """The next events belong to this message."""
        self.finish_message()
        self._message = message
        self._id_prefix = f"{message.partition}-{message.position}-"
        self._head = f'{{"id":"{self._id_prefix}'
        self._by = _quote(message.sequence.by)
        self.published = message.published
        self._time = timestamps.rfc3339(message.time_ms)
        self._position = position_tokens.encode({message.partition: message.position + 1})

    def finish_message(self) -> None:
        """Record in the job set what its last event is."""
        job_set, self._job_set = self._job_set, None
        if job_set is None:
            return
        message, line = self._message, self._own_lines[-1]
        job_set.last = (line.position, line.item)
        job_set.position = message.position
        job_set.last_ms = message.time_ms
        if job_set.first_ms == 0 or message.time_ms < job_set.first_ms:
            job_set.first_ms = message.time_ms

    def write(self, job_set: JobSet, kind: EventType, job: Job | None, **fields: object) -> Line:
        """Write an event of a job, or of the job set itself."""
        queue, name = job_set.key
        event = PublicEvent(
            id=f"{self._id_prefix}{self.published}",
            type=kind,
            job_id=None if job is None else job.id,
            time=self._time,
            position=self._position,
            queue=queue,
            job_set=name,
            **fields,  # type: ignore[arg-type]
        )
        return self._add(job_set, _encode(event))

    def write_submission(self, job_set: JobSet, event: JobSubmitted) -> None:
        """Write that a job was submitted."""
        if job_set is not self._job_set:
            self._start_job_set(job_set)
        client_id = "" if event.client_id is None else f',"clientId":{_quote(event.client_id)}'
        self._add(
            job_set,
            f'{self._head}{self.published}","type":"submitted","jobId":"{event.job_id}"{client_id}'
            f',"priority":{event.priority},"priorityClass":{_quote(event.priority_class)}'
            f',"by":{self._by}{self._tail}'.encode(),
        )

    def write_step(self, job_set: JobSet, kind: EventType, job_id: str, run: Run) -> None:
        """Write an event of a job with its newest run, and nothing else."""
        if job_set is not self._job_set:
            self._start_job_set(job_set)
        placed = self._placed.get((run.executor, run.node)) or self._place(run)
        item, message = self.published, self._message
        text = (
            f'{self._head}{item}","type":"{kind}","jobId":"{job_id}","run":{run.number}'
            f"{placed}{self._tail}"
        )
        self._own_lines.append(Line(message.position, item, message.time_ms, text.encode()))
        self.published = item + 1

    def _place(self, run: Run) -> str:
        placed = f',"cluster":{_quote(run.executor)},"node":{_quote(run.node)}'
        self._placed[run.executor, run.node] = placed
        return placed

    def write_run(self, job_set: JobSet, kind: EventType, job: Job, **fields: object) -> None:
        """Write an event of a job with its newest run, if it has one."""
        run = job.latest
        if run is None:
            self.write(job_set, kind, job, **fields)
        elif all(value is None for value in fields.values()):
            self.write_step(job_set, kind, job.id, run)
        else:
            place = {"run": run.number, "cluster": run.executor, "node": run.node}
            self.write(job_set, kind, job, **place, **fields)

    def write_preemption(
        self, job_set: JobSet, job: Job, by: str | None, for_job: str | None
    ) -> None:
        """Write that the newest run is asked to stop, and why."""
        cause, reason = job.stop_cause or "", job.stop_reason
        self.write_run(
            job_set, "preempting", job, cause=cause, reason=reason, by=by, for_job=for_job
        )
        time_ms = self._message.time_ms
        self.preemptions.append(
            Preemption(time_ms, job.id, job.run, job_set.key[0], cause, reason, for_job, by)
        )

    def write_failed_run(self, job_set: JobSet, job: Job, *, will_retry: bool) -> None:
        """Write how the newest run failed, if it did, once the consequence is decided."""
        run = job.latest
        if run is not None and run.state in ("FAILED", "LOST"):
            self.write_run(
                job_set,
                "runFailed",
                job,
                category=run.category or "node-lost",
                exit_code=run.exit_code,
                reason=run.reason,
                will_retry=will_retry,
            )

    def _add(self, job_set: JobSet, json: bytes) -> Line:
        if job_set is not self._job_set:
            self._start_job_set(job_set)
        message = self._message
        line = Line(message.position, self.published, message.time_ms, json)
        self._own_lines.append(line)
        self.published += 1
        return line

    def _start_job_set(self, job_set: JobSet) -> None:
        self.finish_message()
        self._job_set = job_set
        queue, name = job_set.key
        self._own_lines = self.lines.setdefault(job_set.key, [])
        self._tail = (
            f',"time":"{self._time}","position":"{self._position}"'
            f',"queue":{_quote(queue)},"jobSet":{_quote(name)}}}'
        )


def _quote(text: str) -> str:
    """As JSON."""
    return _encode(text).decode()
