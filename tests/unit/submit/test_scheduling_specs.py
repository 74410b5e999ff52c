"""SchedulingSpecs of kube-arbitrator: the pods with the same controller become a gang."""

from typing import Any

import pytest

from fairlead_submit.domain.manifests.manifest_fields import FieldUse
from tests.unit.submit.test_manifests import CONTAINER, convert, converted, job, pod_group, refused

Manifest = dict[str, Any]  # `Any`: JSON

OWNER = {"apiVersion": "example.com/v1", "kind": "CRDJob", "name": "train", "uid": "1"}
CONTROLLER = {**OWNER, "controller": True}
REFERENCES = "/manifests/0/metadata/ownerReferences"


def scheduling(
    least: object = 2, *owners: Manifest, name: str = "gang", **spec: object
) -> Manifest:
    return {
        "apiVersion": "arbitrator.incubator.k8s.io/v1",
        "kind": "SchedulingSpec",
        "metadata": {"name": name, "ownerReferences": list(owners or (CONTROLLER,))},
        "spec": {"minAvailable": least, **spec},
    }


def owned(name: str, *owners: Manifest, labels: object = None, **spec: object) -> Manifest:
    metadata = {"name": name, "ownerReferences": list(owners or (CONTROLLER,)), "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [CONTAINER], **spec},
    }


def gangs(*manifests: Manifest) -> dict[str, object]:
    """Client id -> gang."""
    return {made["clientId"]: made.get("gang") for made in converted(*manifests)}


def test_pods_with_the_controller_of_a_scheduling_spec_become_a_gang() -> None:
    other = {**CONTROLLER, "name": "other"}
    gang = {"name": "gang", "size": 3, "minSize": 2}
    found = gangs(owned("a"), scheduling(), owned("b", OWNER, CONTROLLER), owned("c"))
    assert found == {"a": gang, "b": gang, "c": gang}
    alone = gangs(scheduling(1), owned("a"), owned("b", other), owned("c", OWNER))
    assert alone == {"a": {"name": "gang", "size": 1, "minSize": 1}, "b": None, "c": None}


def test_versions_of_an_owner_are_one_owner() -> None:
    newer = {**CONTROLLER, "apiVersion": "example.com/v2", "uid": "2"}
    assert gangs(scheduling(1, newer), owned("a"))["a"] is not None


def test_a_job_is_the_controller_of_its_pods() -> None:
    of_job = {"apiVersion": "batch/v1", "kind": "Job", "name": "scan", "controller": True}
    gang = {"name": "gang", "size": 3, "minSize": 2}
    found = gangs(scheduling(2, of_job), job({"completions": 3}))
    assert found == dict.fromkeys(("scan-0", "scan-1", "scan-2"), gang)


def test_class_and_node_selector_apply_to_the_pods_that_have_none() -> None:
    spec = scheduling(1, priorityClassName="high", nodeSelector={"disk": "ssd", "zone": "a"})
    own = owned("b", priorityClassName="low", nodeSelector={"zone": "b"})
    first, second = converted(spec, owned("a"), own)
    assert first["priorityClass"] == "high"
    assert first["podSpec"]["nodeSelector"] == {"disk": "ssd", "zone": "a"}
    assert "priorityClass" not in second
    assert second["podSpec"]["nodeSelector"] == {"disk": "ssd", "zone": "b"}


def test_two_scheduling_specs_are_two_gangs() -> None:
    other = {**CONTROLLER, "name": "other"}
    found = gangs(scheduling(1), scheduling(1, other, name="second"), owned("a"), owned("b", other))
    assert found == {
        "a": {"name": "gang", "size": 1, "minSize": 1},
        "b": {"name": "second", "size": 1, "minSize": 1},
    }


def test_the_report_says_what_the_owner_references_become() -> None:
    made = convert(scheduling(1), owned("a"), owned("b", OWNER))
    found = {
        field.pointer: (field.use, field.detail)
        for field in made.conversion.fields
        if "ownerReferences" in field.pointer
    }
    assert found == {
        REFERENCES: (FieldUse.USED, "the gang of the pods with the same controller"),
        "/manifests/1/metadata/ownerReferences": (FieldUse.USED, "gang gang"),
        "/manifests/2/metadata/ownerReferences": (FieldUse.IGNORED, "the executor owns the pod"),
    }


def test_more_pods_than_there_are_is_refused_with_the_way_out() -> None:
    found = refused(scheduling(3), owned("a"), owned("b", OWNER))
    assert found == {
        "/manifests/0/spec/minAvailable": (
            "is 3, but the number of pods that have the controller CRDJob 'train' in their"
            " ownerReferences is 1; lower it, or add the pods to the request"
        )
    }


@pytest.mark.parametrize(
    "owner", [OWNER, {**CONTROLLER, "controller": "true"}, {"kind": "X", "controller": True}]
)
def test_a_scheduling_spec_needs_a_controller(owner: Manifest) -> None:
    found = refused(scheduling(1, owner), owned("a"))
    assert list(found) == [REFERENCES]
    assert "`controller: true`" in found[REFERENCES]


@pytest.mark.parametrize(
    ("manifests", "place"),
    [
        ((scheduling(0), owned("a")), "/manifests/0/spec/minAvailable"),
        ((scheduling(1, name=""), owned("a")), "/manifests/0/metadata/name"),
        (
            (scheduling(1), scheduling(1, name="second"), owned("a")),
            "/manifests/1/metadata/ownerReferences",
        ),
        (
            (scheduling(1), pod_group(1, "gang"), owned("a")),
            "/manifests/1/metadata/name",
        ),
        (
            (
                scheduling(1),
                pod_group(1),
                owned("a"),
                owned("b", labels={"scheduling.x-k8s.io/pod-group": "mpi"}),
            ),
            "/manifests/3/metadata",
        ),
    ],
)
def test_gangs_that_are_not_clear_are_refused(manifests: tuple[Manifest, ...], place: str) -> None:
    assert place in refused(*manifests)
