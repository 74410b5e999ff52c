"""Builds the pod of a lease, and what belongs to it, as JSON for the API server. Pure."""

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_common.domain import secret_values
from fairlead_common.domain.ids import RunId, run_id
from fairlead_common.domain.records.leases import Lease
from fairlead_common.domain.secret_values import DecryptionFailed, Keyring
from fairlead_executor.backends.kubernetes.domain import group_manifests, network_objects
from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject
from fairlead_executor.backends.kubernetes.domain.network_objects import Creation
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.domain.environment import MASTER_ADDRESS, is_master
from fairlead_executor.domain.pods import End

PREFIX: Final = "fairlead.dev/"
EXECUTOR: Final = f"{PREFIX}executor"
JOB: Final = f"{PREFIX}job"
RUN: Final = f"{PREFIX}run"
QUEUE: Final = f"{PREFIX}queue"
JOB_SET: Final = f"{PREFIX}job-set"
GANG: Final = f"{PREFIX}gang"
NODE: Final = f"{PREFIX}node"
LOG: Final = f"{PREFIX}log"
RUN_ENDS_AS: Final = f"{PREFIX}run-ends-as"
"""An annotation: how a run ends that was stopped."""
NEVER_STARTS: Final = f"{PREFIX}never-starts"
"""An annotation: the end of a run that must not start; such a pod is never scheduled."""
FINALIZER: Final = f"{PREFIX}report"
"""Kubernetes removes a pod only after its end was reported to the log."""

Json = dict[str, Any]
"""A JSON object. `Any`: JSON."""

_LABEL: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_GANG_NAME: Final = "FAIRLEAD_GANG_NAME"
_NODE_FIELD: Final = "metadata.name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class Refused(Exception):
    """The lease has no pod that can be built; the message says why."""


class Owner(msgspec.Struct, frozen=True):
    """Whose pods: an executor's, of the installation with this log (a digest of the log's id)."""

    executor: str
    log: str

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its pods."""
        return {EXECUTOR: self.executor, LOG: self.log}


class Manifest(msgspec.Struct, frozen=True):
    """A pod as JSON, and the secret values that its containers refer to, by their keys."""

    pod: Json
    secrets: Mapping[str, str] = {}


def build_pod(
    lease: Lease, owner: Owner, settings: KubernetesSettings, keyring: Keyring
) -> Manifest:
    """The pod of a lease. Raises `Refused`."""
    try:
        spec = msgspec.json.decode(bytes(lease.spec), type=Json)
    except msgspec.DecodeError as error:
        raise Refused(f"its pod spec cannot be read: {error}") from error
    spec = {**settings.pod_defaults, **spec}
    spec.setdefault("restartPolicy", "Never")
    spec["terminationGracePeriodSeconds"] = lease.grace_s
    if lease.runtime_s_max is not None:
        spec["activeDeadlineSeconds"] = lease.runtime_s_max
    run = run_id(lease.job_id, lease.run)
    secrets = _replace_sealed_values(spec, lease, run, keyring)
    group_manifests.join_group(spec, lease)
    for container in _containers(spec):
        _add_environment(container, group_manifests.list_variables(lease))
        group_manifests.mount_group_file(container, lease)
        if is_master(lease):
            _add_own_address(container)
        if settings.default_image:
            container.setdefault("image", settings.default_image)
    if settings.binding == "direct":
        spec["nodeName"] = lease.node
    else:
        _require_node(spec, lease.node)
    metadata = {
        "name": run,
        "namespace": lease.namespace,
        "labels": _labels(lease, owner),
        "annotations": _annotations(lease),
        "finalizers": [FINALIZER],
    }
    return Manifest(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, secrets
    )


def build_placeholder_pod(run: RunId, namespace: str, owner: Owner, end: End) -> Json:
    """A pod that takes the name of a run that must never start, and is never scheduled.

    It meets the Pod Security Standard "restricted", so that namespaces that enforce it take it.
    """
    job, _, number = run.rpartition("-")
    secure = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    amounts = {"cpu": "1m", "memory": "1Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": run,
            "namespace": namespace,
            "labels": {**owner.labels, JOB: job, RUN: number},
            "annotations": {NEVER_STARTS: encode_end(end)},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "schedulingGates": [{"name": NEVER_STARTS}],
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "never-starts",
                    "image": "registry.k8s.io/pause:3.10",
                    "securityContext": secure,
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
    }


def build_secret(pod: PodObject, owner: Owner, secrets: Mapping[str, str]) -> Json:
    """The Secret with the values of a pod, which Kubernetes removes together with the pod."""
    name, uid = pod.metadata.name, pod.metadata.uid
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": {
            "name": name,
            "namespace": pod.metadata.namespace,
            "labels": owner.labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}],
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in secrets.items()},
    }


def build_network_objects(pod: PodObject, owner: Owner) -> list[Creation]:
    """The services and ingresses of a pod. Raises `msgspec.DecodeError`."""
    labels = pod.metadata.labels
    selector = {JOB: labels[JOB], RUN: labels[RUN]}
    return network_objects.list_creations(pod, {**owner.labels, **selector}, selector)


def encode_end(end: End) -> str:
    """An end as the text of an annotation."""
    return msgspec.json.encode(end).decode()


def run_of_pod(pod: PodObject, owner: Owner) -> RunId | None:
    """Which run of this owner a pod is; None if it belongs to somebody else.

    A pod that is not named after its run was made by somebody who copied labels.
    """
    labels = pod.metadata.labels
    if any(labels.get(name) != value for name, value in owner.labels.items()):
        return None
    run = f"{labels.get(JOB)}-{labels.get(RUN)}"
    return RunId(run) if pod.metadata.name == run else None


def _labels(lease: Lease, owner: Owner) -> dict[str, str]:
    """Names that are not valid as values of labels are found in the annotations only."""
    known = {QUEUE: lease.queue, JOB_SET: lease.job_set, GANG: lease.env.get(_GANG_NAME, "")}
    valid = {name: value for name, value in known.items() if value and _LABEL.fullmatch(value)}
    own = {**owner.labels, JOB: lease.job_id, RUN: str(lease.run)}
    if lease.member is not None:
        own[group_manifests.GROUP] = lease.member.group
    return {**_without_ours(lease.labels), **valid, **own}


def _annotations(lease: Lease) -> dict[str, str]:
    known = {QUEUE: lease.queue, JOB_SET: lease.job_set, NODE: lease.node}
    if objects := network_objects.encode_annotation(lease):
        known[network_objects.ANNOTATION] = objects
    if gang := lease.env.get(_GANG_NAME):
        known[GANG] = gang
    return {**_without_ours(lease.annotations), **known}


def _without_ours(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if not name.startswith(PREFIX)}


def _containers(spec: Json) -> list[Json]:
    found = []
    for field in ("containers", "initContainers"):
        items = spec.get(field)
        if isinstance(items, list):
            found += [item for item in items if isinstance(item, dict)]
    return found


def _add_environment(container: Json, env: Mapping[str, str]) -> None:
    """Put these variables first, so that others can refer to them; they override the job's own."""
    given = container.get("env") or []
    if not isinstance(given, list):
        return  # the API server refuses it
    own = [item for item in given if not (isinstance(item, dict) and item.get("name") in env)]
    container["env"] = [*({"name": name, "value": value} for name, value in env.items()), *own]


