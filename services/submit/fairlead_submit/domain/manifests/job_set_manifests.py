"""JobSets (`jobset.x-k8s.io`): a group with a role for each replicated job."""

from typing import Final

from fairlead_common.domain.requests import validation
from fairlead_submit.domain.groups.group_types import RESTARTS_MAX
from fairlead_submit.domain.manifests.group_roles import (
    RESTART_LIMIT,
    ConvertedGroup,
    RoleTemplate,
    make_group,
    point_at_fields,
    point_at_pod_spec,
    read_template,
)
from fairlead_submit.domain.manifests.job_manifests import (
    BACKOFF_LIMIT,
    REASONS,
    RETRIES_MAX,
    check_ends,
)
from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import Document, read_metadata

_REASONS: Final = {
    "coordinator": "members find each other by FAIRLEAD_GROUP_FILE",
    "managedBy": "Fairlead manages the group",
    "ttlSecondsAfterFinished": "the server's retention settings apply to all jobs",
}
_NETWORK: Final = {
    "publishNotReadyAddresses": "host names of members resolve as soon as these have addresses",
    "subdomain": "the headless service has the name of the group",
}
_INDEX: Final = "members have their index as FAIRLEAD_ROLE_INDEX"


def read_job_set(manifest: ManifestObject, members_max: int) -> ConvertedGroup:
    """Take a JobSet: its metadata and the group that it becomes."""
    metadata = read_metadata(manifest)
    spec = manifest.open("spec")
    given = spec.open_list("replicatedJobs")
    if not given:
        spec.refuse_field("replicatedJobs", "has no job; at least one is required")
    roles = [_read_replicated_job(item, index, members_max) for index, item in enumerate(given)]
    startup = spec.open("startupPolicy")
    in_order = startup.take_text("startupPolicyOrder", "startup") == "InOrder"
    startup.ignore_others({})
    network = spec.open("network")
    headless = network.take_flag("enableDNSHostnames", "network.headlessService")
    network.ignore_others(_NETWORK)
    completion = _read_success_policy(spec, roles)
    failure = spec.open("failurePolicy")
    restarts = failure.take_count("maxRestarts", RESTART_LIMIT)
    for rule in failure.open_list("rules"):
        _check_failure_rule(rule)
    failure.ignore_others({})
    if spec.take_flag("suspend", "hold"):
        for role in roles:
            role.template["hold"] = True
    spec.ignore_others(_REASONS)
    manifest.ignore_others({"status": "the group is new"}, silent=("apiVersion", "kind"))
    return make_group(
        metadata,
        roles,
        [role.count for role in roles],
        {
            "roles": f"{spec.pointer}/replicatedJobs",
            "completion/roles": f"{spec.pointer}/successPolicy/targetReplicatedJobs",
        },
        onMemberFailure="restartGroup" if restarts else "fail",
        restartLimit=min(restarts, RESTARTS_MAX) if restarts else None,
        completion=completion,
        startup=[role.name for role in roles] if in_order else None,
        network={"headlessService": True} if headless else None,
    )


def _read_replicated_job(item: ManifestObject, index: int, members_max: int) -> RoleTemplate:
    """A role with the pods of all replicas. Each member has the retries of its Job."""
    name = item.take_text("name", "the name of the role") or f"job-{index}"
    replicas = item.take_count("replicas", "the members of the role")
    if item.has("dependsOn"):
        item.refuse_field("dependsOn", "is not supported; use startupPolicy with InOrder")
    item.ignore_field("groupName", "host names of members are those of the roles")
    job = item.open("template")
    job.ignore_field("metadata", "the labels of the JobSet and of the pod template are used")
    inner = job.open("spec")
    field = "completions" if inner.has("completions") else "parallelism"
    pods = inner.take_count(field, "the members of the role", least=1)
    count = (1 if replicas is None else replicas) * (1 if pods is None else pods)
    if count > members_max:
        item.refuse_field("replicas", f"makes {count} members; a group has at most {members_max}")
        count = 1
    if field == "completions":
        inner.ignore_field("parallelism", "all members of a group start together")
    inner.ignore_field("completionMode", _INDEX)
    check_ends(inner)
    retries = inner.take_count("backoffLimit", f"retry.limit of each member, at most {RETRIES_MAX}")
    deadline = inner.take_count("activeDeadlineSeconds", "maxRuntimeSeconds of each member")
    template = read_template(inner)
    template["retry"] = {"limit": min(BACKOFF_LIMIT if retries is None else retries, RETRIES_MAX)}
    if deadline is not None:
        template["maxRuntimeSeconds"] = deadline
    inner.ignore_others(REASONS)
    job.ignore_others({})
    item.ignore_others({})
    return RoleTemplate(
        name,
        count,
        None,
        template,
        point_at_pod_spec(inner),
        {
            **point_at_fields(item, name="name", min="replicas", max="replicas"),
            "template/maxRuntimeSeconds": f"{inner.pointer}/activeDeadlineSeconds",
        },
    )


def _check_failure_rule(rule: ManifestObject) -> None:
    """Take a rule that says what happens without it, and refuse any other."""
    if rule.peek("action") == "RestartJobSet":
        rule.take_text("action", "as for every failure of a member")
        reason = "every failure of a member restarts the group"
        rule.ignore_others(
            {
                "name": "names the rule",
                "onJobFailureReasons": reason,
                "targetReplicatedJobs": reason,
            }
        )
    else:
        rule.refuse_field(
            "action",
            f"is {validation.quote(rule.peek('action'))}; only RestartJobSet is supported: every"
            " failure of a member restarts the group up to maxRestarts, and without maxRestarts"
            " the group fails. Remove the rule if that will do",
        )


def _read_success_policy(spec: ManifestObject, roles: list[RoleTemplate]) -> Document | None:
    policy = spec.open("successPolicy")
    operator = policy.take_text("operator", "completion")
    targets = policy.take_names("targetReplicatedJobs", "completion.roles")
    policy.ignore_others({})
    if operator is None and not targets:
        return None
    completion: Document = {"roles": targets or [role.name for role in roles]}
    if operator == "Any":
        completion["count"] = 1
    return completion
