"""Manifests of Kubernetes: the jobs that they become, and the report of their fields."""

from collections.abc import Callable
from typing import Any

import pytest

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests import validation
from fairlead_submit.domain.manifests.conversion import ConvertedManifests, convert_manifests
from fairlead_submit.domain.manifests.manifest_fields import FIELDS_MAX, FieldUse

Manifest = dict[str, Any]  # `Any`: JSON

CONTAINER = {"name": "main", "image": "busybox", "command": ["true"]}


def job(spec: Manifest | None = None, **metadata: object) -> Manifest:
    """A Job with one container; `spec` is added to its own."""
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "scan", **metadata},
        "spec": {"template": template, **(spec or {})},
    }


def pod(name: str, **labels: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"scheduling.x-k8s.io/pod-group": "mpi", **labels}},
        "spec": {"containers": [CONTAINER]},
    }


def pod_group(least: object, name: str = "mpi") -> Manifest:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": least},
    }


FAIL_ON_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
FAIL_WHEN_DISRUPTED = {
    "action": "FailJob",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


def convert(*manifests: Manifest, queue: str | None = None, most: int = 100) -> ConvertedManifests:
    return convert_manifests(manifests, queue, None, most)


def converted(*manifests: Manifest) -> list[Manifest]:
    """The jobs, where nothing is refused."""
    made = convert(*manifests)
    assert made.errors == []
    return made.conversion.jobs


def refused(*manifests: Manifest, most: int = 100) -> dict[str, str]:
    """Pointer -> detail of what is refused."""
    return {error.pointer: error.detail for error in convert(*manifests, most=most).errors}


def ignored(*manifests: Manifest) -> dict[str, str]:
    """Pointer -> reason of what is ignored, where nothing is refused."""
    made = convert(*manifests)
    assert made.errors == []
    return {
        field.pointer: field.detail
        for field in made.conversion.fields
        if field.use is FieldUse.IGNORED
    }


def test_a_job_without_completions_is_one_job_with_its_name() -> None:
    assert converted(job()) == [
        {"clientId": "scan", "podSpec": {"containers": [CONTAINER]}, "retry": {"limit": 6}}
    ]


def test_each_completion_is_a_job() -> None:
    made = converted(job({"completions": 3, "backoffLimit": 0}))
    assert [one["clientId"] for one in made] == ["scan-0", "scan-1", "scan-2"]
    assert all(one["retry"] == {"limit": 0} for one in made)


def test_many_completions_are_the_tasks_of_an_array() -> None:
    spec = {"completions": 100_000, "parallelism": 50, "completionMode": "Indexed"}
    (made,) = converted(job({**spec, "backoffLimit": 0}))
    assert made == {
        "clientId": "scan",
        "podSpec": {"containers": [CONTAINER]},
        "retry": {"limit": 0},
        "array": {"count": 100_000, "maxRunning": 50},
    }
    assert "/manifests/0/spec/parallelism" not in ignored(job(spec))
    (made,) = converted(job({"parallelism": 1_001}))
    assert made["array"] == {"count": 1_001}
    assert len(converted(job({"completions": 100}))) == 100


def test_arrays_of_manifests_are_not_held_and_count_as_one_job() -> None:
    found = refused(job({"completions": 2_000, "suspend": True}))
    assert found == {"/manifests/0/spec/suspend": "is not possible with more than 1000 completions"}
    assert len(converted(job({"completions": 2_000}), job({"completions": 3_000}))) == 2


def test_a_work_queue_has_as_many_jobs_as_its_parallelism() -> None:
    assert len(converted(job({"parallelism": 4}))) == 4


def test_indexed_jobs_know_their_index_in_every_container() -> None:
    template = {"spec": {"containers": [CONTAINER], "initContainers": [{"name": "first"}]}}
    made = converted(job({"completions": 2, "completionMode": "Indexed", "template": template}))
    index = {"name": "JOB_COMPLETION_INDEX", "value": "1"}
    assert made[1]["podSpec"] == {
        "containers": [{**CONTAINER, "env": [index]}],
        "initContainers": [{"name": "first", "env": [index]}],
    }
    assert made[1]["annotations"] == {"batch.kubernetes.io/job-completion-index": "1"}


def test_a_variable_that_a_container_sets_itself_stays() -> None:
    own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    template = {"spec": {"containers": [{**CONTAINER, "env": [own]}]}}
    (made,) = converted(job({"completionMode": "Indexed", "template": template}))
    assert made["podSpec"]["containers"][0]["env"] == [own]


def test_terms_of_the_job_become_terms_of_each_job() -> None:
    spec = {"activeDeadlineSeconds": 60, "suspend": True, "backoffLimitPerIndex": 1}
    (made,) = converted(job(spec, namespace="team-a", labels={"app": "x"}, annotations={"b": "c"}))
    assert made["maxRuntimeSeconds"] == 60
    assert made["hold"] is True
    assert made["retry"] == {"limit": 1}
    assert (made["namespace"], made["labels"], made["annotations"]) == (
        "team-a",
        {"app": "x"},
        {"b": "c"},
    )


@pytest.mark.parametrize("label", ["fairlead.dev/queue", "kueue.x-k8s.io/queue-name"])
def test_a_label_names_the_queue_and_is_no_label_of_the_job(label: str) -> None:
    made = convert(job(labels={label: "physics"}))
    assert made.conversion.queue == "physics"
    assert "labels" not in made.conversion.jobs[0]


def test_the_job_set_is_named_by_a_label_or_the_first_manifest() -> None:
    assert convert(job()).conversion.job_set == "scan"
    labels = {"fairlead.dev/job-set": "nightly"}
    assert convert(job(labels=labels)).conversion.job_set == "nightly"


def test_manifests_of_two_queues_need_a_decision() -> None:
    two = (job(labels={"fairlead.dev/queue": "a"}), job(labels={"fairlead.dev/queue": "b"}))
    assert refused(*two) == {
        "/manifests/1": "names queue 'b', but /manifests/0 names 'a'; set `queue`"
    }
    assert convert(*two, queue="c").errors == []


def test_fields_without_effect_are_reported_with_the_reason() -> None:
    spec = {"ttlSecondsAfterFinished": 5, "completions": 2, "parallelism": 1, "unheardOf": 1}
    found = ignored({**job(spec, uid="1"), "status": {}})
    assert found["/manifests/0/spec/unheardOf"] == "has no meaning for Fairlead"
    assert found["/manifests/0/status"] == "the jobs are new"
    assert set(found) == {
        "/manifests/0/spec/parallelism",
        "/manifests/0/spec/template/spec/restartPolicy",
        "/manifests/0/spec/ttlSecondsAfterFinished",
        "/manifests/0/spec/unheardOf",
        "/manifests/0/status",
    }


def test_a_node_name_is_refused() -> None:
    template = {"spec": {"containers": [CONTAINER], "nodeName": "n1"}}
    assert list(refused(job({"template": template}))) == [
        "/manifests/0/spec/template/spec/nodeName"
    ]


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"completions": "3"}, "completions"),
        ({"completions": 0}, "completions"),
        ({"completions": 10**9}, "completions"),
        ({"completionMode": "Sometimes"}, "completionMode"),
        ({"suspend": "yes"}, "suspend"),
        ({"template": 5}, "template"),
        ({"template": None}, "template"),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, "successPolicy"),
        ({"maxFailedIndexes": 1}, "maxFailedIndexes"),
        ({"podFailurePolicy": {"rules": 1}}, "podFailurePolicy/rules"),
        ({"podFailurePolicy": {"rules": [FAIL_ON_42]}}, "podFailurePolicy/rules/0/onExitCodes"),
        ({"podFailurePolicy": {"rules": [FAIL_WHEN_DISRUPTED]}}, "podFailurePolicy/rules/0/action"),
    ],
)
def test_wrong_values_are_refused_at_their_place(spec: Manifest, place: str) -> None:
    assert f"/manifests/0/spec/{place}" in refused(job(spec))


