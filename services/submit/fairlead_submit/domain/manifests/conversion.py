"""From manifests to a submission, with a report of every field.

Supported kinds are `KINDS`. What Kubernetes and Fairlead express in the same way is used; what has
no counterpart is ignored with the reason; what would change the meaning if it were ignored is
refused, and then nothing of the request is submitted.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests import validation
from fairlead_submit.domain.manifests.job_manifests import read_job
from fairlead_submit.domain.manifests.manifest_fields import (
    FieldReport,
    ManifestObject,
    ReportedField,
)
from fairlead_submit.domain.manifests.pod_groups import PodGroups
from fairlead_submit.domain.manifests.pod_manifests import Document, Metadata, read_pod

KINDS: Final = ("v1 Pod", "batch/v1 Job", "scheduling.x-k8s.io/v1alpha1 PodGroup", "v1 List")
LISTS_DEPTH_MAX: Final = 4
"""How deep a List in a List is opened."""


class Conversion(msgspec.Struct, frozen=True, rename="camel"):
    """The jobs that manifests become, in the form of `POST /api/v1/jobs`, and the report."""

    queue: str
    job_set: str
    jobs: list[Document]
    fields: list[ReportedField]


class ConvertedManifests(msgspec.Struct, frozen=True):
    """A conversion and its errors. `sources`: the pointer of each job's pod spec."""

    conversion: Conversion
    errors: list[FieldError]
    sources: list[str]

    def locate(self, found: Sequence[FieldError]) -> list[FieldError]:
        """Errors of the submission, at the place in the manifests that they come from."""
        return [FieldError(self._locate(error.pointer), error.detail) for error in found]

    def _locate(self, pointer: str) -> str:
        parts = pointer.split("/", 4)
        if len(parts) < 3 or parts[1] != "jobs" or not parts[2].isdecimal():
            return pointer
        source = self.sources[int(parts[2])]
        if len(parts) > 3 and parts[3] == "podSpec":
            return "/".join([source, *parts[4:]])
        return source.removesuffix("/spec").removesuffix("/spec/template")


def convert_manifests(
    manifests: Sequence[Mapping[str, object]], queue: str | None, job_set: str | None, jobs_max: int
) -> ConvertedManifests:
    """The jobs of the manifests. `queue` and `job_set` replace what the manifests name."""
    batch = _ManifestBatch(jobs_max)
    for index, manifest in enumerate(manifests):
        batch.read(manifest, f"/manifests/{index}", 0)
    return batch.convert(queue, job_set)


class _ManifestBatch:
    """The manifests of a request, read one by one."""

    def __init__(self, jobs_max: int) -> None:
        self._jobs_max = jobs_max
        self._report = FieldReport()
        self._pod_groups = PodGroups()
        self._queues: dict[str, str] = {}
        self._job_sets: list[str] = []
        self._jobs: list[Document] = []
        self._manifests: list[ManifestObject] = []
        self._sources: list[str] = []

    def read(self, manifest: object, pointer: str, depth: int) -> None:
        """Take one manifest, or those of a List."""
        if not isinstance(manifest, dict):
            given = ManifestObject({}, pointer.rpartition("/")[0], self._report)
            given.refuse(
                pointer.rpartition("/")[2],
                f"is {validation.quote(manifest)}; expected is a manifest",
            )
            return
        given = ManifestObject(manifest, pointer, self._report)
        version, kind = manifest.get("apiVersion"), manifest.get("kind")
        name = f"{version} {kind}"
        if name == "v1 List" and depth < LISTS_DEPTH_MAX:
            items = manifest.get("items")
            for index, item in enumerate(items if isinstance(items, list) else ()):
                self.read(item, f"{pointer}/items/{index}", depth + 1)
        elif name == "v1 Pod":
            metadata, job = read_pod(given)
            given.ignore_others({"status": "the job is new"}, silent=("apiVersion", "kind"))
            if metadata.name:
                job["clientId"] = metadata.name
            self._add(given, metadata, [job], f"{pointer}/spec")
        elif name == "batch/v1 Job":
            metadata, jobs = read_job(given, self._jobs_max - len(self._jobs))
            self._add(given, metadata, jobs, f"{pointer}/spec/template/spec")
        elif kind == "PodGroup" and str(version).startswith("scheduling.x-k8s.io/"):
            self._name_queue(self._pod_groups.read_group(given), pointer)
        else:
            field = "kind" if kind is not None else "apiVersion"
            given.refuse(field, f"is {validation.quote(kind)}; supported are: {', '.join(KINDS)}")

    def convert(self, queue: str | None, job_set: str | None) -> ConvertedManifests:
        """The result after all manifests."""
        jobs = self._pod_groups.make_gangs(self._jobs, self._manifests)
        errors = self._report.errors()
        named = queue or next(iter(self._queues), "")
        if queue is None and len(self._queues) > 1:
            first, second = list(self._queues.items())[:2]
            detail = f"names queue {second[0]!r}, but {first[1]} names {first[0]!r}; set `queue`"
            errors.append(FieldError(second[1], detail))
        if not self._jobs and not errors:
            errors.append(FieldError("/manifests", "have nothing to run"))
        made = Conversion(
            named, job_set or next(iter(self._job_sets), ""), jobs, self._report.fields
        )
        return ConvertedManifests(made, errors, self._sources)

    def _add(
        self, manifest: ManifestObject, metadata: Metadata, jobs: list[Document], source: str
    ) -> None:
        self._name_queue(metadata.queue, manifest.pointer)
        self._job_sets += [name for name in (metadata.job_set or metadata.name,) if name]
        self._jobs += jobs
        self._manifests += [manifest] * len(jobs)
        self._sources += [source] * len(jobs)

    def _name_queue(self, queue: str, pointer: str) -> None:
        if queue:
            self._queues.setdefault(queue, pointer)
