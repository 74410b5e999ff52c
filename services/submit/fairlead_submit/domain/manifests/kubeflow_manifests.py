"""Training jobs of Kubeflow (`kubeflow.org`): groups in which members find each other by the
variables of their framework.
"""

import json
from collections.abc import Mapping, Sequence
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
from fairlead_submit.domain.manifests.pod_manifests import Document, add_variable, read_metadata

TF_PORT: Final = 2222
"""The port of TensorFlow's servers, if a template has no port `tfjob-port`."""
_TF_PORT_NAME: Final = "tfjob-port"
_NEVER: Final = "Never"

_RUN_POLICY: Final = {
    "cleanPodPolicy": "all other members are stopped when the group has completed",
    "managedBy": "Fairlead manages the group",
    "ttlSecondsAfterFinished": "the server's retention settings apply to all jobs",
}
_SCHEDULING: Final = {
    "minResources": "the minima of the roles say what the group needs",
    "scheduleTimeoutSeconds": "a group waits until it fits; `fairlead group cancel` ends that",
}
_ELASTIC: Final = {
    "metrics": "the group grows when capacity is free",
    "nProcPerNode": "use nprocPerNode of the job",
    "rdzvHost": "members meet at the first master, or the first worker",
    "rdzvId": "members meet at the first master, or the first worker",
    "rdzvPort": "the port follows from the id of the group",
}


class _RunPolicy(msgspec.Struct, frozen=True):
    """What the run policy says about the group."""

    queue: str | None
    priority_class: str | None
    minima: list[int]
    restarts: int | None
    places: dict[str, str]


def read_pytorch_job(manifest: ManifestObject, members_max: int) -> ConvertedGroup:
    """Take a PyTorchJob: its metadata and the group that it becomes."""
    spec = manifest.open("spec")
    roles, on_failure = _read_roles(
        spec, "pytorchReplicaSpecs", ("Master", "Worker"), members_max, "OnFailure"
    )
    processes = _take_text_or_count(spec, "nprocPerNode", "PET_NPROC_PER_NODE")
    roles, restarts = _apply_elastic_policy(spec, roles, members_max)
    if processes is not None:
        roles = [_with_variable(role, "PET_NPROC_PER_NODE", processes) for role in roles]
    master = [role.name for role in roles if role.name == "master"]
    return _finish(
        manifest,
        spec,
        roles,
        on_failure,
        completion={"roles": master} if master else None,
        network={"headlessService": True, "rendezvous": "torch"},
        restarts=restarts,
    )


def read_tf_job(manifest: ManifestObject, members_max: int) -> ConvertedGroup:
    """Take a TFJob: its metadata and the group that it becomes.

    Members find each other by host names in `TF_CONFIG`, as Kubernetes resolves them.
    """
    name = manifest.open_silently("metadata").peek_text("name")
    spec = manifest.open("spec")
    roles, on_failure = _read_roles(
        spec,
        "tfReplicaSpecs",
        ("Chief", "Master", "PS", "Worker", "Evaluator"),
        members_max,
        _NEVER,
    )
    success = spec.take_text("successPolicy", "completion")
    spec.ignore_field("enableDynamicWorker", "PATCH of the group changes the number of workers")
    chief = [role.name for role in roles if role.name in ("chief", "master")]
    workers = [role.name for role in roles if role.name == "worker"]
    completing = workers if success == "AllWorkers" or not chief else chief
    addresses = {
        role.name: [
            f"{role.name}-{index}.{name}:{_find_port(role.template)}" for index in range(role.count)
        ]
        for role in roles
        if role.name != "evaluator"
    }
    return _finish(
        manifest,
        spec,
        [_with_variable(role, "TF_CONFIG", _make_tf_config(addresses, role)) for role in roles],
        on_failure,
        completion={"roles": completing} if completing else None,
        network={"headlessService": True},
    )