def test_rules_for_failures_that_say_what_happens_anyway_have_no_effect() -> None:
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    count = {"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}
    rules = [count, {"action": "Ignore", "onPodConditions": disrupted}]
    found = ignored(job({"podFailurePolicy": {"rules": rules}}))
    place = "/manifests/0/spec/podFailurePolicy/rules"
    assert found[f"{place}/0/onExitCodes"] == "every failure counts as a retry"
    assert found[f"{place}/1/onPodConditions/0/type"].startswith("preemptions and lost nodes use")


def test_a_rule_by_exit_code_is_refused_with_the_way_out() -> None:
    (detail,) = refused(job({"podFailurePolicy": {"rules": [FAIL_ON_42]}})).values()
    assert "not on its exit code. Remove the rule; with backoffLimit: 0" in detail


@pytest.mark.parametrize("given", [job, lambda **_: {**pod("a"), "metadata": {}}])
@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({}, "is missing: without a name, submitting the manifest again"),
        ({"name": ""}, "is missing: without a name, submitting the manifest again"),
        ({"generateName": "scan-"}, "is missing, and generateName does not replace it: without"),
    ],
)
def test_a_manifest_without_a_name_is_refused(
    given: Callable[[], Manifest], metadata: Manifest, says: str
) -> None:
    found = refused({**given(), "metadata": metadata})
    assert list(found) == ["/manifests/0/metadata/name"]
    assert found["/manifests/0/metadata/name"].startswith(says)


