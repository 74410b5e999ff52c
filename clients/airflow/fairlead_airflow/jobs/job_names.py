"""Names of the jobs of a task: the same for each try, so that a retry finds the jobs of the last.

Pure: Airflow is not imported here.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead import AfterArray, Job
from fairlead.models.job_models import ENDED, SUCCEEDED

JOB_SET_CHARACTERS_MAX: Final = 256
TASK_CHARACTERS_MAX: Final = 60
DIGEST_CHARACTERS: Final = 12

ENDED_BADLY: Final = ENDED - {SUCCEEDED}
_After = tuple[str | AfterArray, ...] | None


class TaskKey(NamedTuple):
    """A task instance. `first_try`: the number of its first try after it was last cleared."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    first_try: int = 1


def name_job_set(key: TaskKey) -> str:
    """The job set of a task: one for all its mapped instances."""
    return _shorten(f"airflow/{key.dag_id}/{key.run_id}/{key.task_id}", JOB_SET_CHARACTERS_MAX)


def name_jobs(key: TaskKey, jobs: Sequence[Job]) -> list[Job]:
    """The jobs with client ids that only this task instance uses.

    A client id that a job already has becomes a part of it; so do those in `after` that name jobs
    of this list.
    """
    prefix = _shorten(key.task_id, TASK_CHARACTERS_MAX)
    if key.map_index >= 0:
        prefix = f"{prefix}.{key.map_index}"
    if key.first_try > 1:
        prefix = f"{prefix}@{key.first_try}"
    own = [job.client_id or str(index) for index, job in enumerate(jobs)]
    names = {name: prefix if len(jobs) == 1 else f"{prefix}.{name}" for name in own}
    return [
        msgspec.structs.replace(
            job,
            client_id=names[name],
            after=_rename(job.after, names),
        )
        for name, job in zip(own, jobs, strict=True)
    ]


def name_mapped_part(key: TaskKey) -> str | None:
    """A part of the client ids of an instance of a mapped task, by which a search in their job set
    is narrowed; None for other tasks."""
    if key.map_index < 0:
        return None
    return f"{_shorten(key.task_id, TASK_CHARACTERS_MAX)}.{key.map_index}"


def is_attempt(client_id: str | None, names: Collection[str]) -> bool:
    """Whether a job with this client id is an attempt of a job with one of these names."""
    return client_id in names or (client_id or "").rpartition("~")[0] in names


def renew_jobs(jobs: Sequence[Job], states: Mapping[str, str]) -> list[Job]:
    """The jobs to submit on a retry: those that ended without success get the next client id.

    `states`: the states of existing jobs by client id. Another job keeps its client id, so that
    submitting it again creates nothing.
    """
    names = {job.client_id: _newest_name(job.client_id or "", states) for job in jobs}
    return [
        msgspec.structs.replace(
            job,
            client_id=names[job.client_id],
            after=_rename(job.after, names),
        )
        for job in jobs
    ]


def renew_reported_job(job: Job, states: Mapping[str, str], reported: str | None) -> Job:
    """The job to submit on a later try, of a task that can have been cleared since.

    `reported`: the client id of the job with which an earlier try ended successfully. It is not the
    newest one if that has ended since without being reported.
    """
    first = job.client_id or ""
    name = first if reported is None else _next_name(first, reported)
    return msgspec.structs.replace(job, client_id=_newest_name(first, states, name))


def _rename(after: _After, names: Mapping[str | None, str] | Mapping[str, str]) -> _After:
    """What a job waits for, by the new client ids."""
    return after and tuple(
        AfterArray(array=names.get(other.array, other.array))
        if isinstance(other, AfterArray)
        else names.get(other, other)
        for other in after
    )


def _newest_name(first: str, states: Mapping[str, str], name: str | None = None) -> str:
    """The client id, or with the number of the attempt (`fit~2`) after attempts that ended without
    success. `name`: where to begin, if not at the first one."""
    name = name or first
    while states.get(name) in ENDED_BADLY:
        name = _next_name(first, name)
    return name


def _next_name(first: str, name: str) -> str:
    """The client id of the attempt after the one of this name."""
    attempt = 1 if name == first else int(name.rpartition("~")[2])
    return f"{first}~{attempt + 1}"


def _shorten(text: str, characters_max: int) -> str:
    """The text, or its beginning with a digest of the whole."""
    if len(text) <= characters_max:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{text[: characters_max - DIGEST_CHARACTERS - 1]}-{digest}"
