"""From a job that was submitted once to the one that is submitted again in its place. Pure."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import Gang, JobSubmitted
from fairlead_submit.domain import policy, secret_variables
from fairlead_submit.domain.policy import Allow
from fairlead_submit.domain.request_types import CLIENT_ID_MAX
from fairlead_submit.domain.secret_variables import QueueSecrets

GANG_NAME_MAX: Final = 200


class Target(msgspec.Struct, frozen=True):
    """Where the new jobs of an action belong, and whether they keep client ids with a number."""

    action: str
    queue: str
    job_set: str
    partition: int
    allow: Allow | None = None
    keeps_client_ids: bool = False
    secrets: QueueSecrets = secret_variables.NONE


class Around(msgspec.Struct, frozen=True):
    """What a job's place among the others of its action says of it.

    `members`: how many of its gang are in the action, `member` how many of these before it.
    `items`: jobs it waits for that are in the action, with whether they were refused. `succeeded`:
    jobs it waits for that are done. `ids`: of the jobs in the places of `items`.
    """

    members: int
    member: int
    items: Mapping[str, bool]
    succeeded: Collection[str]
    ids: Mapping[str, JobId]


def action_id(queue: str, job_set: str, client_id: str) -> str:
    """The id of the action that a client's own id names within a queue and job set."""
    text = f"{queue}\0{job_set}\0{client_id}".encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def next_client_id(client_id: str | None, annotations: Mapping[str, str]) -> str | None:
    """The client id of a job that was submitted as `trial` and is tried again: `trial~2`, then
    `trial~3`. None where there is none, or it would be too long.
    """
    if client_id is None:
        return None
    name, tilde, number = client_id.rpartition("~")
    if not (tilde and number.isdecimal() and events.RESUBMITTED_FROM in annotations):
        name, number = client_id, "1"
    made = f"{name}~{int(number) + 1}"
    return made if len(made) <= CLIENT_ID_MAX else None


def new_id(target: Target, job_id: str, client_id: str | None) -> JobId:
    """The id of the job that takes this one's place: always the same. That of the client id where
    it keeps one; else no client id is like it.
    """
    named = f"{target.action}\0{job_id}"
    if target.keeps_client_ids:
        named = f"again\0{job_id}" if client_id is None else client_id
    return ids.client_job_id(target.partition, target.queue, target.job_set, named)


def again(
    old: JobSubmitted, target: Target, around: Around, classes: Collection[str]
) -> JobSubmitted | str:
    """The new job, or why there is none.

    A gang has another name, as the first one may still be there, and no more members than are
    submitted again. What waited for a job of the action waits for the one in its place.
    """
    if old.priority_class not in classes:
        return f"its class {old.priority_class!r} is no longer configured"
    after: list[JobId] = []
    for job_id in old.after:
        if around.items.get(job_id, True) and job_id not in around.succeeded:
            return f"it waits for job {job_id}, which is neither done nor submitted again with it"
        if not around.items.get(job_id, True):
            after.append(around.ids[job_id])
    spec = secret_variables.again(bytes(old.spec), target.secrets)
    if isinstance(spec, str):
        return spec
    shape = old.shape
    if target.allow is not None:
        document = msgspec.json.decode(old.spec, type=dict[str, object])
        closed = policy.check(target.allow, old.namespace, document)
        if closed:
            return f"its {closed[0].pointer.strip('/')} {closed[0].detail}"
        if target.allow.nodes is not None:
            shape = policy.on_nodes(shape, target.allow.nodes)
    client_id = next_client_id(old.client_id, old.annotations)
    return msgspec.structs.replace(
        old,
        shape=shape,
        spec=msgspec.Raw(spec),
        job_id=new_id(target, old.job_id, client_id),
        client_id=client_id if target.keeps_client_ids else None,
        after=tuple(after),
        gang=_gang(old.gang, target, around),
        annotations={**old.annotations, events.RESUBMITTED_FROM: old.job_id},
    )


def _gang(old: Gang | None, target: Target, around: Around) -> events.Gang | None:
    if old is None:
        return None
    size = max(1, min(old.size, around.members))
    return msgspec.structs.replace(
        old,
        name=f"{old.name[:GANG_NAME_MAX]}~{target.action[:12]}",
        size=size,
        min_size=None if old.min_size is None else min(old.min_size, size),
        member=around.member,
    )
