"""Telling what happened: public events made from the fold's records, in order per job set."""

from fairlead_common.domain import position_tokens, timestamps
from fairlead_lookout.domain import public_events
from fairlead_lookout.domain.model import Job, JobSet, Line, Message, SetKey


class Telling:
    """The public events of a batch. An event's id is its message's place and a count, so that no
    two of a log have the same; `told` is that count."""

    def __init__(self) -> None:
        self.lines: dict[SetKey, list[Line]] = {}
        self._message: Message
        self.told = 0
        self._place = ""
        self._time = ""
        self._token = ""

    def begin(self, message: Message) -> None:
        """What is told from now on happened in this message."""
        self._message = message
        self._place = f"{message.partition}-{message.position}-"
        self.told = message.told
        self._time = timestamps.rfc3339(message.time_ms)
        self._token = position_tokens.encode({message.partition: message.position + 1})

    def tell(
        self, job_set: JobSet, kind: public_events.Kind, job: Job | None, **fields: object
    ) -> None:
        """Add an event of a job, or of the job set itself."""
        queue, name = job_set.key
        event = public_events.PublicEvent(
            id=f"{self._place}{self.told}",
            type=kind,
            job_id=None if job is None else job.id,
            time=self._time,
            position=self._token,
            queue=queue,
            job_set=name,
            **fields,  # type: ignore[arg-type]
        )
        self._add(job_set, event)

    def tell_run(
        self, job_set: JobSet, kind: public_events.Kind, job: Job, **fields: object
    ) -> None:
        """Add an event of a job that says where its newest run is, if it has one."""
        run = job.latest
        if run is None:
            self.tell(job_set, kind, job, **fields)
            return
        queue, name = job_set.key
        event = public_events.PublicEvent(
            id=f"{self._place}{self.told}",
            type=kind,
            job_id=job.id,
            run=run.number,
            cluster=run.executor,
            node=run.node,
            time=self._time,
            position=self._token,
            queue=queue,
            job_set=name,
            **fields,  # type: ignore[arg-type]
        )
        self._add(job_set, event)

    def _add(self, job_set: JobSet, event: public_events.PublicEvent) -> None:
        message, item = self._message, self.told
        self.told += 1
        job_set.last = (message.position, item)
        job_set.position = message.position
        job_set.last_ms = message.time_ms
        if job_set.first_ms == 0:
            job_set.first_ms = message.time_ms
        line = Line(message.position, item, message.time_ms, public_events.encode(event))
        lines = self.lines.get(job_set.key)
        if lines is None:
            self.lines[job_set.key] = [line]
        else:
            lines.append(line)

    def tell_failed_run(self, job_set: JobSet, job: Job, *, will_retry: bool) -> None:
        """Say how the newest run failed, if it did, now that it is known what comes of that."""
        run = job.latest
        if run is not None and run.state in ("FAILED", "LOST"):
            self.tell_run(
                job_set,
                "runFailed",
                job,
                category=run.category or "node-lost",
                exit_code=run.exit_code,
                reason=run.reason,
                will_retry=will_retry,
            )
