"""Jobs of `batch/v1`: one job of Fairlead for each completion, or an array with a task for each."""

from typing import Final

from fairlead_submit.domain.arrays.array_terms import COUNT_MAX
from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import (
    Document,
    Metadata,
    add_variable,
    read_metadata,
    read_pod,
)

JOBS_MAX: Final = 1_000
"""A Job with more completions becomes an array."""
BACKOFF_LIMIT: Final = 6
"""What Kubernetes takes for a Job without `backoffLimit`."""
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
INDEX_ANNOTATION: Final = "batch.kubernetes.io/job-completion-index"
_CONTROLLER_LABELS: Final = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)

REASONS: Final = {
    "managedBy": "Fairlead manages the jobs",
    "manualSelector": "Fairlead finds the pods of its jobs itself",
    "parallelism": "Fairlead starts as many of the jobs as the share of the queue allows",
    "podReplacementPolicy": "a retry always starts after the run before it has ended",
    "selector": "Fairlead finds the pods of its jobs itself",
    "ttlSecondsAfterFinished": "the server's retention settings apply to all jobs",
}
"""Why fields of a Job have no effect."""
RETRIES_MAX: Final = 1_000
RETRY_LIMIT: Final = f"retry.limit of each job, not of all together; at most {RETRIES_MAX}"
"""What the number of retries becomes."""
_ENDS: Final = {
    "maxFailedIndexes": "would end jobs when others fail. Remove it; `fairlead cancel` ends them",
    "successPolicy": (
        "would end jobs when others succeed. Remove it, or use a JobSet, whose successPolicy"
        " becomes the completion of a group"
    ),
}
"""Fields by which the end of one pod ends others, and why they are refused."""
_DISRUPTION: Final = "DisruptionTarget"
"""The condition of pods that are preempted, evicted or deleted with their node."""
_DISRUPTIONS: Final = (
    "preemptions and lost nodes use up no retry; an eviction by the cluster uses one"
)
_NOT_EXPRESSED: Final = (
    "is part of a rule that Fairlead cannot follow: retries depend on the category of a failure,"
    " such as oom, not on its exit code. Remove the rule; with backoffLimit: 0 no failure is"
    " retried, and `retry.on` of the job, which `fairlead convert` shows, names the categories"
    " that are"
)


def read_job(manifest: ManifestObject, jobs_max: int) -> tuple[Metadata, list[Document]]:
    """Take a Job: its metadata and the jobs that it becomes, at most `jobs_max`."""
    metadata = read_metadata(manifest)
    spec = manifest.open("spec")
    indexed = _take_completion_mode(spec)
    count = _take_count(spec, jobs_max)
    common: Document = {"retry": {"limit": _take_retries(spec)}}
    if count > JOBS_MAX:
        common["array"] = _take_array(spec, count)
    deadline = spec.take_count(
        "activeDeadlineSeconds", "maxRuntimeSeconds of each job, not of all together", least=1
    )
    if deadline is not None:
        common["maxRuntimeSeconds"] = deadline
    if spec.take_flag("suspend", "hold"):
        common["hold"] = True
    if not spec.has("template"):
        spec.refuse_field("template", "is missing")
    inner, pod = read_pod(spec.open("template"), template=True)
    spec.ignore_others(REASONS)
    manifest.ignore_others({"status": "the jobs are new"}, silent=("apiVersion", "kind"))
    job = {**pod, **common}
    if metadata.namespace:
        job["namespace"] = metadata.namespace
    labels = {**metadata.labels, **inner.labels}
    for name in _CONTROLLER_LABELS:
        labels.pop(name, None)
    if labels:
        job["labels"] = labels
    annotations = {**metadata.annotations, **inner.annotations}
    if annotations:
        job["annotations"] = annotations
    if count > JOBS_MAX:
        return metadata, [{**job, "clientId": metadata.name}]
    return metadata, [
        _make_job(job, metadata.name, index, count, indexed) for index in range(count)
    ]


def _take_array(spec: ManifestObject, count: int) -> Document:
    """The array of a Job with many completions."""
    if spec.peek("suspend") is True:
        spec.refuse_field("suspend", f"is not possible with more than {JOBS_MAX} completions")
    array: Document = {"count": count}
    if spec.has("completions"):
        running = spec.take_count("parallelism", "array.maxRunning", least=1)
        if running is not None:
            array["maxRunning"] = min(running, count)
    return array


def _make_job(job: Document, name: str, index: int, count: int, indexed: bool) -> Document:
    made = {**job, "clientId": f"{name}-{index}" if count > 1 or indexed else name}
    if not indexed:
        return made
    annotations = made.get("annotations")
    known = annotations if isinstance(annotations, dict) else {}
    made["annotations"] = {**known, INDEX_ANNOTATION: str(index)}
    return add_variable(made, INDEX_VARIABLE, str(index))


def _take_completion_mode(spec: ManifestObject) -> bool:
    mode = spec.take_text("completionMode", f"Indexed sets {INDEX_VARIABLE}")
    if mode not in (None, "Indexed", "NonIndexed"):
        spec.refuse_field("completionMode", f"is {mode!r}; use Indexed or NonIndexed")
    return mode == "Indexed"


def _take_count(spec: ManifestObject, jobs_max: int) -> int:
    """The number of jobs or tasks: `completions`, or `parallelism` for a work queue."""
    name = "completions" if spec.has("completions") else "parallelism"
    becomes = f"the number of jobs; above {JOBS_MAX}, array.count"
    count = spec.take_count(name, becomes, least=1) or 1
    jobs = 1 if count > JOBS_MAX else count
    if count > COUNT_MAX:
        spec.refuse_field(name, f"is {count}; an array has at most {COUNT_MAX} tasks")
        return 0
    if jobs > jobs_max:
        spec.refuse_field(
            name,
            f"is {count}; with it the request would exceed its limit by {jobs - jobs_max} jobs",
        )
        return 0
    return count


def _take_retries(spec: ManifestObject) -> int:
    """The retries of each job. `backoffLimitPerIndex` replaces `backoffLimit`, as in Kubernetes."""
    check_ends(spec)
    if spec.has("backoffLimitPerIndex"):
        spec.ignore_field("backoffLimit", "backoffLimitPerIndex is given")
        name = "backoffLimitPerIndex"
    else:
        name = "backoffLimit"
    limit = spec.take_count(name, RETRY_LIMIT)
    return min(BACKOFF_LIMIT if limit is None else limit, RETRIES_MAX)


def check_ends(spec: ManifestObject) -> None:
    """Refuse what Fairlead cannot follow about the ends of pods. Rules of `podFailurePolicy` that
    say what Fairlead does anyway are taken.
    """
    for name, why in _ENDS.items():
        if spec.has(name):
            spec.refuse_field(name, why)
    policy = spec.open("podFailurePolicy")
    for rule in policy.open_list("rules"):
        action = rule.take_text("action")
        conditions = rule.open_list("onPodConditions")
        of_disruption = [each.peek("type") for each in conditions] == [_DISRUPTION]
        if action == "Count":
            rule.ignore_field("onExitCodes", "every failure counts as a retry")
        elif rule.has("onExitCodes"):
            rule.refuse_field("onExitCodes", _NOT_EXPRESSED)
        elif action != "Ignore" or not of_disruption:
            rule.refuse_field("action", _NOT_EXPRESSED)
        for each in conditions:
            each.ignore_others({"status": _DISRUPTIONS, "type": _DISRUPTIONS})
        rule.ignore_others({})
    policy.ignore_others({})
