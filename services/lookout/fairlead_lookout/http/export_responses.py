"""What an export answers with `include=submission`: what decides where and when a job runs."""

from typing import Any

import msgspec

from fairlead_common.domain import shapes
from fairlead_common.domain.records import events
from fairlead_lookout.http import responses


class SubmissionShown(responses.Shown, frozen=True, kw_only=True):
    """What decides where and when a job runs. `shape`: `requests` in thousandths of a core, bytes
    and units, `nodeSelector`, `affinity`, `preferred` and `tolerations`.
    """

    shape: msgspec.Raw
    after: tuple[str, ...] = ()
    hold: bool = False
    start_after: str | None = None
    max_runtime_seconds: int | None = None
    checkpoint_interval_seconds: int | None = None
    when_infeasible: str
    on_preemption: str
    gang: events.Gang | None = None
    retry: events.RetryPolicy | None = None


class JobWithSubmission(responses.JobExported, frozen=True, kw_only=True):
    """A line of an export with `include=submission`."""

    submission: SubmissionShown


def with_submission(
    job: responses.JobShown, row: Any, said: events.JobSubmitted
) -> JobWithSubmission:
    """A job with a row of the statement `submissions`."""
    shape = shapes.decode(bytes(said.shape))
    if row["requests"]:
        shape = msgspec.structs.replace(shape, requests=responses.decode_amounts(row["requests"]))
    return JobWithSubmission(
        **msgspec.structs.asdict(responses.exported(job, row)),
        submission=SubmissionShown(
            shape=shapes.encode(shape),
            after=said.after,
            hold=said.hold,
            start_after=responses.time(said.start_after_ms),
            max_runtime_seconds=said.runtime_s_max,
            checkpoint_interval_seconds=said.checkpoint_s,
            when_infeasible=said.when_infeasible,
            on_preemption=said.on_preemption,
            gang=said.gang,
            retry=said.retry,
        ),
    )
