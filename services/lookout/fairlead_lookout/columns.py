"""Rows of the view's tables and the records they stand for, column by column."""

from typing import Any, Final

import msgspec

from fairlead_lookout.model import Job, JobSet, Run, RunKey, Submitted


def _columns(text: str) -> list[str]:
    return text.split()


JOB_COLUMNS: Final = _columns(
    "id set_number queue class pool number submitted_ms start_after_ms after shape state stopping"
    " stop_cause stop_reason held priority run changed_ms started_ms ended_ms category exit_code"
    " reason"
)
JOB_CHANGES: Final = _columns(
    "id shape state stopping stop_cause stop_reason held priority run changed_ms started_ms"
    " ended_ms category exit_code reason"
)
SPEC_COLUMNS: Final = _columns("job_id digest client_id labels annotations submitted")
RUN_COLUMNS: Final = _columns(
    "job_id number state executor node pool leased_ms pending_ms running_ms ended_ms exit_code"
    " category reason cause shape"
)
RUN_CHANGES: Final = _columns(
    "job_id number state pending_ms running_ms ended_ms exit_code category reason cause"
)
EVENT_COLUMNS: Final = _columns(
    "set_number last_position last_item first_position first_item day lines partition queue time_ms"
)


def job(row: Any) -> Job:
    """A job and its newest run from a row of the statement `jobs`."""
    job = Job(
        id=row["id"],
        key=(row["queue"], row["job_set"]),
        priority_class=row["class"],
        number=row["number"],
        submitted_ms=row["submitted_ms"],
        shape=row["shape"],
        state=row["state"],
        priority=row["priority"],
        changed_ms=row["changed_ms"],
        pool=row["pool"],
        labels=msgspec.json.decode(row["labels"]) if row["labels"] else None,
        after=tuple(row["after"]) if row["after"] else None,
        held=row["held"],
        start_after_ms=row["start_after_ms"],
        stopping=row["stopping"],
        stop_cause=row["stop_cause"],
        stop_reason=row["stop_reason"],
        run=row["run"],
        started_ms=row["started_ms"],
        ended_ms=row["ended_ms"],
        category=row["category"],
        exit_code=row["exit_code"],
        reason=row["reason"],
    )
    if row["run_number"] is not None:
        job.latest = Run(
            number=row["run_number"],
            state=row["run_state"],
            executor=row["executor"],
            node=row["node"],
            pool=row["run_pool"],
            leased_ms=row["leased_ms"],
            pending_ms=row["pending_ms"],
            running_ms=row["running_ms"],
            ended_ms=row["run_ended_ms"],
            exit_code=row["run_exit_code"],
            category=row["run_category"],
            reason=row["run_reason"],
            cause=row["cause"],
            shape=row["run_shape"],
        )
    return job


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
    )


_decode_counts: Final = msgspec.json.Decoder(dict[str, int]).decode
_decode_held: Final = msgspec.json.Decoder(dict[str, dict[str, int]]).decode


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode() if value else "{}"
