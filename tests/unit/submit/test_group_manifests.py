"""Manifests that become groups: JobSets, Jobs of Volcano, QueueJobs."""

from typing import Any

import pytest

from fairlead_common.domain.errors import FieldError
from fairlead_submit.domain.manifests.conversion import ConvertedManifests, convert_manifests
from fairlead_submit.domain.manifests.manifest_fields import FieldUse

Manifest = dict[str, Any]  # `Any`: JSON

CONTAINER = {"name": "main", "image": "busybox", "command": ["true"]}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
POD = {"podSpec": {"containers": [CONTAINER]}}


def manifest(version: str, kind: str, spec: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}


def volcano(*tasks: Manifest, **spec: object) -> Manifest:
    return manifest("batch.volcano.sh/v1alpha1", "Job", {"tasks": list(tasks), **spec})


def task(name: str, replicas: int, **more: object) -> Manifest:
    return {"name": name, "replicas": replicas, "template": TEMPLATE, **more}


def job_set(*jobs: Manifest, **spec: object) -> Manifest:
    return manifest("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": list(jobs), **spec})


def replicated(name: str, replicas: int, **job: object) -> Manifest:
    template = {"spec": {"template": TEMPLATE, **job}}
    return {"name": name, "replicas": replicas, "template": template}


def queue_job(least: int, *replicas: int, **scheduling: object) -> Manifest:
    tasks = [{"replicas": count, "template": TEMPLATE} for count in replicas]
    spec = {"schedSpec": {"minAvailable": least, **scheduling}, "taskSpecs": tasks}
    return manifest("arbitrator.incubator.k8s.io/v1", "QueueJob", spec)


def convert(*manifests: Manifest) -> ConvertedManifests:
    return convert_manifests(manifests, "q", None, 100)


def converted(given: Manifest) -> Manifest:
    """The group, where nothing is refused."""
    made = convert(given)
    assert made.errors == []
    (group,) = made.conversion.groups
    return group


def sizes(group: Manifest) -> list[tuple[str, int, int]]:
    return [(role["name"], role["min"], role["max"]) for role in group["roles"]]


def refused(given: Manifest) -> list[str]:
    """The pointers of what is refused."""
    return [error.pointer for error in convert(given).errors]


def test_tasks_of_volcano_become_roles() -> None:
    group = converted(volcano(task("ps", 2), task("worker", 4, minAvailable=1), maxRetry=5))
    assert sizes(group) == [("ps", 2, 2), ("worker", 1, 4)]
    assert (group["clientId"], group["restartLimit"]) == ("train", 5)
    assert group["roles"][0]["template"] == POD


def test_the_minimum_of_a_job_is_spread_over_its_tasks_in_their_order() -> None:
    group = converted(volcano(task("ps", 2), task("worker", 4), minAvailable=3))
    assert sizes(group) == [("ps", 2, 2), ("worker", 1, 4)]


@pytest.mark.parametrize(
    ("action", "becomes"),
    [("RestartJob", "restartGroup"), ("AbortJob", "fail"), ("RestartTask", "restartMember")],
)
def test_the_policy_for_failed_pods_becomes_that_for_members(action: str, becomes: str) -> None:
    policy = {"event": "PodFailed", "action": action}
    assert converted(volcano(task("a", 1), policies=[policy]))["onMemberFailure"] == becomes


def test_the_task_that_completes_a_job_completes_the_group() -> None:
    policy = {"event": "TaskCompleted", "action": "CompleteJob"}
    group = converted(volcano(task("ps", 1), task("worker", 1, policies=[policy])))
    assert group["completion"] == {"roles": ["worker"]}


def test_the_queue_of_a_volcano_job_is_the_queue() -> None:
    made = convert_manifests([volcano(task("a", 1), queue="physics")], None, None, 100)
    assert (made.conversion.queue, made.conversion.job_set) == ("physics", "train")


def test_a_job_set_has_a_role_for_each_replicated_job() -> None:
    group = converted(
        job_set(
            replicated("driver", 1),
            replicated("workers", 2, parallelism=3, completions=3, backoffLimit=0),
            failurePolicy={"maxRestarts": 4},
            successPolicy={"operator": "All", "targetReplicatedJobs": ["driver"]},
        )
    )
    assert sizes(group) == [("driver", 1, 1), ("workers", 6, 6)]
    assert group["roles"][1]["template"] == {**POD, "retry": {"limit": 0}}
    assert (group["onMemberFailure"], group["restartLimit"]) == ("restartGroup", 4)
    assert group["completion"] == {"roles": ["driver"]}