def _add_own_address(container: Json) -> None:
    """Give the member at which its group meets its own address, which only Kubernetes knows."""
    given = container.get("env")
    if isinstance(given, list):
        own = {"name": MASTER_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        others = [
            item
            for item in given
            if not (isinstance(item, dict) and item.get("name") == MASTER_ADDRESS)
        ]
        container["env"] = [own, *others]


def _replace_sealed_values(
    spec: Json, lease: Lease, run: RunId, keyring: Keyring
) -> dict[str, str]:
    """Replace sealed values by references to a Secret named as the run; its keys and values."""
    if not secret_values.has_sealed(bytes(lease.spec)):
        return {}
    found: dict[str, str] = {}
    for _, variable in secret_values.variables(spec):
        sealed = variable.pop(secret_values.SEALED, None)
        if sealed is None:
            continue
        try:
            value = keyring.open(lease.queue, sealed)
        except DecryptionFailed as error:
            name = variable.get("name")
            raise Refused(f"its secret variable {name} cannot be opened: {error}") from error
        key = f"v{len(found)}"
        found[key] = value
        variable.pop("value", None)
        variable["valueFrom"] = {"secretKeyRef": {"name": run, "key": key}}
    return found


def _require_node(spec: Json, node: str) -> None:
    """Add the node's name to each term of the required node affinity, terms being alternatives.

    An affinity of another form than Kubernetes knows stays as it is: the API server refuses it.
    """
    field = {"key": _NODE_FIELD, "operator": "In", "values": [node]}
    affinity = spec.get("affinity") or {}
    node_affinity = _field(affinity, "nodeAffinity", {})
    required = _field(node_affinity, _REQUIRED, {})
    terms = _field(required, "nodeSelectorTerms", [{}])
    if not isinstance(terms, list):
        return
    fields = [_field(term, "matchFields", []) for term in terms]
    if not all(isinstance(given, list) for given in fields):
        return
    required = {
        **required,
        "nodeSelectorTerms": [
            {**term, "matchFields": [*given, field]}
            for term, given in zip(terms, fields, strict=True)
        ],
    }
    spec["affinity"] = {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: required}}


def _field(item: Any, name: str, default: Any) -> Any:  # `Any`: JSON
    """A field of an object, `default` if it is not set; None if this is not an object."""
    return (item.get(name) or default) if isinstance(item, dict) else None
