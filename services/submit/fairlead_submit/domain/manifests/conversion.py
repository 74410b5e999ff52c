"""From manifests to a submission, with a report of every field.

Supported kinds are `KINDS`. What Kubernetes and Fairlead express in the same way is used; what has
no counterpart is ignored with the reason; what would change the meaning if it were ignored is
refused, and then nothing of the request is submitted.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests import validation
from fairlead_submit.domain.manifests.group_roles import ConvertedGroup
from fairlead_submit.domain.manifests.job_manifests import read_job
from fairlead_submit.domain.manifests.job_set_manifests import read_job_set
from fairlead_submit.domain.manifests.kubeflow_manifests import (
    read_mpi_job,
    read_pytorch_job,
    read_tf_job,
)
from fairlead_submit.domain.manifests.manifest_fields import (
    FieldReport,
    FieldUse,
    ManifestObject,
    ReportedField,
    ReportFull,
)
from fairlead_submit.domain.manifests.pod_gangs import PodGangs
from fairlead_submit.domain.manifests.pod_manifests import Document, Metadata, read_pod
from fairlead_submit.domain.manifests.queue_job_manifests import read_queue_job
from fairlead_submit.domain.manifests.training_job_manifests import read_training_job
from fairlead_submit.domain.manifests.volcano_manifests import read_volcano_job

GROUP_READERS: Final[Mapping[tuple[str, str], Callable[[ManifestObject, int], ConvertedGroup]]] = {
    ("batch.volcano.sh", "Job"): read_volcano_job,
    ("jobset.x-k8s.io", "JobSet"): read_job_set,
    ("arbitrator.incubator.k8s.io", "QueueJob"): read_queue_job,
    ("kubeflow.org", "PyTorchJob"): read_pytorch_job,
    ("kubeflow.org", "TFJob"): read_tf_job,
    ("kubeflow.org", "MPIJob"): read_mpi_job,
    ("paddlepaddle.org", "TrainingJob"): read_training_job,
}
"""API group and kind -> what converts it to a group."""
KINDS: Final = (
    "v1 Pod",
    "batch/v1 Job",
    "scheduling.x-k8s.io PodGroup",
    "arbitrator.incubator.k8s.io SchedulingSpec",
    *(f"{group} {kind}" for group, kind in GROUP_READERS),
    "v1 List",
)
_FIELDS: Final[Mapping[str, str]] = {
    "clientId": "/metadata/name",
    "maxRuntimeSeconds": "/spec/activeDeadlineSeconds",
}
"""Fields of jobs and groups that every manifest has at the same place."""
LISTS_DEPTH_MAX: Final = 4
"""How deep a List in a List is opened."""

MANIFESTS_MAX: Final = 20_000
"""Maximum number of manifests of a request, with those in Lists: a PodGroup for each Pod."""


class Conversion(msgspec.Struct, frozen=True, rename="camel"):
    """What manifests become, in the form of `POST /api/v1/jobs` or `/groups`, and the report.

    Either `jobs` or `groups` is empty.
    """

    queue: str
    job_set: str
    jobs: list[Document]
    groups: list[Document]
    fields: list[ReportedField]


class ConvertedManifests(msgspec.Struct, frozen=True):
    """A conversion and its errors.

    `places`: pointer of a field of the submission -> in the manifests. `manifests`: pointer of a
    job, group or role, whose other fields are not in `places` -> of its manifest.
    """

    conversion: Conversion
    errors: list[FieldError]
    places: dict[str, str]
    manifests: dict[str, str]

    def locate(self, found: Sequence[FieldError]) -> list[FieldError]:
        """Errors of the submission, at the place in the manifests that they come from."""
        return [FieldError(self._locate(error.pointer), error.detail) for error in found]

    def _locate(self, pointer: str) -> str:
        parts = pointer.split("/")
        for count in range(len(parts), 1, -1):
            part = "/".join(parts[:count])
            if part in self.places:
                return "/".join([self.places[part], *parts[count:]])
            if part in self.manifests:
                field = _FIELDS.get("/".join(parts[count:]), "")
                return self.manifests[part] + field
        return pointer


def convert_manifests(
    manifests: Sequence[Mapping[str, object]], queue: str | None, job_set: str | None, jobs_max: int
) -> ConvertedManifests:
    """The jobs of the manifests. `queue` and `job_set` replace what the manifests name."""
    batch = _ManifestBatch(jobs_max)
    with contextlib.suppress(ReportFull):
        for index, manifest in enumerate(manifests):
            batch.read(manifest, f"/manifests/{index}", 0)
        batch.make_gangs()
    return batch.convert(queue, job_set)


class _ManifestBatch:
    """The manifests of a request, read one by one."""

    def __init__(self, jobs_max: int) -> None:
        self._jobs_max = jobs_max
        self._count = 0
        self._report = FieldReport()
        self._gangs = PodGangs()
        self._queues: dict[str, str] = {}
        self._job_sets: list[str] = []
        self._jobs: list[Document] = []
        self._of_jobs: list[ManifestObject] = []
        self._groups: list[Document] = []
        self._places: dict[str, str] = {}
        self._manifests: dict[str, str] = {}

    def read(self, manifest: object, pointer: str, depth: int) -> None:
        """Take one manifest, or all manifests of a List. Raises `ReportFull`."""
        self._count += 1
        if self._count > MANIFESTS_MAX:
            detail = f"are more than {MANIFESTS_MAX}; send them in several requests"
            self._report.add("/manifests", FieldUse.REFUSED, detail)
            raise ReportFull
        if not isinstance(manifest, dict):
            given = ManifestObject({}, pointer.rpartition("/")[0], self._report)
            given.refuse_field(
                pointer.rpartition("/")[2],
                f"is {validation.quote(manifest)}; expected is a manifest",
            )
            return
        given = ManifestObject(manifest, pointer, self._report)
        version, kind = manifest.get("apiVersion"), manifest.get("kind")
        name = f"{version} {kind}"
        kind_of_group = (str(version).partition("/")[0], str(kind))
        if name == "v1 List" and depth < LISTS_DEPTH_MAX:
            items = manifest.get("items")
            for index, item in enumerate(items if isinstance(items, list) else ()):
                self.read(item, f"{pointer}/items/{index}", depth + 1)
        elif name == "v1 Pod":
            metadata, job = read_pod(given)
            given.ignore_others({"status": "the job is new"}, silent=("apiVersion", "kind"))
            job["clientId"] = metadata.name
            self._gangs.add_pod(given, len(self._jobs))
            self._add(given, metadata, [job], f"{pointer}/spec")
        elif name == "batch/v1 Job":
            metadata, jobs = read_job(given, self._jobs_max - len(self._jobs))
            indexes = range(len(self._jobs), len(self._jobs) + len(jobs))
            self._gangs.add_pods_of_job(metadata.name, indexes)
            self._add(given, metadata, jobs, f"{pointer}/spec/template/spec")
        elif kind_of_group in GROUP_READERS:
            self._add_group(given, GROUP_READERS[kind_of_group](given, self._jobs_max))
        elif kind_of_group == ("scheduling.x-k8s.io", "PodGroup"):
            self._take_labels(self._gangs.read_pod_group(given), pointer)
        elif kind_of_group == ("arbitrator.incubator.k8s.io", "SchedulingSpec"):
            self._take_labels(self._gangs.read_scheduling_spec(given), pointer)
        else:
            field = "kind" if kind is not None else "apiVersion"
            given.refuse_field(
                field, f"is {validation.quote(kind)}; supported are: {', '.join(KINDS)}"
            )

    def make_gangs(self) -> None:
        """Make gangs of the jobs whose pods start together, after all manifests."""
        self._jobs = self._gangs.make_gangs(self._jobs, self._of_jobs)
        self._places |= self._gangs.places

    def convert(self, queue: str | None, job_set: str | None) -> ConvertedManifests:
        """The result."""
        errors = self._report.errors()
        named = queue or next(iter(self._queues), "")
        if queue is None and len(self._queues) > 1:
            first, second = list(self._queues.items())[:2]
            detail = f"names queue {second[0]!r}, but {first[1]} names {first[0]!r}; set `queue`"
            errors.append(FieldError(second[1], detail))
        if not self._jobs and not self._groups and not errors:
            errors.append(FieldError("/manifests", "have nothing to run"))
        if self._jobs and self._groups:
            detail = "become jobs and groups; send what becomes groups in a request of its own"
            errors.append(FieldError("/manifests", detail))
        made = Conversion(
            named,
            job_set or next(iter(self._job_sets), ""),
            self._jobs,
            self._groups,
            self._report.fields,
        )
        return ConvertedManifests(made, errors, self._places, self._manifests)

    def _add(
        self, manifest: ManifestObject, metadata: Metadata, jobs: list[Document], pod_spec: str
    ) -> None:
        self._take_names(metadata, manifest.pointer)
        for index in range(len(self._jobs), len(self._jobs) + len(jobs)):
            self._places[f"/jobs/{index}/podSpec"] = pod_spec
            self._manifests[f"/jobs/{index}"] = manifest.pointer
        self._jobs += jobs
        self._of_jobs += [manifest] * len(jobs)

    def _add_group(self, manifest: ManifestObject, made: ConvertedGroup) -> None:
        self._take_names(made.metadata, manifest.pointer)
        group = f"/groups/{len(self._groups)}"
        self._manifests[group] = manifest.pointer
        self._places[f"{group}/labels"] = f"{manifest.pointer}/metadata/labels"
        self._places |= {f"{group}/{field}": place for field, place in made.places.items()}
        for index, made_role in enumerate(made.roles):
            role = f"{group}/roles/{index}"
            self._manifests[role] = manifest.pointer
            self._places[f"{role}/template/podSpec"] = made_role.pointer
            self._places |= {f"{role}/{field}": place for field, place in made_role.places.items()}
        self._groups.append(made.group)

    def _take_names(self, metadata: Metadata, pointer: str) -> None:
        """The queue and the job set that a manifest of jobs names."""
        self._take_labels(metadata, pointer)
        if not metadata.job_set and metadata.name:
            self._job_sets.append(metadata.name)

    def _take_labels(self, metadata: Metadata, pointer: str) -> None:
        """The queue and the job set that labels of a manifest name."""
        if metadata.queue:
            self._queues.setdefault(metadata.queue, pointer)
        if metadata.job_set:
            self._job_sets.append(metadata.job_set)
