"""TrainingJobs of PaddlePaddle (`paddlepaddle.org`): a group of masters, parameter servers and
trainers.

Source: the parser of PaddlePaddle's controller, whose commands and variables members get as well.
"""

import shlex
from typing import Final

import msgspec

from fairlead_submit.domain.manifests.group_roles import (
    ConvertedGroup,
    RoleTemplate,
    make_group,
    point_at_fields,
)
from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import Document, read_metadata

IMAGE: Final = "paddlepaddle/paddlecloud-job"
"""What a TrainingJob without `image` uses."""
ETCD_IMAGE: Final = "quay.io/coreos/etcd:v3.5.21"
PORT: Final = 7164
_ANY_CLIENT: Final = "http://0.0.0.0:2379"
_MASTER_AMOUNTS: Final = {"cpu": "1", "memory": "500Mi"}

_REASONS: Final = {
    "annotations": "use metadata.annotations",
    "host_network": "members have addresses of their own",
    "mounts": "use volumes and volumeMounts",
}
_ROLE: Final = {"replicaSpec": "Fairlead makes the pods itself"}


class _Common(msgspec.Struct, frozen=True):
    """What the containers of all roles have in common."""

    image: str
    env: dict[str, str]
    volumes: list[dict[str, object]]
    mounts: list[dict[str, object]]
    pull_secrets: list[dict[str, object]]
    node_selector: dict[str, str]


def read_training_job(manifest: ManifestObject, members_max: int) -> ConvertedGroup:
    """Take a TrainingJob: its metadata and the group that it becomes."""
    metadata = read_metadata(manifest)
    spec = manifest.open("spec")
    tolerant = spec.take_flag("fault_tolerant", "onMemberFailure: restartMember")
    trainers, servers, master = spec.open("trainer"), spec.open("pserver"), spec.open("master")
    if not spec.has("trainer"):
        spec.refuse_field("trainer", "is missing")
    common = _read_common(spec, metadata.name, trainers, servers)
    which = "new_" if tolerant else ""
    roles = []
    if tolerant:
        roles.append(_read_master(master, common))
    elif spec.has("master"):
        spec.ignore_field("master", "only a job with fault_tolerant has a master")
    else:
        master.ignore_others({})
    if spec.has("pserver"):
        command = ["paddle_k8s", f"start_{which}pserver"]
        roles.append(_read_role(servers, "pserver", common, command, members_max))
    command = ["paddle_k8s", f"start_{which}trainer"]
    trainer = _read_role(trainers, "trainer", common, command, members_max)
    if not tolerant and trainer.least != trainer.count:
        trainers.refuse_field(
            "max-instance", "differs from min-instance, which needs fault_tolerant: true"
        )
    roles.append(trainer)
    spec.ignore_others(_REASONS)
    manifest.ignore_others({"status": "the group is new"}, silent=("apiVersion", "kind"))
    return make_group(
        metadata,
        roles,
        [role.count if role.least is None else role.least for role in roles],
        {},
        completion={"roles": ["trainer"]},
        onMemberFailure="restartMember" if tolerant else "fail",
        startup=[role.name for role in roles],
        network={"headlessService": True},
    )


def _read_common(
    spec: ManifestObject, name: str, trainers: ManifestObject, servers: ManifestObject
) -> _Common:
    """Take what applies to all roles, and make the variables that Paddle's programs read."""
    numbers = {
        "PADDLE_INIT_PORT": (spec.take_count("port", "PADDLE_INIT_PORT"), PORT),
        "PADDLE_INIT_PORTS_NUM": (spec.take_count("ports_num", "PADDLE_INIT_PORTS_NUM"), 1),
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": (
            spec.take_count("ports_num_for_sparse", "PADDLE_INIT_PORTS_NUM_FOR_SPARSE"),
            1,
        ),
        "PADDLE_INIT_NUM_PASSES": (spec.take_count("passes", "PADDLE_INIT_NUM_PASSES"), 1),
    }
    trainer_count = trainers.peek("min-instance") or 1
    env = {
        "PADDLE_JOB_NAME": name,
        "TRAINERS": str(trainer_count),
        "PSERVERS": str(servers.peek("min-instance") or 1),
        "ENTRY": trainers.peek_text("entrypoint"),
        "TRAINER_PACKAGE": trainers.peek_text("workspace"),
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": str(trainer_count),
        **{
            name: str(default if given is None else given)
            for name, (given, default) in numbers.items()
        },
    }
    return _Common(
        image=spec.take_text("image", "the image of all members") or IMAGE,
        env=env,
        volumes=spec.take_objects("volumes", "volumes of all members"),
        mounts=spec.take_objects("volumeMounts", "volumeMounts of all members"),
        pull_secrets=spec.take_objects("imagePullSecrets", "imagePullSecrets of all members"),
        node_selector=spec.take_texts("NodeSelector", "nodeSelector of all members"),
    )


