"""Job sets as the API returns them."""

from fairlead_common.domain import position_tokens, timestamps
from fairlead_common.service import clock
from fairlead_lookout.domain import resource_usage
from fairlead_lookout.http.responses.response_base import (
    ResponseBody,
    format_time,
    to_resource_hours,
)
from fairlead_lookout.store.queries.view_reader import CountedJobSet, JobSetPage


class JobSetResponse(ResponseBody, frozen=True, kw_only=True):
    """A job set. `states`: jobs by state; `live`: jobs that have not ended.

    `failures`: failed and rejected jobs by category. `resourceHours`: what its runs have used, in
    cores, bytes and units times hours. `eta`: when it will end at the rate of the time until
    its last activity. `superseded`: jobs that were submitted again (`resubmit` with `failed`).
    """

    queue: str
    job_set: str
    jobs: int
    live: int
    states: dict[str, int]
    first_activity: str
    last_activity: str
    position: str
    failures: dict[str, int]
    resource_hours: dict[str, float]
    eta: str | None = None
    superseded: int = 0


class JobSetsResponse(ResponseBody, frozen=True, kw_only=True):
    """A page of job sets; `next` is the cursor of the next page.

    `count` (requested with `include=count`) is `10000+` beyond that.
    """

    job_sets: list[JobSetResponse]
    next: str | None = None
    count: str | None = None


def describe_job_set(counted: CountedJobSet, now_ms: int) -> JobSetResponse:
    """A job set with its jobs by state."""
    job_set = counted.job_set
    return JobSetResponse(
        queue=job_set.key[0],
        job_set=job_set.key[1],
        jobs=job_set.jobs,
        live=job_set.live,
        states=counted.states,
        first_activity=timestamps.rfc3339(job_set.first_ms),
        last_activity=timestamps.rfc3339(job_set.last_ms),
        position=position_tokens.encode({job_set.partition: job_set.position + 1}),
        failures=job_set.failures,
        resource_hours=to_resource_hours(resource_usage.total_usage(job_set, now_ms)),
        eta=format_time(resource_usage.estimate_end_ms(job_set, now_ms)),
        superseded=job_set.superseded,
    )


def describe_job_sets(page: JobSetPage, count: str | None = None) -> JobSetsResponse:
    """A page of job sets."""
    now_ms = clock.now_ms()
    return JobSetsResponse(
        job_sets=[describe_job_set(counted, now_ms) for counted in page.job_sets],
        next=page.next,
        count=count,
    )
