"""Desired runs on a cluster: the records of `fairlead.leases.<executor>`, keyed by run id."""

from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.ids import JobId, RunId, run_id
from fairlead_common.domain.records.events import FailureCategory, NetworkObject
from fairlead_common.domain.records.value_ranges import Int32, RunNumber, Seconds
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import leases


class DesiredState(StrEnum):
    """What the scheduler wants of a run."""

    RUN = "run"
    STOP = "stop"


class Lease(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One live run. `desired_state` STOP means: end it within `grace_s`, for this `reason`.

    A run that is stopped with a `failure` is reported as failed in that category, not as stopped.

    `spec` is the pod spec (empty with STOP, because a running pod already has it). `after` names
    runs that must have ended before this one is created. `env` is what Fairlead adds to the
    environment of its containers. `services` and `ingresses` are created together with the run.
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
    spec: msgspec.Raw = msgspec.Raw(b"")


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Lease)


def decode(value: bytes) -> Lease:
    """The lease of one record. Raises `msgspec.DecodeError`."""
    return _decoder.decode(value)


def record(executor: str, lease: Lease) -> Record:
    """The record that makes or changes this lease."""
    key = run_id(lease.job_id, lease.run)
    return Record(leases(executor).name, key, _encoder.encode(lease))


def deletion_record(executor: str, run: RunId) -> Record:
    """The record that ends the lease of this run."""
    return Record(leases(executor).name, run, None)