def _read_role(
    item: ManifestObject, name: str, common: _Common, command: list[str], members_max: int
) -> RoleTemplate:
    """Parameter servers or trainers, from `min-instance` to `max-instance`."""
    least = item.take_count("min-instance", f"min of role {name}", least=1)
    most = item.take_count("max-instance", f"max of role {name}", least=1)
    least = 1 if least is None else least
    most = least if most is None else most
    if most > members_max:
        item.refuse_field("max-instance", f"is {most}; a group has at most {members_max} members")
        most = least
    if name == "trainer":
        item.take_text("workspace", "TRAINER_PACKAGE")
    pod = _make_pod(item, name, common, command)
    bounds = {
        "min": "min-instance" if item.has("min-instance") else "max-instance",
        "max": "max-instance" if item.has("max-instance") else "min-instance",
    }
    item.ignore_others(_ROLE)
    places = point_at_fields(item, **bounds)
    return RoleTemplate(name, most, least, {"podSpec": pod}, item.pointer, places)


def _read_master(item: ManifestObject, common: _Common) -> RoleTemplate:
    """The master, with etcd in its pod unless the job names an endpoint."""
    endpoint = item.take_text("etcd-endpoint", "ETCD_ENDPOINT")
    pod = _make_pod(item, "master", common, ["paddle_k8s", "start_master"])
    (container,) = pod["containers"]
    container.setdefault("resources", {"requests": dict(_MASTER_AMOUNTS)})
    address = endpoint or "http://127.0.0.1:2379"
    container["env"].append({"name": "ETCD_ENDPOINT", "value": address})
    if not endpoint:
        pod["containers"].append(
            {
                "name": "etcd",
                "image": ETCD_IMAGE,
                "command": [
                    "etcd",
                    f"--listen-client-urls={_ANY_CLIENT}",
                    f"--advertise-client-urls={_ANY_CLIENT}",
                ],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            }
        )
    item.ignore_others(_ROLE)
    return RoleTemplate("master", 1, 1, {"podSpec": pod}, item.pointer)


def _make_pod(item: ManifestObject, name: str, common: _Common, command: list[str]) -> Document:
    """The pod of a role. An `entrypoint` takes the place of Paddle's start command."""
    entry = item.take_text("entrypoint", "the command of the members")
    if entry:
        try:
            command = shlex.split(entry)
        except ValueError as error:
            item.refuse_field("entrypoint", f"is not a valid command: {error}")
    env = {**common.env, **item.take_texts("envs", "variables of the members")}
    container: Document = {
        "name": name,
        "image": common.image,
        "command": command,
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    resources = item.take_whole("resources", "resources of the members")
    if resources is not None:
        container["resources"] = resources
    if common.mounts:
        container["volumeMounts"] = common.mounts
    pod: Document = {"containers": [container]}
    selector = {**common.node_selector, **item.take_texts("nodeSelector", "nodeSelector")}
    if selector:
        pod["nodeSelector"] = selector
    if tolerations := item.take_objects("tolerations", "tolerations"):
        pod["tolerations"] = tolerations
    if common.volumes:
        pod["volumes"] = common.volumes
    if common.pull_secrets:
        pod["imagePullSecrets"] = common.pull_secrets
    return pod
