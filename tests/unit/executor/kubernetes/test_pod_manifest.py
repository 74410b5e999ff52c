"""The pod of a lease: what it is named, where it runs, and what of the user's spec is kept."""

import base64
from typing import Any

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest

from fairlead_common.domain.secret_values import Keyring
from fairlead_executor.backends.kubernetes.domain import pod_manifest
from fairlead_executor.backends.kubernetes.domain.pod_manifest import Manifest, Refused, build_pod
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.domain import pods
from tests.unit.executor.kubernetes.objects import JOB, OWNER, RUN, make_lease, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ON_N0 = {"key": "metadata.name", "operator": "In", "values": ["n0"]}
KEYS = Keyring("a key")


def build(
    spec: dict[str, Any] | None = None,  # `Any`: JSON
    settings: KubernetesSettings | None = None,
    **fields: Any,  # `Any`: fields of a lease
) -> Manifest:
    return build_pod(make_lease(spec, **fields), OWNER, settings or KubernetesSettings(), KEYS)


def test_a_pod_is_named_after_its_run_and_labelled_with_its_job() -> None:
    metadata = build(env={"FAIRLEAD_GANG_NAME": "g"}).pod["metadata"]
    assert (metadata["name"], metadata["namespace"]) == (RUN, "default")
    assert metadata["finalizers"] == [pod_manifest.FINALIZER]
    assert metadata["labels"] == {
        "fairlead.dev/executor": "e",
        "fairlead.dev/log": OWNER.log,
        "fairlead.dev/job": JOB,
        "fairlead.dev/run": "1",
        "fairlead.dev/queue": "q",
        "fairlead.dev/job-set": "s",
        "fairlead.dev/gang": "g",
    }


def test_a_name_that_is_no_valid_label_is_an_annotation_only() -> None:
    metadata = build(queue="a queue").pod["metadata"]
    assert "fairlead.dev/queue" not in metadata["labels"]
    assert metadata["annotations"]["fairlead.dev/queue"] == "a queue"


def test_labels_of_the_user_are_retained_and_cannot_replace_ours() -> None:
    lease_labels = {"team": "x", "fairlead.dev/executor": "another", "fairlead.dev/own": "1"}
    labels = build(labels=lease_labels).pod["metadata"]["labels"]
    assert labels["team"] == "x"
    assert labels["fairlead.dev/executor"] == "e"
    assert "fairlead.dev/own" not in labels


def test_kube_scheduler_is_asked_for_the_node_of_the_lease() -> None:
    spec = build().pod["spec"]
    terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [ON_N0]}]
    assert "nodeName" not in spec


@pytest.mark.parametrize(
    "affinity",
    [
        "a",
        {"nodeAffinity": "a"},
        {"nodeAffinity": {REQUIRED: ["a"]}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": {"a": "b"}}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["a"]}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": "a"}]}}},
    ],
)
def test_an_affinity_of_another_form_is_left_to_the_api_server_to_refuse(affinity: object) -> None:
    spec = build({"containers": [], "affinity": affinity}).pod["spec"]
    assert spec["affinity"] == affinity


def test_an_environment_of_another_form_is_left_to_the_api_server_to_refuse() -> None:
    spec = build({"containers": [{"env": {"A": "b"}}]}, env={"C": "d"}).pod["spec"]
    assert spec["containers"][0]["env"] == {"A": "b"}


def test_the_node_is_required_in_each_term_of_the_users_affinity() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    pod_affinity = {"podAffinity": {"x": 1}}
    given = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term, term]}}, **pod_affinity}
    affinity = build({"containers": [], "affinity": given}).pod["spec"]["affinity"]
    terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [{**term, "matchFields": [ON_N0]}] * 2
    assert affinity["podAffinity"] == {"x": 1}


def test_direct_binding_names_the_node() -> None:
    spec = build(settings=KubernetesSettings(binding="direct")).pod["spec"]
    assert spec["nodeName"] == "n0"
    assert "affinity" not in spec


def test_grace_and_deadline_are_those_of_the_lease() -> None:
    spec = build(grace_s=7, runtime_s_max=60).pod["spec"]
    assert spec["terminationGracePeriodSeconds"] == 7
    assert spec["activeDeadlineSeconds"] == 60
    assert "activeDeadlineSeconds" not in build().pod["spec"]