def test_a_job_set_without_a_failure_policy_fails_with_a_member() -> None:
    group = converted(job_set(replicated("a", 1)))
    assert group["onMemberFailure"] == "fail"
    assert "restartLimit" not in group


def test_a_job_set_can_start_in_order_and_have_host_names() -> None:
    group = converted(
        job_set(
            replicated("driver", 1),
            replicated("worker", 2),
            startupPolicy={"startupPolicyOrder": "InOrder"},
            network={"enableDNSHostnames": True, "subdomain": "x"},
        )
    )
    assert group["startup"] == ["driver", "worker"]
    assert group["network"] == {"headlessService": True}
    assert not {"startup", "network"} & converted(job_set(replicated("a", 1))).keys()


def test_any_of_the_jobs_can_complete_a_job_set() -> None:
    policy = {"operator": "Any", "targetReplicatedJobs": ["a"]}
    group = converted(job_set(replicated("a", 2), successPolicy=policy))
    assert group["completion"] == {"roles": ["a"], "count": 1}


def test_tasks_of_a_queue_job_share_its_minimum_and_node_selector() -> None:
    group = converted(queue_job(3, 2, 2, nodeSelector={"disk": "ssd"}, priorityClassName="high"))
    assert sizes(group) == [("task-0", 2, 2), ("task-1", 1, 2)]
    assert group["roles"][1]["template"]["podSpec"]["nodeSelector"] == {"disk": "ssd"}
    assert (group["priorityClass"], group["onMemberFailure"]) == ("high", "restartMember")


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (volcano(), "/manifests/0/spec/tasks"),
        (volcano(task("a", 101)), "/manifests/0/spec/tasks/0/replicas"),
        (volcano({"name": "a"}), "/manifests/0/spec/tasks/0/template"),
        (
            volcano(task("a", 1), policies=[{"event": "JobUnknown", "action": "AbortJob"}]),
            "/manifests/0/spec/policies/0/event",
        ),
        (job_set(), "/manifests/0/spec/replicatedJobs"),
        (
            job_set(replicated("a", 60, parallelism=2)),
            "/manifests/0/spec/replicatedJobs/0/replicas",
        ),
        (
            job_set({**replicated("a", 1), "dependsOn": [{"name": "b"}]}),
            "/manifests/0/spec/replicatedJobs/0/dependsOn",
        ),
        (queue_job(1), "/manifests/0/spec/taskSpecs"),
    ],
)
def test_what_a_group_cannot_express_is_refused(given: Manifest, pointer: str) -> None:
    assert refused(given) == [pointer]


def test_fields_without_effect_are_reported() -> None:
    given = volcano(task("a", 1), plugins={"svc": []}, schedulerName="volcano", unheardOf=1)
    found = {
        field.pointer.rpartition("/")[2]: field.detail
        for field in convert(given).conversion.fields
        if field.use is FieldUse.IGNORED
    }
    assert set(found) == {"plugins", "schedulerName", "unheardOf"}
    assert found["unheardOf"] == "has no meaning for Fairlead"


def test_groups_and_jobs_are_sent_apart() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER]}}
    (error,) = convert(volcano(task("a", 1)), pod).errors
    assert error.pointer == "/manifests"


def test_errors_of_a_role_are_located_in_its_template() -> None:
    made = convert(volcano(task("a", 1)), job_set(replicated("b", 1)))
    found = made.locate(
        [
            FieldError("/groups/0/roles/0/template/podSpec/containers/0/name", "x"),
            FieldError("/groups/1/roles/0/template/podSpec/volumes", "y"),
            FieldError("/groups/1/clientId", "z"),
        ]
    )
    assert [error.pointer for error in found] == [
        "/manifests/0/spec/tasks/0/template/spec/containers/0/name",
        "/manifests/1/spec/replicatedJobs/0/template/spec/template/spec/volumes",
        "/manifests/1",
    ]
