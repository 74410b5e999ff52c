"""Submissions without a service, for simulations: from a request to events, or all its errors."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.requests.decoding import Decoder
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_submit.domain.jobs.job_templates import JobTemplates
from fairlead_submit.domain.jobs.submission import IdSource, prepare_submission
from fairlead_submit.domain.policy import JobDefaults, JobPolicy, Limits
from fairlead_submit.domain.request_types import Submission

OFFLINE_JOBS_MAX: Final = 5_000_000
_CONTAINERS: Final = ("containers", "initContainers")
_decoder: Final = Decoder(Submission)


def prepare_events(
    request: Mapping[str, Any],  # JSON
    priority_classes: tuple[PriorityClass, ...],
    job_defaults: Mapping[str, Any],  # the setting `jobDefaults`
    first_number: int,
) -> tuple[
    Sequence[events.JobSubmitted | events.ArraySubmitted], dict[JobId, str], list[FieldError]
]:
    """The events of one submission, the jobs and arrays elsewhere that it names, and every error.

    Environments are ignored: they decide nothing, and secrets are known to the service only.
    `first_number` makes the ids of jobs without a client id differ between submissions. Raises
    `msgspec.ValidationError` for `job_defaults` that are not valid.
    """
    policy = JobPolicy(
        priority_classes=priority_classes,
        job_defaults=msgspec.convert(job_defaults, JobDefaults),
        limits=Limits(jobs_max=OFFLINE_JOBS_MAX, events_bytes_max=2**62, after_max=2**62),
    )
    body = msgspec.json.encode(_without_environments(request))
    try:
        decoded, known = _decoder(body)
        prepared, found = prepare_submission(
            decoded, known, JobTemplates(policy), policy.limits, IdSource(0, first_number)
        )
    except Problem as problem:
        return [], {}, problem.field_errors or [FieldError("", problem.detail)]
    arrays_outside = {JobId(array): pointer for array, pointer in prepared.arrays_outside.items()}
    return prepared.make_events(prepared.jobs), prepared.outside | arrays_outside, found


def _without_environments(request: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(request)
    if isinstance(made.get("defaults"), dict):
        made["defaults"] = _without_environment(made["defaults"])
    if isinstance(made.get("jobs"), list):
        made["jobs"] = [_without_environment(job) for job in made["jobs"]]
    return made


def _without_environment(job: object) -> object:
    if not isinstance(job, dict):
        return job
    made = {name: value for name, value in job.items() if name != "env"}
    spec = made.get("podSpec")
    if isinstance(spec, dict):
        made["podSpec"] = {
            name: [_without_env(container) for container in value]
            if name in _CONTAINERS and isinstance(value, list)
            else value
            for name, value in spec.items()
        }
    return made


def _without_env(container: object) -> object:
    if not isinstance(container, dict):
        return container
    return {name: value for name, value in container.items() if name != "env"}
