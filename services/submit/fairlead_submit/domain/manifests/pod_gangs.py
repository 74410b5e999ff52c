"""PodGroups of scheduler-plugins: the pods that name one become a gang."""

from collections import defaultdict
from typing import Final

from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import Document, read_metadata

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label by which a pod names its group."""

_REASONS: Final = {
    "minResources": "the requests of the pods say it",
    "scheduleTimeoutSeconds": "use maxQueueSeconds to limit the time in the queue",
}


class PodGroups:
    """The PodGroups of a request, and the jobs that name them."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[ManifestObject, int]] = {}

    def read_group(self, manifest: ManifestObject) -> str:
        """Take a PodGroup; returns the queue that it names, or an empty text."""
        metadata = read_metadata(manifest)
        spec = manifest.open("spec")
        least = spec.take_count("minMember", "minSize of the gang", least=1)
        spec.ignore_others(_REASONS)
        manifest.ignore_others({"status": "the jobs are new"}, silent=("apiVersion", "kind"))
        if not metadata.name:
            manifest.open("metadata").refuse_field("name", "is missing")
        elif metadata.name in self._groups:
            manifest.open("metadata").refuse_field("name", "names a PodGroup a second time")
        else:
            self._groups[metadata.name] = (spec, 1 if least is None else least)
        return metadata.queue

    def make_gangs(self, jobs: list[Document], sources: list[ManifestObject]) -> list[Document]:
        """The jobs, with `gang` where they name a group. `sources`: the manifest of each."""
        members: dict[str, list[int]] = defaultdict(list)
        for index, job in enumerate(jobs):
            labels = job.get("labels")
            name = labels.get(POD_GROUP_LABEL) if isinstance(labels, dict) else None
            if name in self._groups:
                members[name].append(index)
            elif name is not None:
                sources[index].refuse_field(
                    "metadata", f"names PodGroup {name!r}, which is not among the manifests"
                )
        made = list(jobs)
        for name, (spec, least) in self._groups.items():
            rows = members[name]
            if len(rows) < least:
                spec.refuse_field(
                    "minMember",
                    f"is {least}, but {len(rows)} pods have the label {POD_GROUP_LABEL}: {name}",
                )
            for index in rows:
                gang = {"name": name, "size": len(rows), "minSize": least}
                made[index] = {**made[index], "gang": gang}
        return made
