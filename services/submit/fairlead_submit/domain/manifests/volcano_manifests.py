"""Jobs of Volcano (`batch.volcano.sh`): a group with a role for each task."""

from typing import Final

import msgspec

from fairlead_submit.domain.manifests.group_roles import (
    ConvertedGroup,
    RoleTemplate,
    make_group,
    point_at_pod_spec,
    read_template,
    spread_minimum,
    take_replicas,
)
from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import read_metadata

MAX_RETRY: Final = 3
"""What Volcano takes for a Job without `maxRetry`."""

_ON_FAILURE: Final = {
    "AbortJob": "fail",
    "CompleteJob": "fail",
    "RestartJob": "restartGroup",
    "RestartPod": "restartMember",
    "RestartTask": "restartMember",
    "TerminateJob": "fail",
}
_REASONS: Final = {
    "maxRetry": "the restarts of the group are limited by maxRetry of the Job",
    "minSuccess": "use policies with TaskCompleted to say which task completes the Job",
    "plugins": "members have FAIRLEAD_ROLE, FAIRLEAD_ROLE_INDEX and FAIRLEAD_GROUP_FILE instead",
    "schedulerName": "Fairlead chooses the node",
    "ttlSecondsAfterFinished": "the server's retention settings apply to all jobs",
    "topologyPolicy": "use required node affinity in the template",
}


def read_volcano_job(manifest: ManifestObject, members_max: int) -> ConvertedGroup:
    """Take a Job: its metadata and the group that it becomes."""
    metadata = read_metadata(manifest)
    spec = manifest.open("spec")
    tasks = spec.open_list("tasks")
    if not tasks:
        spec.refuse_field("tasks", "has no task; at least one is required")
    completing: list[str] = []
    roles = []
    for index, task in enumerate(tasks):
        roles.append(_read_task(task, index, members_max))
        if _completes_job(task):
            completing.append(roles[-1].name)
        task.ignore_others(_REASONS)
    least = spec.take_count("minAvailable", "the minima of the roles, in the order of the tasks")
    on_failure = _read_failure_policy(spec)
    limit = spec.take_count("maxRetry", "restartLimit")
    queue = spec.take_text("queue", "queue")
    priority_class = spec.take_text("priorityClassName", "priorityClass")
    spec.ignore_others(_REASONS)
    manifest.ignore_others({"status": "the group is new"}, silent=("apiVersion", "kind"))
    named = msgspec.structs.replace(metadata, queue=metadata.queue or queue or "")
    return make_group(
        named,
        roles,
        spread_minimum(roles, least),
        onMemberFailure=on_failure,
        restartLimit=min(MAX_RETRY if limit is None else limit, 1_000),
        completion={"roles": completing} if completing else None,
        priorityClass=priority_class,
    )


def _read_task(task: ManifestObject, index: int, members_max: int) -> RoleTemplate:
    name = task.take_text("name", "the name of the role") or f"task-{index}"
    count = take_replicas(task, members_max)
    least = task.take_count("minAvailable", "min of the role")
    return RoleTemplate(
        name,
        count,
        least,
        read_template(task),
        point_at_pod_spec(task),
    )


def _completes_job(task: ManifestObject) -> bool:
    """Whether the end of this task completes the Job."""
    found = False
    for policy in task.open_list("policies"):
        event, action = policy.take_text("event"), policy.take_text("action")
        if (event, action) == ("TaskCompleted", "CompleteJob"):
            found = True
        else:
            policy.refuse_field(
                "event", "only TaskCompleted with CompleteJob is supported in a task"
            )
        policy.ignore_others({})
    return found


def _read_failure_policy(spec: ManifestObject) -> str | None:
    """`onMemberFailure`; None: the default."""
    chosen = None
    for policy in spec.open_list("policies"):
        event, action = policy.take_text("event"), policy.take_text("action") or ""
        if event == "PodFailed" and action in _ON_FAILURE:
            chosen = _ON_FAILURE[action]
        elif event in ("PodEvicted", "PodPending", "Unknown", "OutOfSync", "CommandIssued"):
            policy.ignore_field("timeout", "the scheduler decides about members that do not run")
        else:
            policy.refuse_field(
                "event", "only PodFailed is supported, with an action on pods or the Job"
            )
        policy.ignore_others({})
    return chosen
