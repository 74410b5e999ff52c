"""What pods of groups have in common, and the ConfigMap and the headless service of a group. Pure.

The ConfigMap holds the group file; pods mount it as a volume, which their kubelet keeps current.
Both objects are owned by pods of the group, so that Kubernetes removes them if no executor can.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject
from fairlead_executor.domain.cluster_protocol import GroupFile

GROUP: Final = "fairlead.dev/group"
"""The label of the pods and objects of a group."""
FOLDER: Final = "/var/run/fairlead/group"
FILE: Final = "members.json"
VARIABLE: Final = "FAIRLEAD_GROUP_FILE"
_VOLUME: Final = "fairlead-group"
CONTENT_BYTES_MAX: Final = 1_000_000
"""Kubernetes refuses a ConfigMap with more than 1 MiB of data,"""
OWNERS_MAX: Final = 100
"""and its store an object of more than 1.5 MiB: an owner takes about 100 bytes."""

Json = dict[str, Any]
"""A JSON object. `Any`: JSON."""


def name_config_map(group: GroupId) -> str:
    """The name of the ConfigMap of a group."""
    return f"fairlead-group-{group}"


def list_variables(lease: Lease) -> dict[str, str]:
    """The variables of the run, with the path of its group file."""
    if lease.member is None:
        return lease.env
    return {**lease.env, VARIABLE: f"{FOLDER}/{FILE}"}


def join_group(spec: Json, lease: Lease) -> None:
    """Let a pod read its group file, and give it its host name."""
    member = lease.member
    if member is None:
        return
    source = {"name": name_config_map(member.group), "optional": True}
    volumes = spec.get("volumes")
    if volumes is None or isinstance(volumes, list):
        spec["volumes"] = [*(volumes or ()), {"name": _VOLUME, "configMap": source}]
    if member.service:
        spec.setdefault("hostname", f"{member.role}-{member.index}")
        spec.setdefault("subdomain", member.name)


def mount_group_file(container: Json, lease: Lease) -> None:
    """Mount the volume of `join_group` in a container."""
    mounts = container.get("volumeMounts")
    if lease.member is not None and (mounts is None or isinstance(mounts, list)):
        mount = {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}
        container["volumeMounts"] = [*(mounts or ()), mount]


def list_owners(pods: Sequence[PodObject]) -> list[Json]:
    """The owners of the objects of a group: its first pods, and others when the members change."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        }
        for pod in pods[:OWNERS_MAX]
    ]


def build_config_map(
    group: GroupFile, namespace: str, labels: dict[str, str], owners: list[Json]
) -> Json:
    """The ConfigMap with the group file."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name_config_map(group.group),
            "namespace": namespace,
            "labels": {**labels, GROUP: group.group},
            "ownerReferences": owners,
        },
        "data": {FILE: shorten_content(group.content).decode()},
    }


def shorten_content(content: bytes, bytes_max: int = CONTENT_BYTES_MAX) -> bytes:
    """The group file in a form that a ConfigMap holds: of a very large group without hosts, and
    then without the last members, whose number is `omitted`.
    """
    if len(content) <= bytes_max:
        return content
    file = msgspec.json.decode(content)
    members = [{**member, "host": ""} for member in file["members"]]
    content = msgspec.json.encode({**file, "members": members})
    if len(content) > bytes_max:
        count = len(members) * bytes_max // (2 * len(content))
        file = {**file, "members": members[:count], "omitted": len(members) - count}
        content = msgspec.json.encode(file)
    return content


def build_service(
    group: GroupFile, namespace: str, labels: dict[str, str], owners: list[Json]
) -> Json:
    """The headless service, by which `<role>-<index>.<group>` resolves to the address of a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": group.name,
            "namespace": namespace,
            "labels": {**labels, GROUP: group.group},
            "ownerReferences": owners,
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {GROUP: group.group},
        },
    }
