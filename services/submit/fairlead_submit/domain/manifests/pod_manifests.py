"""Pods and pod templates as jobs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_submit.domain.manifests.manifest_fields import ManifestObject

Document = dict[str, Any]  # `Any`: JSON
"""A job, or a part of one, in the form of `POST /api/v1/jobs`."""

QUEUE_LABELS: Final = ("fairlead.dev/queue", "kueue.x-k8s.io/queue-name")
"""Labels that name the queue, the first one first."""
JOB_SET_LABEL: Final = "fairlead.dev/job-set"

_WRITTEN_BY_CLUSTER: Final = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_POD_NAMES: Final = "pods are named after the ids of their jobs"
_METADATA: Final = {
    "finalizers": "Fairlead removes its pods itself",
    "generateName": _POD_NAMES,
    "ownerReferences": "the executor owns the pod",
}
_RESTART: Final = "a pod of Fairlead runs once; the retries of the job take its place"
_POD: Final = {
    "schedulerName": "Fairlead chooses the node",
    "restartPolicy": _RESTART,
    "priority": "priorityClassName names the class",
}


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest says of itself. Names are empty if they are not given."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    queue: str = ""
    job_set: str = ""


def read_metadata(
    manifest: ManifestObject,
    *,
    template: bool = False,
    name_becomes: str = "client ids of the jobs, and the job set",
    reported_later: Sequence[str] = (),
) -> Metadata:
    """Take `metadata`; labels that name the queue and the job set are not labels of the job.

    `template`: it is that of a pod template, whose name has no use. `reported_later`: fields that
    the caller reports.
    """
    metadata = manifest.open("metadata")
    if template:
        metadata.ignore_field("name", _POD_NAMES)
        name = None
    else:
        name = metadata.take_text("name", name_becomes)
        if name == "" or not metadata.has("name"):
            metadata.refuse_field("name", _explain_missing_name(metadata))
    namespace = metadata.take_text("namespace", "namespace")
    labels = metadata.take_texts("labels", "labels")
    annotations = metadata.take_texts("annotations", "annotations")
    metadata.ignore_others(_METADATA, silent=(*_WRITTEN_BY_CLUSTER, *reported_later))
    queues = [labels.pop(label) for label in QUEUE_LABELS if label in labels]
    return Metadata(
        name=name or "",
        namespace=namespace or "",
        labels=labels,
        annotations=annotations,
        queue=queues[0] if queues else "",
        job_set=labels.pop(JOB_SET_LABEL, ""),
    )


def read_pod(manifest: ManifestObject, *, template: bool = False) -> tuple[Metadata, Document]:
    """Take a pod or a pod template: its metadata, and the job that runs it.

    `PodGangs` reports the owner references of a pod.
    """
    metadata = read_metadata(
        manifest, template=template, reported_later=() if template else ("ownerReferences",)
    )
    pod_spec = _take_pod_spec(manifest)
    document: Document = {"podSpec": pod_spec}
    if metadata.namespace:
        document["namespace"] = metadata.namespace
    if metadata.labels:
        document["labels"] = metadata.labels
    if metadata.annotations:
        document["annotations"] = metadata.annotations
    return metadata, document


def add_variable(job: Document, name: str, value: str) -> Document:
    """The job with an environment variable in every container that does not set it itself."""
    pod_spec = job["podSpec"]
    assert isinstance(pod_spec, dict), "made by `read_pod`"
    changed = dict(pod_spec)
    for field in ("containers", "initContainers"):
        containers = pod_spec.get(field)
        if isinstance(containers, list):
            changed[field] = [_with_variable(item, name, value) for item in containers]
    return {**job, "podSpec": changed}


def add_node_selector(pod_spec: Document, selector: Mapping[str, str]) -> Document:
    """The pod spec with these labels of nodes, where it does not require others itself."""
    own = pod_spec.get("nodeSelector")
    if not selector or not (own is None or isinstance(own, dict)):
        return pod_spec
    return {**pod_spec, "nodeSelector": {**selector, **(own or {})}}


def _explain_missing_name(metadata: ManifestObject) -> str:
    why = "without a name, submitting the manifest again would create its jobs again"
    if metadata.has("generateName"):
        return f"is missing, and generateName does not replace it: {why}"
    return f"is missing: {why}"


def _take_pod_spec(manifest: ManifestObject) -> Document:
    inner = manifest.open("spec")
    if inner.has("nodeName"):
        inner.refuse_field(
            "nodeName", "names a node, but Fairlead chooses it; use nodeSelector instead"
        )
    for name, why in _POD.items():
        inner.ignore_field(name, why)
    given = manifest.take_whole("spec", "podSpec") or {}
    return {name: value for name, value in given.items() if name not in _POD}


def _with_variable(container: object, name: str, value: str) -> object:
    if not isinstance(container, dict):
        return container
    given = container.get("env")
    env = list(given) if isinstance(given, list) else []
    if any(isinstance(item, dict) and item.get("name") == name for item in env):
        return container
    return {**container, "env": [*env, {"name": name, "value": value}]}