def test_defaults_fill_what_the_user_left_out_and_nothing_else() -> None:
    settings = KubernetesSettings(pod_defaults={"priority": 1, "hostNetwork": True})
    spec = build({"containers": [], "priority": 2}, settings).pod["spec"]
    assert (spec["priority"], spec["hostNetwork"], spec["restartPolicy"]) == (2, True, "Never")


def test_every_container_gets_the_environment_first_and_it_overrides_the_jobs_own() -> None:
    own = [{"name": "A", "value": "$(FAIRLEAD_JOB)"}, {"name": "FAIRLEAD_JOB", "value": "forged"}]
    containers = [{"name": "a", "env": own}, {"name": "b"}]
    given = {"containers": containers, "initContainers": [{"name": "i"}]}
    spec = build(given, env={"FAIRLEAD_JOB": "j"}).pod["spec"]
    ours = {"name": "FAIRLEAD_JOB", "value": "j"}
    assert spec["containers"][0]["env"] == [ours, own[0]]
    assert spec["containers"][1]["env"] == spec["initContainers"][0]["env"] == [ours]


def test_an_image_is_filled_in_where_none_is_named() -> None:
    settings = KubernetesSettings(default_image="busybox")
    spec = build({"containers": [{"name": "a"}, {"name": "b", "image": "x"}]}, settings).pod["spec"]
    assert [item["image"] for item in spec["containers"]] == ["busybox", "x"]


def test_a_sealed_value_becomes_a_reference_to_a_secret_of_the_run() -> None:
    sealed = KEYS.seal("q", "hunter2")
    source = {"secretKeyRef": {"name": "db", "key": "password"}}
    env = [{"name": "P", "sealed": sealed, "valueFrom": source}, {"name": "T", "sealed": sealed}]
    manifest = build({"containers": [{"name": "a", "env": env}]})
    assert "hunter2" not in str(manifest.pod)
    assert sealed not in str(manifest.pod)
    references = [
        item["valueFrom"]["secretKeyRef"] for item in manifest.pod["spec"]["containers"][0]["env"]
    ]
    assert references == [{"name": RUN, "key": "v0"}, {"name": RUN, "key": "v1"}]
    assert manifest.secrets == {"v0": "hunter2", "v1": "hunter2"}


def test_a_sealed_value_of_another_queue_is_refused_without_its_text() -> None:
    sealed = KEYS.seal("another", "hunter2")
    with pytest.raises(Refused, match="secret variable P"):
        build({"containers": [{"name": "a", "env": [{"name": "P", "sealed": sealed}]}]})


def test_the_secret_belongs_to_its_pod() -> None:
    secret = pod_manifest.build_secret(make_pod(), OWNER, {"v0": "hunter2"})
    (reference,) = secret["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"], reference["uid"]) == ("Pod", RUN, "u")
    assert base64.b64decode(secret["data"]["v0"]) == b"hunter2"


def test_a_lease_without_a_pod_spec_is_refused() -> None:
    lease = msgspec.structs.replace(make_lease(), spec=msgspec.Raw(b""))
    with pytest.raises(Refused, match="cannot be read"):
        build_pod(lease, OWNER, KubernetesSettings(), KEYS)


def test_a_pod_that_rules_out_a_run_takes_its_name_and_is_never_scheduled() -> None:
    pod = pod_manifest.build_placeholder_pod(RUN, "team", OWNER, pods.lost("restarted"))
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == (RUN, "team")
    assert pod["spec"]["schedulingGates"]


def test_a_pod_of_another_executor_or_installation_is_not_ours() -> None:
    assert pod_manifest.run_of_pod(make_pod(), OWNER) == RUN
    for name in (pod_manifest.EXECUTOR, pod_manifest.LOG):
        labels = {**make_pod().metadata.labels, name: "another"}
        assert pod_manifest.run_of_pod(make_pod(labels=labels), OWNER) is None
    assert pod_manifest.run_of_pod(make_pod(name="copy"), OWNER) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("cd"), inner, max_size=2),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    ["volumes", "securityContext", "hostPID", "tolerations", "dnsConfig", "resourceClaims"]
)


@hypothesis.given(st.dictionaries(FIELDS, JSON), st.dictionaries(st.text("xyz"), JSON))
def test_every_other_field_passes_through_unharmed(
    fields: dict[str, object], container_fields: dict[str, object]
) -> None:
    container = {**container_fields, "name": "main"}
    spec = build({**fields, "containers": [container]}).pod["spec"]
    assert {name: spec[name] for name in fields} == fields
    assert {name: spec["containers"][0][name] for name in container} == container
