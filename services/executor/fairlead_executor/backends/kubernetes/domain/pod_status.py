"""What the status of a Kubernetes pod means for its run: its phase, and how it ended. Pure."""

from typing import Final

import msgspec

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.timestamps import parse_rfc3339
from fairlead_executor.backends.kubernetes.domain import pod_manifest
from fairlead_executor.backends.kubernetes.domain.api_objects import (
    ContainerStatus,
    PodObject,
    Terminated,
    find_condition,
)
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End, Phase, Pod

MESSAGE_LENGTH_MAX: Final = 1_000
_OOM: Final = "OOMKilled"
_COULD_NOT_START: Final = frozenset({"StartError", "ContainerCannotRun"})
_STATUS_UNKNOWN: Final = "ContainerStatusUnknown"
"""The node restarted and has lost the container."""
_NODE_LOST: Final = frozenset({"NodeLost", "DeletionByPodGC", "DeletionByTaintManager"})
_EVICTED: Final = frozenset(
    {
        "Evicted",
        "EvictionByEvictionAPI",
        "Preempting",
        "PreemptionByScheduler",
        "TerminationByKubelet",
        "Terminated",
        "NodeShutdown",
        "Shutdown",
    }
)
_end_decoder: Final = msgspec.json.Decoder(End)


def describe_pod(run: RunId, pod: PodObject) -> Pod:
    """The pod as the executor sees it: the same object always gives the same."""
    metadata, status = pod.metadata, pod.status
    node = metadata.annotations.get(pod_manifest.NODE, "") or pod.spec.node_name
    grace_s = pod.spec.termination_grace_period_seconds
    grace_s = 30 if grace_s is None else grace_s
    never = _decode_end(metadata.annotations.get(pod_manifest.NEVER_STARTS))
    if never is not None:
        created_ms = _time_ms(metadata.creation_timestamp)
        return Pod(run, Phase.ENDED, ended_ms=created_ms, end=never)
    started_ms = _started_ms(pod)
    stopping = metadata.deletion_timestamp is not None
    if has_ended(pod):
        phase, end, ended_ms = Phase.ENDED, find_end(pod), max(started_ms, _ended_ms(pod))
    else:
        phase, end, ended_ms = Phase.CREATED, None, 0
        if status.phase == "Running" and started_ms:
            phase = Phase.RUNNING
    return Pod(
        run,
        phase,
        node,
        started_ms=started_ms if phase is not Phase.CREATED else 0,
        ended_ms=ended_ms,
        stopping=stopping,
        grace_s=grace_s,
        end=end,
        address=status.pod_ip if phase is not Phase.CREATED else "",
    )


def has_ended(pod: PodObject) -> bool:
    """Whether no container of the pod runs or will run.

    A deleted pod has ended when it was on no node yet, or when its kubelet has confirmed the
    deletion, which sets its grace period to 0. Deletion by force sets it as well.
    """
    if pod.status.phase in ("Succeeded", "Failed"):
        return True
    metadata = pod.metadata
    if metadata.deletion_timestamp is None:
        return False
    return not pod.spec.node_name or metadata.deletion_grace_period_seconds == 0


def find_end(pod: PodObject) -> End:
    """How a pod that has ended did so."""
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None:
        wanted = _decode_end(metadata.annotations.get(pod_manifest.RUN_ENDS_AS))
        if wanted is not None:
            return wanted
    if pod.status.phase == "Succeeded":
        return pods.SUCCEEDED
    reported = _find_reported_cause(pod)
    if reported is not None:
        return reported
    if metadata.deletion_timestamp is not None:
        return pods.failed(
            FailureCategory.POD_DELETED, "its pod was deleted by somebody other than Fairlead"
        )
    return _find_failed_container(pod)


