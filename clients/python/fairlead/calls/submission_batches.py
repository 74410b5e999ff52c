"""Splits a long list of jobs into batches, one per request.

Every job gets a client id before it is sent, so that repeating a request creates no job twice. The
pointers in the refusal of one request are changed to pointers into the caller's whole list.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

import msgspec

from fairlead import errors
from fairlead.calls import request_building
from fairlead.calls.exchange_types import Request
from fairlead.models.job_models import FieldError, Job, Problem, SubmittedJob

JOBS_MAX: Final = 1_000
"""Jobs in one request: the server accepts 10,000, but small requests keep its latency low."""

GANG_MAX: Final = 10_000
"""Members of one gang in one request: the server numbers them if it receives all together."""

BODY_BYTES_MAX: Final = 16 * 2**20
"""Bytes in one request; the server accepts 32 MiB. A larger job is sent alone."""

_encoder: Final = msgspec.json.Encoder()
AnyJob = Job | Mapping[str, object]


class Batch(msgspec.Struct, frozen=True):
    """The encoded jobs of one request; `first` is the index of its first job in the list."""

    first: int
    jobs: list[msgspec.Raw]


def with_client_id(job: AnyJob, client_id: str) -> AnyJob:
    """The job with this client id, unless it has one already."""
    if isinstance(job, Job):
        if job.client_id is not None:
            return job
        return msgspec.structs.replace(job, client_id=client_id)
    if job.get("clientId") is not None:
        return job
    return {**job, "clientId": client_id}


def _gang(job: AnyJob) -> object:
    """The name of the gang that the job is a member of."""
    gang = job.gang if isinstance(job, Job) else job.get("gang")
    return gang.get("name") if isinstance(gang, Mapping) else getattr(gang, "name", None)


def split_jobs(jobs: Iterable[AnyJob], name: str) -> Iterator[Batch]:
    """The batches, in order. Jobs without a client id get `<name>-<index in the list>`.
    Adjacent members of a gang are in the same batch.

    Raises TypeError for an item that is neither a `Job` nor a mapping.
    """
    first, size = 0, 0
    pending: list[msgspec.Raw] = []
    gang: object = None
    for index, job in enumerate(jobs):
        if not isinstance(job, Job | Mapping):
            raise TypeError(f"jobs[{index}] is neither a Job nor a mapping but {type(job)}")
        encoded = _encoder.encode(with_client_id(job, f"{name}-{index}"))
        before, gang = gang, _gang(job)
        jobs_max = GANG_MAX if gang is not None and gang == before else JOBS_MAX
        if pending and (len(pending) >= jobs_max or size + len(encoded) > BODY_BYTES_MAX):
            yield Batch(first, pending)
            first, size, pending = index, 0, []
        pending.append(msgspec.Raw(encoded))
        size += len(encoded) + 1
    if pending:
        yield Batch(first, pending)


def split_for_check(jobs: Iterable[AnyJob]) -> Iterator[Batch]:
    """The batches of jobs that are only checked. What a job waits for in an earlier batch is left
    out, because the server does not know jobs that were not created.
    """
    earlier: set[object] = set()
    for batch in split_jobs(jobs, "dry-run"):
        documents = [msgspec.json.decode(job, type=dict[str, object]) for job in batch.jobs]
        if earlier:
            checked = [_encoder.encode(_leave_out(each, earlier)) for each in documents]
            batch = Batch(batch.first, [msgspec.Raw(each) for each in checked])
        yield batch
        earlier.update(each["clientId"] for each in documents if isinstance(each["clientId"], str))


def _leave_out(job: dict[str, object], earlier: Set[object]) -> dict[str, object]:
    """The job without what it waits for among these client ids."""
    after, array = job.get("after"), job.get("array")
    if isinstance(after, list):
        job = {**job, "after": [each for each in after if _find_name(each) not in earlier]}
    followed = array.get("afterCorresponding") if isinstance(array, dict) else None
    if isinstance(array, dict) and isinstance(followed, str) and followed in earlier:
        job = {**job, "array": {**array, "afterCorresponding": None}}
    return job


def _find_name(dependency: object) -> object:
    """The client id or id of a job or of an array in `after`."""
    name = dependency.get("array") if isinstance(dependency, dict) else dependency
    return name if isinstance(name, str) else None


def build_submission(
    queue: str,
    job_set: str,
    defaults: AnyJob | None,
    batch: Batch,
    *,
    dry_run: bool = False,
) -> Request:
    """The request that submits a batch, or has it checked."""
    body: dict[str, object] = {"queue": queue, "jobSet": job_set}
    if defaults is not None:
        body["defaults"] = defaults
    query = request_building.make_dry_run_query(dry_run)
    return request_building.build_post("/jobs", {**body, "jobs": batch.jobs}, query=query)


def relocate_refusal(
    refused: errors.RequestRefused, batch: Batch, accepted: Sequence[SubmittedJob] = ()
) -> errors.RequestRefused:
    """The refusal of a batch, with pointers into the caller's list and the jobs of the batches
    that were accepted before.
    """
    return errors.build_refusal(_shift_pointers(refused.problem, batch.first), accepted)


def _shift_pointers(problem: Problem, first: int) -> Problem:
    if not first:
        return problem
    return msgspec.structs.replace(
        problem, errors=tuple(_shift_field_error(error, first) for error in problem.errors)
    )


def _shift_field_error(error: FieldError, first: int) -> FieldError:
    head, _, rest = error.pointer.removeprefix("/jobs/").partition("/")
    if not error.pointer.startswith("/jobs/") or not head.isdecimal():
        return error
    pointer = f"/jobs/{int(head) + first}" + (f"/{rest}" if rest else "")
    return msgspec.structs.replace(error, pointer=pointer)