def read_mpi_job(manifest: ManifestObject, members_max: int) -> ConvertedGroup:
    """Take an MPIJob: its metadata and the group that it becomes. Workers start first."""
    spec = manifest.open("spec")
    roles, on_failure = _read_roles(
        spec, "mpiReplicaSpecs", ("Launcher", "Worker"), members_max, _NEVER
    )
    slots = _take_text_or_count(spec, "slotsPerWorker", "MPI_SLOTS_PER_WORKER")
    if slots is not None:
        roles = [_with_variable(role, "MPI_SLOTS_PER_WORKER", slots) for role in roles]
    spec.ignore_field(
        "sshAuthMountPath", "Fairlead makes no keys for SSH: the image or a volume has to have them"
    )
    spec.ignore_field("launcherCreationPolicy", "the launcher starts when the workers run")
    spec.ignore_field(
        "mpiImplementation", "the launcher makes its host file from FAIRLEAD_GROUP_FILE"
    )
    launcher = [role.name for role in roles if role.name == "launcher"]
    if not launcher:
        spec.open_silently("mpiReplicaSpecs").refuse_field("Launcher", "is missing")
    return _finish(
        manifest,
        spec,
        roles,
        on_failure,
        completion={"roles": launcher} if launcher else None,
        network={"headlessService": True},
        startup=[role.name for role in reversed(roles)],
    )


def _read_roles(
    spec: ManifestObject,
    field: str,
    names: Sequence[str],
    members_max: int,
    default_policy: str,
) -> tuple[list[RoleTemplate], str]:
    """The roles in the order of `names`, and what the failure of a member means.

    Kubeflow decides about the restart of each role, Fairlead about that of the whole group.
    """
    given = spec.open(field)
    if not given.names():
        spec.refuse_field(field, "has no role; at least one is required")
    for unknown in given.names():
        if unknown not in names:
            given.refuse_field(unknown, f"is not a role of this kind: {', '.join(names)}")
    roles: list[RoleTemplate] = []
    policies: list[tuple[ManifestObject, str]] = []
    for name in names:
        if not given.has(name):
            continue
        item = given.open(name)
        policy = item.take_text("restartPolicy", "onMemberFailure") or default_policy
        policies.append((item, policy))
        count = take_replicas(item, members_max)
        roles.append(
            RoleTemplate(
                name.lower(),
                count,
                None,
                read_template(item),
                point_at_pod_spec(item),
                point_at_fields(item, min="replicas", max="replicas"),
            )
        )
        item.ignore_others({})
    restarts = any(policy != _NEVER for _, policy in policies)
    for item, policy in policies:
        if restarts and policy == _NEVER:
            item.ignore_field("restartPolicy", "members restart, because those of another role do")
    return roles, "restartMember" if restarts else "fail"


def _apply_elastic_policy(
    spec: ManifestObject, roles: list[RoleTemplate], members_max: int
) -> tuple[list[RoleTemplate], int | None]:
    """The roles with workers from `minReplicas` to `maxReplicas`, and the limit of restarts."""
    if not spec.has("elasticPolicy"):
        return roles, None
    policy = spec.open("elasticPolicy")
    least = policy.take_count("minReplicas", "min of role worker", least=1)
    most = policy.take_count("maxReplicas", "max of role worker", least=1)
    if most is not None and most > members_max:
        policy.refuse_field("maxReplicas", f"is {most}; a group has at most {members_max} members")
    restarts = policy.take_count("maxRestarts", RESTART_LIMIT)
    backend = policy.take_text("rdzvBackend", "PET_RDZV_BACKEND") or "c10d"
    policy.ignore_others(_ELASTIC)
    made = []
    for role in roles:
        if role.name != "worker":
            made.append(role)
            continue
        low = role.count if least is None else least
        high = role.count if most is None else most
        variables = {
            "PET_NNODES": f"{low}:{high}",
            "PET_RDZV_BACKEND": backend,
            "PET_RDZV_ENDPOINT": "$(MASTER_ADDR):$(MASTER_PORT)",
        }
        bounds = {
            name: f"{policy.pointer}/{field}"
            for name, field in (("min", "minReplicas"), ("max", "maxReplicas"))
            if policy.has(field)
        }
        changed = msgspec.structs.replace(
            role, count=high, least=low, places={**role.places, **bounds}
        )
        for name, value in variables.items():
            changed = _with_variable(changed, name, value)
        made.append(changed)
    return made, restarts


