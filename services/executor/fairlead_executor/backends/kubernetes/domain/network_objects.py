"""The services and ingresses of a run, which Kubernetes removes together with its pod. Pure.

They are recorded in an annotation of the pod, so that an executor that is started after the pod was
created, and before they were, creates them.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_common.domain.records.events import NetworkObject
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject

ANNOTATION: Final = "fairlead.dev/network-objects"

Json = dict[str, Any]
"""A JSON object. `Any`: JSON."""


class NetworkObjects(msgspec.Struct, frozen=True, omit_defaults=True):
    """The services and ingresses of a run, as in its lease."""

    services: tuple[NetworkObject, ...] = ()
    ingresses: tuple[NetworkObject, ...] = ()


class Creation(msgspec.Struct, frozen=True):
    """An object to create, and the path of its collection. `name`: as the job names it."""

    kind: str
    name: str
    path: str
    body: Json


def encode_annotation(lease: Lease) -> str | None:
    """The text of the annotation; None: the run has no such objects."""
    if not lease.services and not lease.ingresses:
        return None
    return msgspec.json.encode(NetworkObjects(lease.services, lease.ingresses)).decode()


def list_creations(pod: PodObject, labels: Json, selector: Json) -> list[Creation]:
    """What to create for a pod: services first, which ingresses refer to.

    `labels` of the objects, and the `selector` of the pod. Raises `msgspec.DecodeError` for an
    annotation that somebody else wrote.
    """
    text = pod.metadata.annotations.get(ANNOTATION)
    if text is None:
        return []
    objects = msgspec.json.decode(text, type=NetworkObjects)
    namespace = pod.metadata.namespace
    suffix = f"-{pod.metadata.name}"
    created = []
    for item in objects.services:
        spec = {**msgspec.json.decode(item.spec, type=Json), "selector": selector}
        body = _build(pod, item, "v1", "Service", labels, spec)
        path = f"/api/v1/namespaces/{namespace}/services"
        created.append(Creation("service", item.name, path, body))
    services = {item.name for item in objects.services}

    def rename(name: object) -> object:
        return f"{name}{suffix}" if name in services else name

    for item in objects.ingresses:
        spec = msgspec.json.decode(item.spec, type=Json)
        _rename_services(spec, rename)
        body = _build(pod, item, "networking.k8s.io/v1", "Ingress", labels, spec)
        path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"
        created.append(Creation("ingress", item.name, path, body))
    return created


def _build(
    pod: PodObject, item: NetworkObject, version: str, kind: str, labels: Json, spec: Json
) -> Json:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
    }
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": f"{item.name}-{pod.metadata.name}",
            "namespace": pod.metadata.namespace,
            "labels": labels,
            "annotations": item.annotations,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _rename_services(value: object, rename: Callable[[object], object]) -> None:
    """Rename the service of each backend, wherever it is in the spec of an ingress."""
    if isinstance(value, list):
        for item in value:
            _rename_services(item, rename)
    elif isinstance(value, dict):
        service = value.get("service")
        if isinstance(service, dict) and isinstance(service.get("name"), str):
            service["name"] = rename(service["name"])
        for item in value.values():
            _rename_services(item, rename)
