"""Names of the jobs of a task: the same for each try, so that a retry finds the jobs of the last.

Pure: Airflow is not imported here.
"""

import hashlib
from collections.abc import Mapping, Sequence
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


def renew_jobs(
    jobs: Sequence[Job], states: Mapping[str, str], ended: frozenset[str] = ENDED_BADLY
) -> list[Job]:
    """The jobs to submit on a retry: those that ended without success get the next client id.

    `states`: the states of existing jobs by client id. A job in a state that is not in `ended`
    keeps its client id, so that submitting it again creates nothing.
    """
    names = {job.client_id: _newest_name(job.client_id or "", states, ended) for job in jobs}
    return [
        msgspec.structs.replace(
            job,
            client_id=names[job.client_id],
            after=_rename(job.after, names),
        )
        for job in jobs
    ]


def _rename(after: _After, names: Mapping[str | None, str] | Mapping[str, str]) -> _After:
    """What a job waits for, by the new client ids."""
    return after and tuple(
        AfterArray(array=names.get(other.array, other.array))
        if isinstance(other, AfterArray)
        else names.get(other, other)
        for other in after
    )


def _newest_name(client_id: str, states: Mapping[str, str], ended: frozenset[str]) -> str:
    """The client id, or with the number of the attempt (`fit~2`) after the end of earlier ones."""
    attempt, name = 1, client_id
    while states.get(name) in ended:
        attempt += 1
        name = f"{client_id}~{attempt}"
    return name


def _shorten(text: str, characters_max: int) -> str:
    """The text, or its beginning with a digest of the whole."""
    if len(text) <= characters_max:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{text[: characters_max - DIGEST_CHARACTERS - 1]}-{digest}"
