"""The records of `fairlead.leases.<executor>`: desired runs on a cluster, keyed by run id, and the
live members of groups that have runs there, keyed by `group/<id>`.
"""

from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, JobId, RunId, run_id
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records.events import FailureCategory, NetworkObject
from fairlead_common.domain.records.value_ranges import Int32, RunNumber, Seconds
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import leases


class DesiredState(StrEnum):
    """What the scheduler wants of a run."""

    RUN = "run"
    STOP = "stop"


class LeasedMember(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False
):
    """Which member of a group a run is, and what has to run before it is created.

    `name`: of the group, for people and programs. `service`: on Kubernetes the group has a headless
    service with that name. `starts_after`: roles that must have started
    (rule C4). `master`: the role and the index of the member whose address the run needs in its
    environment, and that must run before; None: it needs none.
    """

    group: GroupId
    name: str
    role: str
    index: Int32
    service: bool = False
    starts_after: tuple[str, ...] = ()
    master: tuple[str, Int32] | None = None


class Lease(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False
):
    """One live run. `desired_state` STOP means: end it within `grace_s`, for this `reason`.

    A run that is stopped with a `failure` is reported as failed in that category, not as stopped.

    `spec` is the pod spec (empty with STOP, because a running pod already has it). `after` names
    runs that must have ended before this one is created. `env` is what Fairlead adds to the
    environment of its containers. `services` and `ingresses` are created together with the run.
    `member`: its place in its group.
    """

    job_id: JobId
    run: RunNumber
    queue: str
    job_set: str
    node: str
    desired_state: DesiredState = msgspec.field(default=DesiredState.RUN, name="wish")
    reason: str = msgspec.field(default="", name="why")
    failure: FailureCategory | None = None
    grace_s: Int32 = 30
    runtime_s_max: Seconds | None = None
    namespace: str = "default"
    after: tuple[RunId, ...] = ()
    env: dict[str, str] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    requests: dict[str, int] = {}
    services: tuple[NetworkObject, ...] = ()
    ingresses: tuple[NetworkObject, ...] = ()
    member: LeasedMember | None = None
    spec: msgspec.Raw = msgspec.Raw(b"")


class LiveMember(msgspec.Struct, frozen=True, array_like=True):
    """A member of a group that has a run, as one row: a group can have 10,000 of them.

    `host`: the name of its node. `address`: where it is reached, "" until its run has started.
    """

    role: str
    index: Int32
    state: JobState
    host: str
    address: str = ""


class GroupMembers(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The live members of a group, in the order of roles and indexes.

    `started`: the roles that run with their minimum, if the group has a startup order.
    `master_ended`: the member at which the others meet has ended, so nobody waits for it.
    """

    group: GroupId
    name: str
    members: tuple[LiveMember, ...] = ()
    started: tuple[str, ...] = ()
    master_ended: bool = False

    def find(self, role: str, index: int) -> LiveMember | None:
        """The live member with that place."""
        return next((m for m in self.members if (m.role, m.index) == (role, index)), None)


GROUP_PREFIX: Final = "group/"
"""The keys of the records of groups begin so; no run id does."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Lease)
_group_decoder: Final = msgspec.json.Decoder(GroupMembers)


def decode(value: bytes) -> Lease:
    """The lease of one record. Raises `msgspec.DecodeError`."""
    return _decoder.decode(value)


def decode_group(value: bytes) -> GroupMembers:
    """The members of one record of a group. Raises `msgspec.DecodeError`."""
    return _group_decoder.decode(value)


def group_of(key: str) -> GroupId | None:
    """The group that a record with this key is about; None for the record of a run."""
    return GroupId(key[len(GROUP_PREFIX) :]) if key.startswith(GROUP_PREFIX) else None


def group_record(executor: str, group: GroupId, members: GroupMembers | None) -> Record:
    """The record that an executor with runs of this group gets; None: it has none any more."""
    value = None if members is None else _encoder.encode(members)
    return Record(leases(executor).name, f"{GROUP_PREFIX}{group}", value)


def record(executor: str, lease: Lease) -> Record:
    """The record that makes or changes this lease."""
    key = run_id(lease.job_id, lease.run)
    return Record(leases(executor).name, key, _encoder.encode(lease))


def deletion_record(executor: str, run: RunId) -> Record:
    """The record that ends the lease of this run."""
    return Record(leases(executor).name, run, None)
