"""Which request comes next for a run, from what is wanted and what the API server has."""

from typing import Any

import msgspec
import pytest

from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.backends.kubernetes.domain import (
    pending_pods,
    pod_manifest,
    refusals,
    run_records,
)
from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject, Status
from fairlead_executor.backends.kubernetes.domain.refusals import Outcome
from fairlead_executor.backends.kubernetes.domain.run_records import Operation, RunRecord
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings, PendingAction
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import EndKind, Phase, Pod
from tests.unit.executor.kubernetes.objects import RUN, Json, make_lease, make_pod, terminated

STUCK_S = 60
END = pods.stopped("preempted")
RUNNING: Json = {
    "phase": "Running",
    "containerStatuses": [
        {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}}
    ],
}
FAILED: Json = {"phase": "Failed", "containerStatuses": [terminated(143)]}
DELETED_MS = 1767225660000
DELETED: Json = {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}


def next_of(record: RunRecord, now_ms: int = 0) -> Operation | None:
    return run_records.next_operation(record, now_ms, STUCK_S)


def shown(record: RunRecord) -> Pod:
    pod = run_records.describe_run(record)
    assert pod is not None
    return pod


def leased() -> RunRecord:
    return RunRecord(run=RUN, namespace="default", lease=make_lease())


def running(**metadata: Any) -> RunRecord:
    record = leased()
    run_records.observe(record, make_pod(RUNNING, **metadata))
    return record


def test_a_lease_is_created_and_then_nothing_is_to_do() -> None:
    record = leased()
    assert next_of(record) is Operation.CREATE
    assert shown(record).phase is Phase.CREATED
    run_records.observe(record, make_pod(RUNNING))
    assert next_of(record) is None
    assert shown(record).phase is Phase.RUNNING


def test_secret_values_follow_their_pod() -> None:
    record = running()
    record.secrets = {"v0": "x"}
    assert next_of(record) is Operation.CREATE_SECRET


def test_a_stop_is_recorded_on_the_pod_before_it_is_deleted() -> None:
    record = running()
    run_records.request_stop(record, 20, END)
    assert shown(record).stopping
    assert next_of(record) is Operation.RECORD_END
    noted = {pod_manifest.RUN_ENDS_AS: pod_manifest.encode_end(END)}
    run_records.observe(record, make_pod(RUNNING, version=2, annotations=noted))
    assert next_of(record) is Operation.DELETE
    record.deleted_grace_s = 20
    run_records.observe(record, make_pod(RUNNING, version=3, annotations=noted, **DELETED))
    assert next_of(record) is None
    run_records.observe(record, make_pod(FAILED, version=4, annotations=noted, **DELETED))
    assert shown(record).end == END


def test_of_several_stops_the_first_end_and_the_shortest_grace_count() -> None:
    record = running(annotations={pod_manifest.RUN_ENDS_AS: pod_manifest.encode_end(END)})
    run_records.request_stop(record, 600, END)
    record.deleted_grace_s = 600
    assert next_of(record) is None
    run_records.request_stop(record, 0, pods.stopped("second"))
    assert next_of(record) is Operation.DELETE
    assert record.stop is not None
    # 0 would delete it by force.
    assert (record.stop.end, record.stop.grace_s) == (END, 1)


def test_a_pod_that_does_not_end_after_its_grace_is_deleted_by_force() -> None:
    record = running(**DELETED)
    assert next_of(record, DELETED_MS + 1000 * STUCK_S - 1) is None
    assert next_of(record, DELETED_MS + 1000 * STUCK_S) is Operation.DELETE_BY_FORCE


def test_a_run_that_was_stopped_before_it_was_created_does_not_start() -> None:
    record = leased()
    run_records.request_stop(record, 0, END)
    assert next_of(record) is Operation.CREATE_PLACEHOLDER
    assert run_records.find_prevented_end(record) == END
    assert shown(record).stopping


def test_a_run_that_was_prevented_has_ended_once_its_pod_says_so() -> None:
    record = RunRecord(run=RUN, prevented_end=END)
    assert next_of(record) is Operation.CREATE_PLACEHOLDER
    assert shown(record).live
    never = {pod_manifest.NEVER_STARTS: pod_manifest.encode_end(END)}
    run_records.observe(record, make_pod(annotations=never))
    assert (shown(record).phase, shown(record).end) == (Phase.ENDED, END)
    assert next_of(record) is None


def test_a_run_that_was_there_all_the_same_is_not_prevented() -> None:
    record = RunRecord(run=RUN, prevented_end=END)
    run_records.observe(record, make_pod(RUNNING))
    assert shown(record).phase is Phase.RUNNING
    assert next_of(record) is None


def test_an_older_version_of_a_pod_changes_nothing() -> None:
    record = leased()
    assert run_records.observe(record, make_pod(FAILED, version=5))
    before = shown(record)
    assert not run_records.observe(record, make_pod(RUNNING, version=4))
    assert shown(record) == before


def test_an_end_never_changes() -> None:
    record = running()
    run_records.observe(record, make_pod(FAILED, version=2))
    before = shown(record)
    run_records.observe(record, make_pod(FAILED, version=3, **DELETED))
    run_records.observe_deletion(record, None, 9)
    assert shown(record) == before


