"""Jobs of Volcano (`batch.volcano.sh`): a group with a role for each task."""

from typing import Final

import msgspec

from fairlead_submit.domain.groups.group_types import RESTARTS_MAX
from fairlead_submit.domain.manifests.group_roles import (
    RESTART_LIMIT,
    ConvertedGroup,
    RoleTemplate,
    make_group,
    point_at_fields,
    point_at_pod_spec,
    read_template,
    take_minima,
    take_replicas,
)
from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import Document, read_metadata

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
_DEPENDS_ON: Final = (
    "is not supported. Remove it, and add `startup` to the group that `fairlead convert` prints"
)
_REASONS: Final = {
    "maxRetry": "the restarts of the group are limited by maxRetry of the Job",
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
        if task.has("dependsOn"):
            task.refuse_field("dependsOn", _DEPENDS_ON)
        task.ignore_others(_REASONS)
    minima = take_minima(spec, "minAvailable", roles)
    completion = _read_completion(spec, completing, [role.name for role in roles])
    on_failure = _read_failure_policy(spec)
    limit = spec.take_count("maxRetry", RESTART_LIMIT)
    queue = spec.take_text("queue", "queue")
    priority_class = spec.take_text("priorityClassName", "priorityClass")
    spec.ignore_others(_REASONS)
    manifest.ignore_others({"status": "the group is new"}, silent=("apiVersion", "kind"))
    named = msgspec.structs.replace(metadata, queue=metadata.queue or queue or "")
    return make_group(
        named,
        roles,
        minima,
        {
            "roles": f"{spec.pointer}/tasks",
            "priorityClass": f"{spec.pointer}/priorityClassName",
            "completion/count": f"{spec.pointer}/minSuccess",
        },
        onMemberFailure=on_failure,
        restartLimit=min(MAX_RETRY if limit is None else limit, RESTARTS_MAX),
        completion=completion,
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
        point_at_fields(
            task, name="name", min="replicas" if least is None else "minAvailable", max="replicas"
        ),
    )


def _read_completion(
    spec: ManifestObject, completing: list[str], names: list[str]
) -> Document | None:
    """The completion of the group: `minSuccess` of all members, or the completing tasks."""
    if completing and spec.has("minSuccess"):
        spec.refuse_field("minSuccess", "completes the Job, and so does the policy of a task")
    least = spec.take_count("minSuccess", "completion.count", least=1)
    if completing:
        return {"roles": completing}
    return None if least is None else {"roles": names, "count": least}


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