def test_a_name_of_another_type_is_refused_once() -> None:
    assert refused({**job(), "metadata": {"name": 5}}) == {
        "/manifests/0/metadata/name": "is 5; a text is expected"
    }


def test_jobs_of_all_manifests_together_are_limited() -> None:
    found = refused(job({"completions": 60}), job({"completions": 60}), most=100)
    assert found == {
        "/manifests/1/spec/completions": (
            "is 60; with it the request would exceed its limit by 20 jobs"
        )
    }


@pytest.mark.parametrize(
    "manifest",
    [
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "v1", "kind": "Job"},
        {"kind": "Pod"},
        {"apiVersion": "v1"},
        {},
    ],
)
def test_other_kinds_are_refused_with_those_that_are_supported(manifest: Manifest) -> None:
    (detail,) = refused(manifest).values()
    assert "batch/v1 Job" in detail


def test_a_list_is_read_item_by_item() -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [job(), {"kind": "X"}]}
    assert list(refused(items)) == ["/manifests/0/items/1/kind"]


def test_only_the_first_of_very_many_errors_are_collected() -> None:
    wrong = [1] * 50_000
    made = convert({"apiVersion": "v1", "kind": "List", "items": wrong})
    assert len(made.errors) == validation.ERRORS_MAX


def test_manifests_in_lists_are_limited() -> None:
    pods = [pod(str(number)) for number in range(2)] * 10_000
    given = {"apiVersion": "v1", "kind": "List", "items": pods}
    assert "are more than 20000" in refused(given)["/manifests"]


def test_reported_fields_are_limited() -> None:
    unknown = {f"field{number}": 1 for number in range(FIELDS_MAX)}
    assert "have more than 500000 fields" in refused(job(unknown))["/manifests"]


def test_lists_within_lists_are_bounded() -> None:
    nested: Manifest = job()
    for _ in range(100):
        nested = {"apiVersion": "v1", "kind": "List", "items": [nested]}
    assert len(refused(nested)) == 1


def test_pods_of_a_group_become_a_gang() -> None:
    made = converted(pod_group(2), pod("a"), pod("b"), pod("c"))
    gang = {"name": "mpi", "size": 3, "minSize": 2}
    assert [(one["clientId"], one["gang"]) for one in made] == [
        ("a", gang),
        ("b", gang),
        ("c", gang),
    ]


def test_a_group_with_too_few_pods_is_refused() -> None:
    found = refused(pod_group(3), pod("a"))
    assert list(found) == ["/manifests/0/spec/minMember"]


def test_a_pod_of_an_unknown_group_is_refused() -> None:
    assert list(refused(pod("a"))) == ["/manifests/0/metadata"]


def test_a_group_is_named_once() -> None:
    assert "/manifests/1/metadata/name" in refused(pod_group(1), pod_group(1), pod("a"))


def test_the_label_of_a_group_names_the_job_set() -> None:
    group = pod_group(1)
    group["metadata"]["labels"] = {"fairlead.dev/job-set": "nightly"}
    assert convert(group, pod("a")).conversion.job_set == "nightly"


def test_nothing_to_run_is_an_error() -> None:
    empty = {"apiVersion": "v1", "kind": "List", "items": []}
    assert refused(empty) == {"/manifests": "have nothing to run"}


def test_errors_of_the_jobs_are_located_in_the_manifests() -> None:
    made = convert(pod("a"), pod_group(1), job({"completions": 2}))
    found = made.locate(
        [
            FieldError("/jobs/0/podSpec/containers/0/name", "x"),
            FieldError("/jobs/2/podSpec/containers", "y"),
            FieldError("/jobs/2/labels/a", "z"),
            FieldError("/jobs/1/clientId", "v"),
            FieldError("/queue", "w"),
        ]
    )
    assert [error.pointer for error in found] == [
        "/manifests/0/spec/containers/0/name",
        "/manifests/2/spec/template/spec/containers",
        "/manifests/2",
        "/manifests/2/metadata/name",
        "/queue",
    ]