def test_a_pod_that_vanished_was_deleted_by_somebody() -> None:
    record = running()
    run_records.observe_deletion(record, None, 9)
    end = shown(record).end
    assert end is not None
    assert end.category is FailureCategory.POD_DELETED
    assert shown(record).started_ms <= shown(record).ended_ms


def test_a_pod_that_vanished_after_its_stop_ends_as_the_stop_says() -> None:
    record = running()
    run_records.request_stop(record, 1, END)
    run_records.observe_deletion(record, None, 9)
    assert shown(record).end == END


def test_an_ended_pod_is_released_when_it_is_no_longer_retained() -> None:
    record = running()
    run_records.observe(record, make_pod(FAILED, version=2))
    record.removed = True
    assert run_records.describe_run(record) is None
    assert next_of(record) is None
    record.release_requested = True
    assert next_of(record) is Operation.RELEASE
    record.released = True
    assert next_of(record) is None


def released(**metadata: Any) -> RunRecord:
    record = running()
    run_records.observe(record, make_pod(FAILED, version=2, **DELETED, **metadata))
    record.removed = record.release_requested = record.released = True
    return record


def test_a_released_pod_whose_deletion_does_not_complete_is_deleted_by_force() -> None:
    record = released(finalizers=[])
    assert next_of(record, DELETED_MS + 1000 * STUCK_S - 1) is None
    assert next_of(record, DELETED_MS + 1000 * STUCK_S) is Operation.DELETE_BY_FORCE


def test_a_released_pod_that_others_hold_is_left_to_them() -> None:
    record = released(finalizers=["example.com/other"])
    assert next_of(record, DELETED_MS + 1000 * STUCK_S) is None


@pytest.mark.parametrize(
    ("code", "reason", "message", "outcome", "kind"),
    [
        (409, "AlreadyExists", "", Outcome.EXISTS, None),
        (403, "Forbidden", "pods x is forbidden: exceeded quota: q", Outcome.ENDED, "returned"),
        (403, "Forbidden", 'User "u" cannot create resource "pods"', Outcome.ENDED, "returned"),
        (403, "Forbidden", "ValidatingAdmissionPolicy p denied it", Outcome.ENDED, "failed"),
        (422, "Invalid", "spec.containers[0].image: Required value", Outcome.ENDED, "failed"),
        (404, "NotFound", 'namespaces "x" not found', Outcome.NO_NAMESPACE, None),
        (429, "TooManyRequests", "", Outcome.REPEAT, None),
        (500, "InternalError", "", Outcome.REPEAT, None),
        (503, "", "", Outcome.REPEAT, None),
    ],
)
def test_a_refusal_ends_the_run_or_is_tried_again(
    code: int, reason: str, message: str, outcome: Outcome, kind: str | None
) -> None:
    refusal = refusals.read_refusal(code, Status(message, reason, code))
    assert refusal.outcome is outcome
    assert (refusal.end and refusal.end.kind) == kind
    if refusal.end is not None:
        assert message in refusal.end.reason


def waiting(reason: str, message: str = "") -> PodObject:
    state = {"waiting": {"reason": reason, "message": message}}
    return make_pod({"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]})


UNSCHEDULABLE: Json = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available",
        }
    ],
}


@pytest.mark.parametrize(
    ("pod", "kind", "category"),
    [
        (waiting("InvalidImageName"), EndKind.FAILED, FailureCategory.IMAGE_PULL),
        (waiting("ImagePullBackOff"), EndKind.FAILED, FailureCategory.IMAGE_PULL),
        (waiting("CreateContainerConfigError"), EndKind.FAILED, FailureCategory.START),
        (make_pod(UNSCHEDULABLE), EndKind.RETURNED, None),
        (waiting("ContainerCreating"), EndKind.RETURNED, None),
    ],
)
def test_a_pod_that_does_not_start_ends_by_its_rule(
    pod: PodObject, kind: EndKind, category: FailureCategory | None
) -> None:
    why = pending_pods.find_waiting_reason(pod)
    assert why is not None
    rule = pending_pods.choose_rule(why, KubernetesSettings().pending_rules)
    assert rule is not None
    end = pending_pods.describe_end(why, rule)
    assert end is not None
    assert (end.kind, end.category) == (kind, category)
    assert why.message in end.reason


def test_a_pod_that_the_user_gated_may_wait() -> None:
    why = pending_pods.WaitingReason("SchedulingGated")
    rule = pending_pods.choose_rule(why, KubernetesSettings().pending_rules)
    assert rule is not None
    assert rule.action is PendingAction.WAIT
    assert pending_pods.describe_end(why, rule) is None


def test_a_rule_can_ask_for_a_text() -> None:
    rules = KubernetesSettings().pending_rules
    quiet = msgspec.structs.replace(rules[0], reasons=(), text="manifest unknown")
    why = pending_pods.WaitingReason("ErrImagePull", "x: manifest unknown")
    assert pending_pods.choose_rule(why, (quiet, *rules)) is quiet
    other = pending_pods.WaitingReason("ErrImagePull", "timed out")
    assert pending_pods.choose_rule(other, (quiet, *rules)) is not quiet


def test_a_pod_that_runs_waits_for_nothing() -> None:
    assert pending_pods.find_waiting_reason(make_pod(RUNNING)) is None
