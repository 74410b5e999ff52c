"""Encodes records as rows of the view's tables, and decodes them, column by column."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairlead_common.domain.timestamps import find_day
from fairlead_lookout.domain.event_chunks import Chunk
from fairlead_lookout.domain.model import (
    Changes,
    Job,
    JobRequest,
    JobSet,
    JobSetKey,
    Run,
    StoredRecords,
    SubmissionDetails,
    SubmissionPlace,
    UsageKey,
)


def _split_names(text: str) -> list[str]:
    return text.split()


_RUN_COLUMNS: Final = _split_names(
    "state executor node pool leased_ms pending_ms running_ms ended_ms exit_code category reason"
    " cause shape"
)
_NEWEST_RUN: Final = " ".join(f"run_{name}" for name in _RUN_COLUMNS)
_NO_RUN: Final = (None,) * len(_RUN_COLUMNS)
JOB_CHANGES: Final = _split_names(
    "id shape state stopping stop_cause stop_reason held priority run changed_ms started_ms"
    f" ended_ms category exit_code reason superseded_by user_requests {_NEWEST_RUN} week"
)
JOB_COLUMNS: Final = [
    *_split_names(
        "set_number queue class pool number submitted_ms start_after_ms after is_task submitted_by"
        " labels chunk chunk_line submitted_bytes digest client_id annotations gang"
    ),
    *JOB_CHANGES,
]
SUBMISSION_COLUMNS: Final = ["chunk", "lines", "week"]
OLDER_RUN_COLUMNS: Final = ["job_id", "number", *_RUN_COLUMNS, "week"]
_JOB_FIELDS: Final = Job.__struct_fields__.index("latest") - 2
"""Fields of a job in the statement `jobs`, after its id and its job set."""
EVENT_COLUMNS: Final = _split_names(
    "set_number last_position last_item first_position first_item day lines partition queue time_ms"
)


def decode_job(row: Any, names: Mapping[int, JobSetKey]) -> Job:
    """A job and its newest run from a row of the statement `jobs`. `names`: job sets by number."""
    job_id, set_number, *rest = row
    made = Job(job_id, names[set_number], *rest[:_JOB_FIELDS])
    made.after = tuple(made.after) if made.after else None
    made.user_requests = decode_requests(made.user_requests)
    run = rest[_JOB_FIELDS:]
    if run[0] is not None:
        made.latest = Run(made.run, *run)
    return made


def encode_job(
    job: Job, set_number: int, submitted: SubmissionDetails, place: SubmissionPlace
) -> tuple[Any, ...]:
    return (
        set_number,
        job.key[0],
        job.priority_class,
        job.pool,
        job.number,
        job.submitted_ms,
        job.start_after_ms,
        job.after,
        job.is_task,
        job.submitted_by,
        _encode_text(submitted.labels) if submitted.labels else None,
        *place,
        len(submitted.text),
        submitted.digest,
        submitted.client_id,
        _encode_text(submitted.annotations) if submitted.annotations else None,
        submitted.gang,
        *encode_job_change(job),
    )


def encode_job_change(job: Job) -> tuple[Any, ...]:
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
        encode_requests(job.user_requests) if job.user_requests else None,
        *(_NO_RUN if job.latest is None else _encode_run(job.latest)),
        job.week,
    )


def _encode_run(run: Run) -> tuple[Any, ...]:
    return (
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


def decode_requests(text: Any) -> tuple[JobRequest, ...]:
    """What users requested for a job, from its column `user_requests`."""
    return _decode_requests(text) if text else ()


def encode_requests(requests: tuple[JobRequest, ...]) -> str:
    """The column `user_requests` of these requests."""
    return msgspec.json.encode(requests).decode()


def encode_older_run(job: Job, run: Run) -> tuple[Any, ...]:
    return (job.id, run.number, *_encode_run(run), job.week)


def encode_older_run_change(job: Job, run: Run) -> tuple[Any, ...]:
    """A row of the statement `change_older_runs`."""
    return (
        job.id,
        run.number,
        run.state,
        run.pending_ms,
        run.running_ms,
        run.ended_ms,
        run.exit_code,
        run.category,
        run.reason,
        run.cause,
        job.week,
    )


def encode_chunk(chunk: Chunk, job_set: JobSet) -> tuple[Any, ...]:
    return (
        job_set.number,
        *chunk.last,
        *chunk.first,
        find_day(chunk.time_ms),
        chunk.data,
        job_set.partition,
        chunk.key[0],
        chunk.time_ms,
    )


def decode_job_set(row: Any) -> JobSet:
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


def encode_job_set_change(job_set: JobSet) -> tuple[Any, ...]:
    """A row of the statement `write_sets`."""
    return (
        job_set.number,
        job_set.jobs,
        job_set.live,
        job_set.first_ms,
        job_set.last_ms,
        job_set.position,
        *job_set.last,
        _encode_text(job_set.failures),
        _encode_text(job_set.held),
        _encode_text(job_set.used),
        job_set.metered_ms,
        job_set.superseded,
    )


_decode_requests: Final = msgspec.json.Decoder(tuple[JobRequest, ...]).decode
_decode_counts: Final = msgspec.json.Decoder(dict[str, int]).decode
_decode_held: Final = msgspec.json.Decoder(dict[str, dict[str, dict[str, int]]]).decode


def _encode_text(value: object) -> str:
    return msgspec.json.encode(value).decode() if value else "{}"


def encode_queue_counts(stored: StoredRecords, changes: Changes) -> list[tuple[Any, ...]]:
    """(queue, class, state, change) for the changes of queue counters that are not 0."""
    moved: dict[tuple[str, str, str], int] = {}
    for key, counted in changes.counted.items():
        before, after = stored.job_sets[key].counts, changes.job_sets[key].counts
        for class_, state in counted:
            name = (key[0], class_, state)
            change = after.get((class_, state), 0) - before.get((class_, state), 0)
            moved[name] = moved.get(name, 0) + change
    return [(*name, change) for name, change in moved.items() if change]


def encode_usage(changes: Changes) -> list[tuple[Any, ...]]:
    """(queue, pool, hour, resource, used, lost)."""
    return _sum_usage(changes, lambda key: (key[0], key[1], key[2]))


def encode_user_usage(changes: Changes) -> list[tuple[Any, ...]]:
    """(queue, hour, resource, user, used, lost)."""
    return [
        (queue, hour_ms, resource, user, used, lost)
        for queue, hour_ms, user, resource, used, lost in _sum_usage(
            changes, lambda key: (key[0], key[2], key[3])
        )
    ]


def _sum_usage(
    changes: Changes, shorten: Callable[[UsageKey], tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """(*part of the key, resource, used, lost)."""
    totals: dict[tuple[Any, ...], tuple[float, float]] = {}
    for key, each in changes.usage.items():
        for resource in each.used.keys() | each.lost.keys():
            place = (*shorten(key), resource)
            used, lost = totals.get(place, (0.0, 0.0))
            totals[place] = (used + each.used.get(resource, 0), lost + each.lost.get(resource, 0))
    return [(*place, used, lost) for place, (used, lost) in totals.items()]