def _find_reported_cause(pod: PodObject) -> End | None:
    """The end that Kubernetes itself gives a reason for."""
    status = pod.status
    disruption = find_condition(status.conditions, "DisruptionTarget")
    reasons = {status.reason}
    message = status.message
    if disruption is not None and disruption.status == "True":
        reasons.add(disruption.reason)
        message = message or disruption.message
    reason = status.reason or next(iter(reasons - {""}), "")
    text = _shorten(f"{reason}: {message}" if message else reason)
    if reasons & _NODE_LOST:
        return pods.failed(FailureCategory.NODE_LOST, text)
    if "DeadlineExceeded" in reasons:
        return pods.failed(FailureCategory.DEADLINE, text)
    if reasons & _EVICTED:
        return pods.failed(FailureCategory.EVICTED, text)
    if reason and not _started_ms(pod):
        # The kubelet did not admit the pod: another pod took the capacity, the node changed.
        return pods.returned(f"the node refused the pod: {text}")
    return None


def _find_failed_container(pod: PodObject) -> End:
    """The end of the container that made the pod fail: the first that failed, init ones before."""
    status = pod.status
    ended = [
        (item, item.state.terminated)
        for item in (*status.init_container_statuses, *status.container_statuses)
        if item.state.terminated is not None and item.state.terminated.exit_code != 0
    ]
    if not ended:
        text = _shorten(status.message or "no container reports why")
        return pods.failed(FailureCategory.START, f"the pod failed: {text}")
    killed = [each for each in ended if each[1].reason == _OOM]
    container, state = min(killed or ended, key=lambda each: _time_ms(each[1].finished_at))
    return _describe_failure(container, state, is_first=_is_first(pod, container))


def _is_first(pod: PodObject, container: ContainerStatus) -> bool:
    return bool(pod.spec.containers) and pod.spec.containers[0].name == container.name


def _describe_failure(container: ContainerStatus, state: Terminated, *, is_first: bool) -> End:
    who = "the command" if is_first else f"the container {container.name}"
    message = f": {state.message.strip()}" if state.message.strip() else ""
    if state.reason == _OOM:
        text = f"{who} exceeded its memory limit and was killed{message}"
        return pods.failed(FailureCategory.OOM, _shorten(text), state.exit_code)
    if state.reason in _COULD_NOT_START:
        text = f"{who} could not be started{message}"
        return pods.failed(FailureCategory.START, _shorten(text), state.exit_code)
    if state.reason == _STATUS_UNKNOWN:
        return pods.failed(FailureCategory.NODE_LOST, _shorten(f"{who} is unknown{message}"))
    text = f"{who} ended with exit code {state.exit_code}{message}"
    return pods.failed(FailureCategory.EXIT_CODE, _shorten(text), state.exit_code)


def _started_ms(pod: PodObject) -> int:
    """When its first container started (ms); 0: none did. Init containers do not count."""
    found = [
        _time_ms(each.started_at)
        for item in pod.status.container_statuses
        for each in (item.state.running, item.state.terminated)
        if each is not None and each.started_at
    ]
    return min((time_ms for time_ms in found if time_ms), default=0)


def _ended_ms(pod: PodObject) -> int:
    """When its last container ended (ms), else when a condition changed or it was deleted.

    The deletion timestamp is the time at which the grace period ends.
    """
    finished = [
        _time_ms(item.state.terminated.finished_at)
        for item in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        if item.state.terminated is not None
    ]
    changed = [_time_ms(item.last_transition_time) for item in pod.status.conditions]
    metadata = pod.metadata
    grace_ms = 1000 * (metadata.deletion_grace_period_seconds or 0)
    deleted_ms = _time_ms(metadata.deletion_timestamp) - grace_ms
    return (
        max(finished, default=0)
        or max(changed, default=0)
        or max(deleted_ms, _time_ms(metadata.creation_timestamp))
    )


def _time_ms(text: str | None) -> int:
    """A time of Kubernetes (ms); 0 if it is missing."""
    return parse_rfc3339(text) if text else 0


def _shorten(text: str) -> str:
    if len(text) <= MESSAGE_LENGTH_MAX:
        return text
    return f"{text[: MESSAGE_LENGTH_MAX - 4]} ..."


def _decode_end(text: str | None) -> End | None:
    """The end in an annotation; None for a text that is not one, which users could write."""
    if not text:
        return None
    try:
        return _end_decoder.decode(text)
    except msgspec.DecodeError:
        return None
