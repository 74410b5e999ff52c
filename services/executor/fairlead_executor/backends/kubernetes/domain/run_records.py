"""What is known and wanted of one run on the API server, and which request comes next. Pure.

A record is compared with the newest version of its pod, so a request that was lost, repeated or
sent by a former executor changes nothing in the end. `next_operation` is that comparison.
"""

from enum import Enum, auto
from typing import Final

import msgspec

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_common.domain.timestamps import parse_rfc3339
from fairlead_executor.backends.kubernetes.domain import (
    api_objects,
    network_objects,
    pod_manifest,
    pod_status,
)
from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End, Phase, Pod

GRACE_S_MIN: Final = 1
"""A grace period of 0 deletes a pod by force, without waiting for its node."""
DELETED: Final = "its pod was deleted by somebody other than Fairlead"


class Operation(Enum):
    """A request to the API server."""

    CREATE = auto()
    CREATE_SECRET = auto()
    CREATE_NETWORK_OBJECTS = auto()
    CREATE_PLACEHOLDER = auto()
    """Create a pod that is never scheduled, under the name of a run that must never start."""
    RECORD_END = auto()
    """Write to the pod how the run ends, before it is deleted."""
    DELETE = auto()
    DELETE_BY_FORCE = auto()
    RELEASE = auto()
    """Remove the finalizer of a pod whose end was reported, and delete the pod."""


class StopRequest(msgspec.Struct, frozen=True):
    """The run is to end within this grace, and is then reported so."""

    grace_s: int
    end: End
    by_force: bool = False


class RunRecord(msgspec.Struct, kw_only=True):
    """One run. Only `KubernetesCluster` changes it.

    `lease`: to be created from, until the API server has the pod. `secrets`: to be created after
    the pod. `has_network_objects`: the services and ingresses of the pod are to be created.
    `observed`: the newest version of the pod. `prevented_end`: the end of a run that must never
    start; its pod has ended once that end is recorded on the API server. `stop`: the first end and
    the shortest grace of all stops; `deleted_grace_s`: the shortest grace of accepted deletions.
    `ended`: the end, which never changes. `removed`: its end was reported; the pod is retained for
    its logs until `release_requested`. Once it is `released`, it is only deleted again if it does
    not disappear. `waiting_reason` and `waiting_since_ms`: why it does not start.
    """

    run: RunId
    namespace: str = ""
    lease: Lease | None = None
    secrets: dict[str, str] = {}
    has_network_objects: bool = False
    observed: PodObject | None = None
    prevented_end: End | None = None
    stop: StopRequest | None = None
    deleted_grace_s: int | None = None
    ended: Pod | None = None
    removed: bool = False
    release_requested: bool = False
    released: bool = False
    waiting_reason: str | None = None
    waiting_since_ms: int = 0
    in_progress: bool = False
    failures: int = 0
    reported: Pod | None = None


def next_operation(record: RunRecord, now_ms: int, stuck_terminating_s: int) -> Operation | None:
    """The request that brings the API server closer to what is wanted of the run."""
    pod = record.observed
    if pod is None:
        if record.ended is not None:
            return None
        if find_prevented_end(record) is not None:
            return Operation.CREATE_PLACEHOLDER
        return Operation.CREATE if record.lease is not None else None
    due_ms = force_due_ms(record, stuck_terminating_s)
    is_stuck = due_ms is not None and due_ms <= now_ms
    if record.release_requested and not record.released:
        return Operation.RELEASE
    if record.released:
        return Operation.DELETE_BY_FORCE if is_stuck else None
    if record.ended is not None:
        return None
    if record.secrets:
        return Operation.CREATE_SECRET
    stop = record.stop
    if record.has_network_objects and stop is None:
        return Operation.CREATE_NETWORK_OBJECTS
    if stop is not None:
        if pod_manifest.RUN_ENDS_AS not in pod.metadata.annotations:
            return Operation.RECORD_END
        if stop.by_force and record.deleted_grace_s != 0:
            return Operation.DELETE_BY_FORCE
        if record.deleted_grace_s is None or stop.grace_s < record.deleted_grace_s:
            return Operation.DELETE
    return Operation.DELETE_BY_FORCE if is_stuck else None


