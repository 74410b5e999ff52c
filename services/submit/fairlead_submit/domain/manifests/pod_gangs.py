"""Pods that start together become a gang: those with the label of a PodGroup of scheduler-plugins,
and those with the controller of a SchedulingSpec of kube-arbitrator.
"""

from collections import defaultdict
from typing import Final

import msgspec

from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import (
    Document,
    Metadata,
    add_node_selector,
    read_metadata,
)

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label by which a pod names its group."""

Owner = tuple[str, str, str]
"""An object that controls pods: its API group, kind and name."""

_NAME_OF_GANG: Final = "the name of the gang"
_REFERENCES: Final = "ownerReferences"
_OWNED: Final = "the executor owns the pod"
_REASONS: Final = {
    "minResources": "the requests of the pods say it",
    "scheduleTimeoutSeconds": "use maxQueueSeconds to limit the time in the queue",
}
_SCHEDULING_REASONS: Final = {"priority": "priorityClassName names the class"}


class _GangTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest says about its pods. `field` of `spec` has the minimum, and `members` is
    what the pods have in common.
    """

    name: str
    spec: ManifestObject
    field: str
    least: int
    members: str
    priority_class: str | None = None
    node_selector: dict[str, str] = {}


class PodGangs:
    """The gangs of a request, and the jobs that belong to them.

    `places`: pointers of fields of jobs that come from the manifest of a gang -> of that field.
    """

    def __init__(self) -> None:
        self.places: Final[dict[str, str]] = {}
        self._of_labels: dict[str, _GangTerms] = {}
        self._of_owners: dict[Owner, _GangTerms] = {}
        self._owners: dict[int, Owner] = {}
        self._names: set[str] = set()

    def read_pod_group(self, manifest: ManifestObject) -> Metadata:
        """Take a PodGroup."""
        metadata = read_metadata(manifest, name_becomes=_NAME_OF_GANG)
        spec = manifest.open("spec")
        least = spec.take_count("minMember", "minSize of the gang", least=1)
        spec.ignore_others(_REASONS)
        manifest.ignore_others({"status": "the jobs are new"}, silent=("apiVersion", "kind"))
        if self._add_name(manifest, metadata.name):
            self._of_labels[metadata.name] = _GangTerms(
                name=metadata.name,
                spec=spec,
                field="minMember",
                least=1 if least is None else least,
                members=f"the label {POD_GROUP_LABEL}: {metadata.name}",
            )
        return metadata

    def read_scheduling_spec(self, manifest: ManifestObject) -> Metadata:
        """Take a SchedulingSpec, whose pods have the same controller."""
        metadata = read_metadata(
            manifest, name_becomes=_NAME_OF_GANG, reported_later=(_REFERENCES,)
        )
        spec = manifest.open("spec")
        least = spec.take_count("minAvailable", "minSize of the gang", least=1)
        priority_class = spec.take_text("priorityClassName", "priorityClass of the pods")
        selector = spec.take_texts("nodeSelector", "nodeSelector of the pods")
        spec.ignore_others(_SCHEDULING_REASONS)
        manifest.ignore_others({"status": "the jobs are new"}, silent=("apiVersion", "kind"))
        inner = manifest.open_silently("metadata")
        inner.take_objects(_REFERENCES, "the gang of the pods with the same controller")
        owner = _find_controller(inner)
        if owner is None:
            inner.refuse_field(
                _REFERENCES,
                "need a reference with apiVersion, kind, name and `controller: true`; the pods with"
                " the same reference start together",
            )
        elif owner in self._of_owners:
            inner.refuse_field(
                _REFERENCES, f"have the controller {_describe(owner)} of another SchedulingSpec"
            )
        elif self._add_name(manifest, metadata.name):
            self._of_owners[owner] = _GangTerms(
                name=metadata.name,
                spec=spec,
                field="minAvailable",
                least=1 if least is None else least,
                members=f"the controller {_describe(owner)} in their ownerReferences",
                priority_class=priority_class,
                node_selector=selector,
            )
        return metadata

    def add_pod(self, manifest: ManifestObject, index: int) -> None:
        """Note the controller of a pod, which is the job with this index."""
        owner = _find_controller(manifest.open_silently("metadata"))
        if owner is not None:
            self._owners[index] = owner

    def add_pods_of_job(self, name: str, indexes: range) -> None:
        """Note that a Job of `batch` controls the pods that are the jobs with these indexes."""
        self._owners |= dict.fromkeys(indexes, ("batch", "Job", name))

    def make_gangs(self, jobs: list[Document], sources: list[ManifestObject]) -> list[Document]:
        """The jobs, with `gang` where they belong to one. `sources`: the manifest of each."""
        members: dict[str, list[int]] = defaultdict(list)
        for index, (job, source) in enumerate(zip(jobs, sources, strict=True)):
            terms = self._find_gang(index, job, source)
            if terms is not None:
                members[terms.name].append(index)
        made = list(jobs)
        for terms in (*self._of_labels.values(), *self._of_owners.values()):
            rows = members[terms.name]
            if len(rows) < terms.least:
                terms.spec.refuse_field(
                    terms.field,
                    f"is {terms.least}, but the number of pods that have {terms.members} is"
                    f" {len(rows)}; lower it, or add the pods to the request",
                )
            gang = {"name": terms.name, "size": len(rows), "minSize": terms.least}
            for index in rows:
                if terms.priority_class:
                    place = f"{terms.spec.pointer}/priorityClassName"
                    self.places[f"/jobs/{index}/priorityClass"] = place
                made[index] = {**_apply_terms(jobs[index], terms), "gang": gang}
        return made

    def _add_name(self, manifest: ManifestObject, name: str) -> bool:
        """Note the name of a gang. False without one; a second gang of a name is refused."""
        if name in self._names:
            detail = f"{name!r} is the name of another PodGroup or SchedulingSpec"
            manifest.open_silently("metadata").refuse_field("name", detail)
            return False
        if name:
            self._names.add(name)
        return bool(name)

    def _find_gang(self, index: int, job: Document, source: ManifestObject) -> _GangTerms | None:
        """The gang of a job, by its label or its controller."""
        labels = job.get("labels")
        label = labels.get(POD_GROUP_LABEL) if isinstance(labels, dict) else None
        by_label = self._of_labels.get(label) if isinstance(label, str) else None
        owner = self._owners.get(index)
        by_owner = None if owner is None else self._of_owners.get(owner)
        metadata = source.open_silently("metadata")
        if source.peek("kind") == "Pod":
            if by_owner is None:
                metadata.ignore_field(_REFERENCES, _OWNED)
            else:
                metadata.take_objects(_REFERENCES, f"gang {by_owner.name}")
        if label is not None and by_label is None:
            source.refuse_field(
                "metadata", f"names PodGroup {label!r}, which is not among the manifests"
            )
        if by_label is not None and by_owner is not None:
            source.refuse_field(
                "metadata",
                f"belongs to PodGroup {by_label.name!r} and, by its controller, to SchedulingSpec"
                f" {by_owner.name!r}; a pod has one of them",
            )
        return by_label or by_owner


def _apply_terms(job: Document, terms: _GangTerms) -> Document:
    """The job with the class and the node selector of its gang. Those of its pod come first."""
    made = dict(job)
    if terms.priority_class and not job["podSpec"].get("priorityClassName"):
        made["priorityClass"] = terms.priority_class
    made["podSpec"] = add_node_selector(job["podSpec"], terms.node_selector)
    return made


def _find_controller(metadata: ManifestObject) -> Owner | None:
    """The controller among the owner references, as Kubernetes marks it."""
    references = metadata.peek(_REFERENCES)
    for item in references if isinstance(references, list) else ():
        if not isinstance(item, dict) or item.get("controller") is not True:
            continue
        version, kind, name = (item.get(field) for field in ("apiVersion", "kind", "name"))
        if isinstance(version, str) and isinstance(kind, str) and isinstance(name, str):
            return version.rpartition("/")[0], kind, name
    return None


def _describe(owner: Owner) -> str:
    _, kind, name = owner
    return f"{kind} {name!r}"
