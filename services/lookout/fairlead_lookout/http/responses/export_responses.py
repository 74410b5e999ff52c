"""The lines of an export with `include=submission`: what decides where and when a job runs."""

from typing import Any

import msgspec

from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import shapes
from fairlead_lookout.http.responses import job_responses, response_base


class SubmissionResponse(response_base.ResponseBody, frozen=True, kw_only=True):
    """What decides where and when a job runs. `shape`: `requests` in thousandths of a core, bytes
    and units, `nodeSelector`, `affinity`, `preferred` and `tolerations`.
    """

    shape: shapes.Shape
    after: tuple[str, ...] = ()
    hold: bool = False
    start_after: str | None = None
    max_runtime_seconds: int | None = None
    checkpoint_interval_seconds: int | None = None
    when_infeasible: str
    on_preemption: str
    gang: events.Gang | None = None
    retry: events.RetryPolicy | None = None


class JobWithSubmission(job_responses.ExportedJob, frozen=True, kw_only=True):
    """A line of an export with `include=submission`."""

    submission: SubmissionResponse


def add_submission(
    job: job_responses.JobResponse, row: Any, submitted: events.JobSubmitted
) -> JobWithSubmission:
    """A job with a row of the statement `submissions`."""
    shape = shapes.decode(bytes(submitted.shape))
    if row["requests"]:
        shape = msgspec.structs.replace(
            shape, requests=job_responses.decode_amounts(row["requests"])
        )
    return JobWithSubmission(
        **msgspec.structs.asdict(job_responses.describe_exported_job(job, row)),
        submission=SubmissionResponse(
            shape=shape,
            after=submitted.after,
            hold=submitted.hold,
            start_after=response_base.format_time(submitted.start_after_ms),
            max_runtime_seconds=submitted.runtime_s_max,
            checkpoint_interval_seconds=submitted.checkpoint_s,
            when_infeasible=submitted.when_infeasible,
            on_preemption=submitted.on_preemption,
            gang=submitted.gang,
            retry=submitted.retry,
        ),
    )