def _finish(
    manifest: ManifestObject,
    spec: ManifestObject,
    roles: list[RoleTemplate],
    on_failure: str,
    *,
    restarts: int | None = None,
    **terms: object,
) -> ConvertedGroup:
    """The group, after the metadata and the run policy."""
    metadata = read_metadata(manifest)
    policy = _read_run_policy(spec, roles)
    spec.ignore_others(_RUN_POLICY)
    manifest.ignore_others({"status": "the group is new"}, silent=("apiVersion", "kind"))
    limit = policy.restarts if restarts is None else restarts
    return make_group(
        msgspec.structs.replace(metadata, queue=metadata.queue or policy.queue or ""),
        roles,
        policy.minima,
        policy.places,
        onMemberFailure=on_failure,
        restartLimit=None if limit is None else min(limit, RESTARTS_MAX),
        priorityClass=policy.priority_class,
        **terms,
    )


def _read_run_policy(spec: ManifestObject, roles: Sequence[RoleTemplate]) -> _RunPolicy:
    """Take `runPolicy`, and what older versions have in the spec itself."""
    policy = spec.open("runPolicy")
    deadline = policy.take_count(
        "activeDeadlineSeconds", "maxRuntimeSeconds of each member", least=1
    )
    suspended = policy.take_flag("suspend", "hold")
    for role in roles:
        if deadline is not None:
            role.template["maxRuntimeSeconds"] = deadline
        if suspended:
            role.template["hold"] = True
    restarts = policy.take_count("backoffLimit", RESTART_LIMIT)
    scheduling = policy.open("schedulingPolicy")
    minima = take_minima(scheduling, "minAvailable", roles)
    queue = scheduling.take_text("queue", "queue")
    priority_class = scheduling.take_text("priorityClass", "priorityClass")
    scheduling.ignore_others(_SCHEDULING)
    policy.ignore_others(_RUN_POLICY)
    places = {"priorityClass": f"{scheduling.pointer}/priorityClass"}
    for index in range(len(roles)):
        place = f"{policy.pointer}/activeDeadlineSeconds"
        places[f"roles/{index}/template/maxRuntimeSeconds"] = place
    return _RunPolicy(queue, priority_class, minima, restarts, places)


def _make_tf_config(addresses: Mapping[str, Sequence[str]], role: RoleTemplate) -> str:
    """`TF_CONFIG` of the members of a role, which differ in their index."""
    cluster = json.dumps(addresses, separators=(",", ":"))
    index = "$(FAIRLEAD_ROLE_INDEX)"
    return f'{{"cluster":{cluster},"task":{{"type":"{role.name}","index":{index}}}}}'


def _find_port(template: Document) -> int:
    """The port of TensorFlow's server in the containers of a role."""
    containers = template["podSpec"].get("containers")
    for container in containers if isinstance(containers, list) else ():
        ports = container.get("ports") if isinstance(container, dict) else None
        for port in ports if isinstance(ports, list) else ():
            if isinstance(port, dict) and port.get("name") == _TF_PORT_NAME:
                number = port.get("containerPort")
                if isinstance(number, int):
                    return number
    return TF_PORT


def _take_text_or_count(spec: ManifestObject, name: str, becomes: str) -> str | None:
    """A number, or a text like `auto`, as the value of a variable."""
    if isinstance(spec.peek(name), int):
        count = spec.take_count(name, becomes, least=1)
        return None if count is None else str(count)
    return spec.take_text(name, becomes)


def _with_variable(role: RoleTemplate, name: str, value: str) -> RoleTemplate:
    return msgspec.structs.replace(role, template=add_variable(role.template, name, value))
