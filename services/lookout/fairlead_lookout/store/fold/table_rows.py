"""Rows of the view's tables and the records they stand for, column by column."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from fairlead_lookout.domain.event_chunks import Chunk
from fairlead_lookout.domain.model import Job, JobSet, Run, RunKey, SetKey, Submitted


def _columns(text: str) -> list[str]:
    return text.split()


JOB_COLUMNS: Final = _columns(
    "id set_number queue class pool number submitted_ms start_after_ms after shape state stopping"
    " stop_cause stop_reason held priority run changed_ms started_ms ended_ms category exit_code"
    " reason superseded_by"
)
JOB_CHANGES: Final = _columns(
    "id shape state stopping stop_cause stop_reason held priority run changed_ms started_ms"
    " ended_ms category exit_code reason superseded_by"
)
SPEC_COLUMNS: Final = _columns("job_id digest client_id labels annotations submitted")
RUN_COLUMNS: Final = _columns(
    "job_id number state executor node pool leased_ms pending_ms running_ms ended_ms exit_code"
    " category reason cause shape"
)
RUN_CHANGES: Final = _columns(
    "job_id number state pending_ms running_ms ended_ms exit_code category reason cause"
)
_JOB_FIELDS: Final = Job.__struct_fields__.index("latest") - 2
"""How many fields of a job the statement `jobs` gives after its id and its job set."""
EVENT_COLUMNS: Final = _columns(
    "set_number last_position last_item first_position first_item day lines partition queue time_ms"
)


def job(row: Any, names: Mapping[int, SetKey]) -> Job:
    """A job and its newest run from a row of the statement `jobs`. `names`: of job sets."""
    job_id, set_number, *rest = row
    made = Job(job_id, names[set_number], *rest[:_JOB_FIELDS])
    made.after = tuple(made.after) if made.after else None
    run = rest[_JOB_FIELDS:]
    if run[0] is not None:
        made.latest = Run(*run)
    return made


def job_row(job: Job, set_number: int) -> tuple[Any, ...]:
    return (
        job.id,
        set_number,
        job.key[0],
        job.priority_class,
        job.pool,
        job.number,
        job.submitted_ms,
        job.start_after_ms,
        job.after,
        job.shape,
        job.state,
        job.stopping,
        job.stop_cause,
        job.stop_reason,
        job.held,
        job.priority,
        job.run,
        job.changed_ms,
        job.started_ms,
        job.ended_ms,
        job.category,
        job.exit_code,
        job.reason,
        job.superseded_by,
    )


def job_change(job: Job) -> tuple[Any, ...]:
    return (
        job.id,
        job.shape,
        job.state,
        job.stopping,
        job.stop_cause,
        job.stop_reason,
        job.held,
        job.priority,
        job.run,
        job.changed_ms,
        job.started_ms,
        job.ended_ms,
        job.category,
        job.exit_code,
        job.reason,
        job.superseded_by,
    )


def spec_row(job_id: str, said: Submitted) -> tuple[Any, ...]:
    return (
        job_id,
        said.digest,
        said.client_id,
        _text(said.labels) if said.labels else None,
        _text(said.annotations) if said.annotations else None,
        said.text,
    )


def run_row(named: tuple[RunKey, Run]) -> tuple[Any, ...]:
    (job_id, _), run = named
    return (
        job_id,
        run.number,
        run.state,
        run.executor,
        run.node,
        run.pool,
        run.leased_ms,
        run.pending_ms,
        run.running_ms,
        run.ended_ms,
        run.exit_code,
        run.category,
        run.reason,
        run.cause,
        run.shape,
    )


def run_change(named: tuple[RunKey, Run]) -> tuple[Any, ...]:
    (job_id, _), run = named
    return (
        job_id,
        run.number,
        run.state,
        run.pending_ms,
        run.running_ms,
        run.ended_ms,
        run.exit_code,
        run.category,
        run.reason,
        run.cause,
    )


def event_row(chunk: Chunk, of: JobSet) -> tuple[Any, ...]:
    return (
        of.number,
        *chunk.last,
        *chunk.first,
        datetime.fromtimestamp(chunk.time_ms / 1000, UTC).date(),
        chunk.data,
        of.partition,
        chunk.key[0],
        chunk.time_ms,
    )


def job_set(row: Any) -> JobSet:
    """A job set, without its counters, from a row of the statements that read job sets."""
    return JobSet(
        number=row["number"],
        key=(row["queue"], row["job_set"]),
        partition=row["partition"],
        jobs=row["jobs"],
        live=row["live"],
        first_ms=row["first_ms"],
        last_ms=row["last_ms"],
        position=row["position"],
        last=(row["last_position"], row["last_item"]),
        failures=_decode_counts(row["failures"]),
        held=_decode_held(row["held"]),
        used=_decode_counts(row["used"]),
        metered_ms=row["metered_ms"],
        superseded=row["superseded"],
    )


def job_set_change(known: JobSet) -> tuple[Any, ...]:
    """What the statement `write_sets` takes."""
    return (
        known.number,
        known.jobs,
        known.live,
        known.first_ms,
        known.last_ms,
        known.position,
        *known.last,
        _text(known.failures),
        _text(known.held),
        _text(known.used),
        known.metered_ms,
        known.superseded,
    )


_decode_counts: Final = msgspec.json.Decoder(dict[str, int]).decode
_decode_held: Final = msgspec.json.Decoder(dict[str, dict[str, int]]).decode


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode() if value else "{}"
