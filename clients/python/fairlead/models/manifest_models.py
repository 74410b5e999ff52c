"""Manifests of Kubernetes, as the server converts them."""

from fairlead.models.group_models import SubmittedGroup
from fairlead.models.job_models import JobValidation
from fairlead.models.model_bases import RequestModel, ResponseModel


class Manifests(RequestModel, frozen=True, kw_only=True):
    """Manifests to submit or to convert. `queue` and `job_set` replace what they name."""

    manifests: tuple[object, ...]
    queue: str | None = None
    job_set: str | None = None


class ManifestField(ResponseModel, frozen=True, kw_only=True):
    """A field of a manifest, whether it is `used`, `ignored` or `refused`, and why or for what."""

    pointer: str
    use: str
    detail: str = ""


class ManifestConversion(ResponseModel, frozen=True, kw_only=True):
    """What manifests become, in the form of a submission, and the report of all fields. Either
    `jobs` or `groups` is empty.
    """

    queue: str
    job_set: str
    jobs: tuple[dict[str, object], ...] = ()
    groups: tuple[dict[str, object], ...] = ()
    fields: tuple[ManifestField, ...] = ()


class ManifestResult(ResponseModel, frozen=True, kw_only=True):
    """The jobs or groups that were submitted from manifests, and the report of all fields.

    A dry run has no `position`.
    """

    queue: str
    job_set: str
    position: str | None = None
    jobs: tuple[JobValidation, ...] = ()
    groups: tuple[SubmittedGroup, ...] = ()
    fields: tuple[ManifestField, ...] = ()
