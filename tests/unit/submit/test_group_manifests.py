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


def test_as_many_members_as_a_job_needs_to_succeed_complete_the_group() -> None:
    group = converted(volcano(task("a", 2), task("b", 2), minSuccess=3))
    assert group["completion"] == {"roles": ["a", "b"], "count": 3}
    (error,) = convert(volcano(task("a", 1), minSuccess=2)).locate(
        [FieldError("/groups/0/completion/count", "x")]
    )
    assert error.pointer == "/manifests/0/spec/minSuccess"


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
        (volcano(task("a", 1, dependsOn={"name": ["b"]})), "/manifests/0/spec/tasks/0/dependsOn"),
        (
            volcano(
                task("a", 1, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
                minSuccess=1,
            ),
            "/manifests/0/spec/minSuccess",
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
    pod = {**manifest("v1", "Pod", {"containers": [CONTAINER]}), "metadata": {"name": "alone"}}
    (error,) = convert(volcano(task("a", 1)), pod).errors
    assert error.pointer == "/manifests"


def test_errors_of_a_role_are_located_in_its_template() -> None:
    made = convert(volcano(task("a", 1)), job_set(replicated("b", 1)))
    found = made.locate(
        [
            FieldError("/groups/0/roles/0/template/podSpec/containers/0/name", "x"),
            FieldError("/groups/1/roles/0/template/podSpec/volumes", "y"),
            FieldError("/groups/1/clientId", "z"),
            FieldError("/groups/1/roles/0/template/hold", "w"),
        ]
    )
    assert [error.pointer for error in found] == [
        "/manifests/0/spec/tasks/0/template/spec/containers/0/name",
        "/manifests/1/spec/replicatedJobs/0/template/spec/template/spec/volumes",
        "/manifests/1/metadata/name",
        "/manifests/1",
    ]


@pytest.mark.parametrize(
    ("given", "pointers"),
    [
        (
            volcano(task("a", 2, minAvailable=3), priorityClassName="x"),
            {
                "roles": "spec/tasks",
                "roles/0/name": "spec/tasks/0/name",
                "roles/0/min": "spec/tasks/0/minAvailable",
                "roles/0/max": "spec/tasks/0/replicas",
                "priorityClass": "spec/priorityClassName",
                "labels/a": "metadata/labels/a",
            },
        ),
        (volcano(task("a", 2)), {"roles/0/min": "spec/tasks/0/replicas"}),
        (
            job_set(replicated("a", 1)),
            {
                "roles/0/name": "spec/replicatedJobs/0/name",
                "roles/0/max": "spec/replicatedJobs/0/replicas",
                "roles/0/template/maxRuntimeSeconds": (
                    "spec/replicatedJobs/0/template/spec/activeDeadlineSeconds"
                ),
                "completion/roles/0": "spec/successPolicy/targetReplicatedJobs/0",
            },
        ),
        (
            queue_job(1, 2),
            {
                "roles/0/max": "spec/taskSpecs/0/replicas",
                "priorityClass": "spec/schedSpec/priorityClassName",
            },
        ),
    ],
)
def test_errors_of_a_group_are_located_at_the_fields_that_they_come_from(
    given: Manifest, pointers: dict[str, str]
) -> None:
    found = convert(given).locate([FieldError(f"/groups/0/{field}", "x") for field in pointers])
    assert [error.pointer for error in found] == [
        f"/manifests/0/{place}" for place in pointers.values()
    ]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (volcano(task("ps", 2), minAvailable=9), "spec/minAvailable"),
        (queue_job(9, 1, 1), "spec/schedSpec/minAvailable"),
    ],
)
def test_a_minimum_above_all_replicas_is_refused_with_both_numbers(
    given: Manifest, pointer: str
) -> None:
    (error,) = convert(given).errors
    assert error.pointer == f"/manifests/0/{pointer}"
    assert error.detail == "is 9, more than all replicas (2); lower it, or add replicas"


def test_the_minimum_of_a_job_comes_on_top_of_those_of_its_tasks() -> None:
    own = (task("ps", 3, minAvailable=1), task("worker", 4))
    assert sizes(converted(volcano(*own, minAvailable=3))) == [("ps", 1, 3), ("worker", 2, 4)]
    assert sizes(converted(volcano(*own, minAvailable=6))) == [("ps", 2, 3), ("worker", 4, 4)]


def test_a_minimum_of_no_member_is_refused() -> None:
    assert refused(volcano(task("a", 1), minAvailable=0)) == ["/manifests/0/spec/minAvailable"]


def test_rules_for_failures_are_used_only_if_they_say_what_happens_anyway() -> None:
    every = {"name": "every", "action": "RestartJobSet", "onJobFailureReasons": ["BackoffLimit"]}
    policy = {"maxRestarts": 2, "rules": [every]}
    group = converted(job_set(replicated("a", 1), failurePolicy=policy))
    assert (group["onMemberFailure"], group["restartLimit"]) == ("restartGroup", 2)
    policy["rules"] = [every, {"action": "FailJobSet", "targetReplicatedJobs": ["a"]}]
    (error,) = convert(job_set(replicated("a", 1), failurePolicy=policy)).errors
    assert error.pointer == "/manifests/0/spec/failurePolicy/rules/1/action"
    assert "without maxRestarts the group fails" in error.detail


def test_exit_codes_in_a_job_of_a_job_set_are_refused() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
    given = job_set(replicated("a", 1, podFailurePolicy={"rules": [rule]}))
    place = "spec/replicatedJobs/0/template/spec/podFailurePolicy/rules/0/onExitCodes"
    assert refused(given) == [f"/manifests/0/{place}"]


@pytest.mark.parametrize(
    "given", [volcano(task("a", 1)), job_set(replicated("a", 1)), queue_job(1, 1)]
)
def test_a_group_needs_a_name(given: Manifest) -> None:
    assert refused({**given, "metadata": {}}) == ["/manifests/0/metadata/name"]
