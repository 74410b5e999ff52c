"""Resubmission: the new job that replaces a job, with its id and client id."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import Gang, JobSubmitted
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_submit.domain import policy, secret_variables
from fairlead_submit.domain.policy import AllowList
from fairlead_submit.domain.request_types import CLIENT_ID_MAX
from fairlead_submit.domain.secret_variables import QueueSecrets

GANG_NAME_MAX: Final = 200


class ResubmissionResponse(msgspec.Struct, frozen=True):
    """The response to a resubmission: the id of the action, and the number of jobs."""

    action: str
    total: int


class ResubmissionDryRun(msgspec.Struct, frozen=True):
    """The response to a dry run: the number of jobs that would be resubmitted."""

    total: int


class Target(msgspec.Struct, frozen=True):
    """Where the new jobs of an action belong, whether they have numbered client ids, and by what
    their memory is multiplied."""

    action: str
    queue: str
    job_set: str
    partition: int
    allow: AllowList | None = None
    keeps_client_ids: bool = False
    secrets: QueueSecrets = secret_variables.NO_SECRETS
    memory_factor: float = 1.0


class JobContext(msgspec.Struct, frozen=True):
    """The other jobs of the action, as far as they concern a job.

    `members`: the number of members of its gang in the action; `member`: the number before it.
    `items`: the jobs in its `after` that are in the action, and whether they were refused.
    `succeeded`: the jobs and arrays in its `after` that succeeded. `ids`: the new ids of `items`.
    """

    members: int
    member: int
    items: Mapping[str, bool]
    succeeded: Collection[str]
    ids: Mapping[str, JobId]


def make_action_id(queue: str, job_set: str, client_id: str) -> str:
    """The id of the action with this client id within a queue and job set."""
    text = f"{queue}\0{job_set}\0{client_id}".encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def make_next_client_id(client_id: str | None, annotations: Mapping[str, str]) -> str | None:
    """The client id of the next attempt: after `trial` comes `trial~2`, then `trial~3`. None if
    there is no client id, or the new one would be too long.
    """
    if client_id is None:
        return None
    name, tilde, number = client_id.rpartition("~")
    if not (tilde and number.isdecimal() and events.RESUBMITTED_FROM in annotations):
        name, number = client_id, "1"
    made = f"{name}~{int(number) + 1}"
    return made if len(made) <= CLIENT_ID_MAX else None


def make_new_id(target: Target, job_id: str, client_id: str | None) -> JobId:
    """The id of the job that replaces this one, the same at each call: that of its client id if it
    has one, else an id that no client id has.
    """
    name = f"{target.action}\0{job_id}"
    if target.keeps_client_ids:
        name = f"again\0{job_id}" if client_id is None else client_id
    return ids.client_job_id(target.partition, target.queue, target.job_set, name)


def make_new_job(
    old: JobSubmitted, target: Target, context: JobContext, classes: Collection[str]
) -> JobSubmitted | str:
    """The new job, or the reason why it cannot be made.

    Its gang has a new name, since the old gang perhaps still exists, and only the members that are
    resubmitted. A job that waited for a job of the action waits for the replacement.
    """
    if old.group is not None:
        return f"it is a member of group {old.group.group}; submit the group again"
    renewed = renew_terms(old, target.allow, target.secrets, classes)
    if isinstance(renewed, str):
        return renewed
    after: list[JobId] = []
    for job_id in old.after:
        if context.items.get(job_id, True) and job_id not in context.succeeded:
            kind = "array" if ids.is_array_id(job_id) else "job"
            return (
                f"it waits for {kind} {job_id}, which has not succeeded and is not resubmitted with"
                " it"
            )
        if not context.items.get(job_id, True):
            after.append(context.ids[job_id])
    shape, spec = _increase_memory(renewed.shape, bytes(renewed.spec), target.memory_factor)
    client_id = make_next_client_id(old.client_id, old.annotations)
    return msgspec.structs.replace(
        old,
        shape=shape,
        spec=msgspec.Raw(spec),
        job_id=make_new_id(target, old.job_id, client_id),
        client_id=client_id if target.keeps_client_ids else None,
        after=tuple(after),
        gang=_make_gang(old.gang, target, context),
        annotations={**old.annotations, events.RESUBMITTED_FROM: old.job_id},
    )


def renew_terms(
    old: JobSubmitted,
    allow: AllowList | None,
    secrets: QueueSecrets,
    classes: Collection[str],
) -> JobSubmitted | str:
    """The job with the current secrets of its queue, and within what that permits now; or the
    reason why it cannot be submitted.
    """
    if old.priority_class not in classes:
        return f"its priority class {old.priority_class!r} is no longer configured"
    spec = secret_variables.refresh_secrets(bytes(old.spec), secrets)
    if isinstance(spec, str):
        return spec
    shape = old.shape
    if allow is not None:
        document = msgspec.json.decode(old.spec, type=dict[str, object])
        errors = policy.check_allowed(allow, old.namespace, document)
        if errors:
            return f"its {errors[0].pointer.strip('/')} {errors[0].detail}"
        if allow.nodes is not None:
            shape = policy.restrict_to_nodes(shape, allow.nodes)
    return msgspec.structs.replace(old, spec=msgspec.Raw(spec), shape=shape)


def _increase_memory(shape: msgspec.Raw, spec: bytes, factor: float) -> tuple[msgspec.Raw, bytes]:
    """The shape and the pod spec with this many times the memory."""
    decoded = shapes.decode(shape)
    before = decoded.requests.get(quantities.MEMORY, 0)
    after = min(round(before * factor), quantities.AMOUNT_MAX)
    if after == before:
        return shape, spec
    requests = decoded.requests | {quantities.MEMORY: after}
    scaled = quantities.scale_spec_memory(spec, before, after)
    return shapes.encode(msgspec.structs.replace(decoded, requests=requests)), bytes(scaled)


def _make_gang(old: Gang | None, target: Target, context: JobContext) -> events.Gang | None:
    if old is None:
        return None
    size = max(1, min(old.size, context.members))
    return msgspec.structs.replace(
        old,
        name=f"{old.name[:GANG_NAME_MAX]}~{target.action[:12]}",
        size=size,
        min_size=None if old.min_size is None else min(old.min_size, size),
        member=context.member,
    )
