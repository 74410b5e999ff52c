"""How pods end, in the categories that policies use."""

from typing import Any

import pytest

from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.backends.kubernetes.domain import pod_manifest
from fairlead_executor.backends.kubernetes.domain.pod_status import describe_pod
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import EndKind, Phase
from tests.unit.executor.kubernetes.objects import RUN, Json, make_pod, terminated

DELETED: Json = {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}
STARTED_MS = 1767225605000


def end_of(status: Json, **metadata: Any) -> pods.End:  # `Any`: JSON
    end = describe_pod(RUN, make_pod(status, **metadata)).end
    assert end is not None
    return end


def failed(*containers: Json, **status: Any) -> Json:  # `Any`: JSON
    return {"phase": "Failed", "containerStatuses": list(containers), **status}


def test_a_pod_is_created_until_a_container_runs() -> None:
    assert describe_pod(RUN, make_pod()).phase is Phase.CREATED
    running = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}}
    pod = describe_pod(RUN, make_pod({"phase": "Running", "containerStatuses": [running]}))
    assert (pod.phase, pod.started_ms) == (Phase.RUNNING, STARTED_MS)


def test_a_pod_that_succeeded_says_when_it_ended() -> None:
    status = {"phase": "Succeeded", "containerStatuses": [terminated(0, "Completed")]}
    pod = describe_pod(RUN, make_pod(status))
    assert pod.end == pods.SUCCEEDED
    assert (pod.started_ms, pod.ended_ms) == (STARTED_MS, STARTED_MS + 4000)


def test_the_exit_code_of_the_first_container_is_that_of_the_command() -> None:
    assert end_of(failed(terminated(3))) == pods.failed(
        FailureCategory.EXIT_CODE, "the command ended with exit code 3", 3
    )


def test_of_several_containers_the_first_that_failed_counts() -> None:
    status = failed(terminated(143, at=9), terminated(5, name="worker", at=7))
    end = end_of(status)
    assert (end.exit_code, end.reason) == (5, "the container worker ended with exit code 5")


def test_a_container_that_was_killed_for_memory_counts_first() -> None:
    status = failed(terminated(1, at=6), terminated(137, "OOMKilled", "worker", at=8))
    end = end_of(status)
    assert (end.category, end.exit_code) == (FailureCategory.OOM, 137)


def test_a_container_that_its_node_has_lost_is_not_the_jobs_failure() -> None:
    end = end_of(failed(terminated(137, "ContainerStatusUnknown")))
    assert end.category is FailureCategory.NODE_LOST


def test_an_init_container_can_be_the_one_that_failed() -> None:
    end = end_of({"phase": "Failed", "initContainerStatuses": [terminated(4, name="fetch")]})
    assert (end.category, end.exit_code) == (FailureCategory.EXIT_CODE, 4)
    assert "fetch" in end.reason


@pytest.mark.parametrize(
    ("reason", "category"),
    [
        ("Evicted", FailureCategory.EVICTED),
        ("DeadlineExceeded", FailureCategory.DEADLINE),
        ("NodeLost", FailureCategory.NODE_LOST),
        ("NodeShutdown", FailureCategory.EVICTED),
    ],
)
def test_the_reason_of_kubernetes_gives_the_category(
    reason: str, category: FailureCategory
) -> None:
    end = end_of(failed(terminated(137), reason=reason, message="because"))
    assert (end.kind, end.category) == (EndKind.FAILED, category)
    assert end.reason == f"{reason}: because"


def test_a_pod_that_was_evicted_through_the_api_says_so() -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "drained",
    }
    end = end_of(failed(terminated(143), conditions=[condition]), **DELETED)
    assert end.category is FailureCategory.EVICTED
    assert "drained" in end.reason


@pytest.mark.parametrize("reason", ["OutOfcpu", "UnexpectedAdmissionError", "NodeAffinity"])
def test_a_pod_that_the_node_refused_is_returned(reason: str) -> None:
    end = end_of({"phase": "Failed", "reason": reason, "message": "taken"})
    assert end.kind is EndKind.RETURNED
    assert reason in end.reason


def test_a_pod_that_somebody_deleted_says_so() -> None:
    end = end_of(failed(terminated(143)), **DELETED)
    assert end.category is FailureCategory.POD_DELETED


def test_a_pod_that_was_deleted_and_succeeded_all_the_same_has_succeeded() -> None:
    status = {"phase": "Succeeded", "containerStatuses": [terminated(0)]}
    assert end_of(status, **DELETED) == pods.SUCCEEDED


def test_a_pod_that_was_stopped_ends_as_the_stop_says_also_if_its_exit_code_is_0() -> None:
    wanted = pods.stopped("preempted")
    annotations = {pod_manifest.RUN_ENDS_AS: pod_manifest.encode_end(wanted)}
    status = {"phase": "Succeeded", "containerStatuses": [terminated(0)]}
    assert end_of(status, annotations=annotations, **DELETED) == wanted
    # Without a deletion it ended by itself before the stop reached it.
    assert end_of(status, annotations=annotations) == pods.SUCCEEDED


def test_a_deleted_pod_lives_until_its_node_has_confirmed() -> None:
    running = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}}
    status = {"phase": "Running", "containerStatuses": [running]}
    pod = describe_pod(RUN, make_pod(status, **DELETED))
    assert pod.live
    assert pod.stopping
    confirmed: Json = {**DELETED, "deletionGracePeriodSeconds": 0}
    assert not describe_pod(RUN, make_pod(status, **confirmed)).live


def test_a_deleted_pod_that_was_on_no_node_has_ended() -> None:
    assert not describe_pod(RUN, make_pod(spec={"nodeName": ""}, **DELETED)).live


def test_a_pod_without_containers_ended_when_it_was_deleted_not_when_its_grace_ends() -> None:
    pod = describe_pod(RUN, make_pod({"phase": "Failed"}, **DELETED))
    assert pod.ended_ms == STARTED_MS - 5_000 + 30_000


def test_a_pod_that_rules_out_its_run_has_ended_without_a_start() -> None:
    end = pods.lost("restarted")
    annotations = {pod_manifest.NEVER_STARTS: pod_manifest.encode_end(end)}
    pod = describe_pod(RUN, make_pod(annotations=annotations))
    assert (pod.phase, pod.end, pod.started_ms) == (Phase.ENDED, end, 0)


def test_an_annotation_that_is_no_end_changes_nothing() -> None:
    pod = make_pod(annotations={pod_manifest.NEVER_STARTS: "{", pod_manifest.RUN_ENDS_AS: "[]"})
    assert describe_pod(RUN, pod).phase is Phase.CREATED