def find_prevented_end(record: RunRecord) -> End | None:
    """The end of a run that must not start; also of one that was stopped before it was created."""
    if record.prevented_end is None and record.stop is not None and record.observed is None:
        return record.stop.end
    return record.prevented_end


def force_due_ms(record: RunRecord, stuck_terminating_s: int) -> int | None:
    """When a pod that is being deleted is deleted by force (ms).

    An ended pod is retained until it is released; then nothing holds it but finalizers of others.
    """
    pod = record.observed
    if pod is None or pod.metadata.deletion_timestamp is None:
        return None
    if record.ended is not None and (not record.released or pod.metadata.finalizers):
        return None
    # The deletion timestamp is the time at which the grace period ends.
    return parse_rfc3339(pod.metadata.deletion_timestamp) + 1000 * stuck_terminating_s


def describe_run(record: RunRecord) -> Pod | None:
    """The pod that the executor sees, if there is one to see."""
    if record.removed:
        return None
    if record.ended is not None:
        return record.ended
    if record.observed is not None:
        pod = pod_status.describe_pod(record.run, record.observed)
        if record.stop is not None and pod.live and not pod.stopping:
            return msgspec.structs.replace(pod, stopping=True)
        return pod
    lease = record.lease
    if lease is None:
        return Pod(record.run, Phase.CREATED, stopping=True)
    stopping = find_prevented_end(record) is not None
    return Pod(record.run, Phase.CREATED, lease.node, stopping=stopping, grace_s=lease.grace_s)


def observe(record: RunRecord, pod: PodObject) -> bool:
    """Note a version of the pod, unless a newer one is known; whether it was noted."""
    known = record.observed
    if known is not None and not api_objects.is_newer(pod.metadata, known.metadata):
        return False
    if known is None:
        record.has_network_objects = network_objects.ANNOTATION in pod.metadata.annotations
    record.observed = pod
    record.namespace = pod.metadata.namespace
    record.lease = None
    record.prevented_end = None
    if pod_manifest.FINALIZER not in pod.metadata.finalizers and record.removed:
        record.release_requested = True
    if record.ended is None and not record.removed:
        seen = pod_status.describe_pod(record.run, pod)
        if not seen.live:
            record.ended = seen
    return True


def observe_deletion(record: RunRecord, pod: PodObject | None, now_ms: int) -> None:
    """Note that the pod does not exist any more; `pod`: its last version, if it is known."""
    last = pod or record.observed
    record.observed = None
    record.lease = None
    record.secrets = {}
    if record.ended is not None or last is None:
        return
    seen = pod_status.describe_pod(record.run, last)
    if not seen.live:
        record.ended = seen
        return
    end = (
        record.stop.end
        if record.stop is not None
        else pods.failed(FailureCategory.POD_DELETED, DELETED)
    )
    record.ended = msgspec.structs.replace(
        seen, phase=Phase.ENDED, ended_ms=max(now_ms, seen.started_ms), end=end
    )


def request_stop(record: RunRecord, grace_s: int, end: End, *, by_force: bool = False) -> None:
    """Note that the run is to end: the first end and the shortest grace count."""
    grace_s = max(GRACE_S_MIN, grace_s)
    if record.stop is None:
        record.stop = StopRequest(grace_s, end, by_force)
    else:
        record.stop = StopRequest(
            min(grace_s, record.stop.grace_s), record.stop.end, by_force or record.stop.by_force
        )


def refuse(record: RunRecord, end: End, now_ms: int) -> None:
    """Note that the API server refused the pod for good, so that the run never starts."""
    record.lease = None
    record.secrets = {}
    record.ended = Pod(record.run, Phase.ENDED, ended_ms=now_ms, end=end)
