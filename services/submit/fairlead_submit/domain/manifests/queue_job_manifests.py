"""QueueJobs of kube-arbitrator: a group with a role for each task."""

from typing import Final

from fairlead_submit.domain.manifests.group_roles import (
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
from fairlead_submit.domain.manifests.pod_manifests import add_node_selector, read_metadata

_REASONS: Final = {"selector": "Fairlead finds the pods of its jobs itself"}


def read_queue_job(manifest: ManifestObject, members_max: int) -> ConvertedGroup:
    """Take a QueueJob: its metadata and the group that it becomes."""
    metadata = read_metadata(manifest)
    spec = manifest.open("spec")
    tasks = spec.open_list("taskSpecs")
    if not tasks:
        spec.refuse_field("taskSpecs", "has no task; at least one is required")
    scheduling = spec.open("schedSpec")
    selector = scheduling.take_texts("nodeSelector", "nodeSelector of every member")
    roles = [_read_task(task, index, members_max, selector) for index, task in enumerate(tasks)]
    minima = take_minima(scheduling, "minAvailable", roles)
    priority_class = scheduling.take_text("priorityClassName", "priorityClass")
    scheduling.ignore_field("priority", "priorityClassName names the class")
    scheduling.ignore_others({})
    spec.ignore_others(_REASONS)
    manifest.ignore_others({"status": "the group is new"}, silent=("apiVersion", "kind"))
    return make_group(
        metadata,
        roles,
        minima,
        {
            "roles": f"{spec.pointer}/taskSpecs",
            "priorityClass": f"{scheduling.pointer}/priorityClassName",
        },
        onMemberFailure="restartMember",
        priorityClass=priority_class,
    )


def _read_task(
    task: ManifestObject, index: int, members_max: int, selector: dict[str, str]
) -> RoleTemplate:
    count = take_replicas(task, members_max)
    template = read_template(task)
    template["podSpec"] = add_node_selector(template["podSpec"], selector)
    task.ignore_others({})
    return RoleTemplate(
        f"task-{index}",
        count,
        None,
        template,
        point_at_pod_spec(task),
        point_at_fields(task, min="replicas", max="replicas"),
    )
