"""Pod specs that use every field of the schema of an API server, a few variants of each field.

A schema says of which type a field is, and not which values are valid: `VALUES` has values where
the first choice for the type would be refused.
"""

import copy
from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]
"""A JSON object. `Any`: JSON."""

POD_SPEC: Final = "io.k8s.api.core.v1.PodSpec"
CONTAINER: Final = "io.k8s.api.core.v1.Container"

UNIONS: Final[dict[str, set[str]]] = {
    "Volume": {"name"},
    "VolumeProjection": set(),
    "LifecycleHandler": set(),
    "EnvVarSource": set(),
    "EnvFromSource": {"prefix"},
    "EnvVar": {"name"},
    "PodResourceClaim": {"name"},
    "FlockerVolumeSource": set(),
    "DownwardAPIVolumeFile": {"path", "mode", "user"},
    "VolumeMount": {
        *("name", "mountPath", "readOnly", "mountPropagation"),
        *("recursiveReadOnly", "bindMountOptions"),
    },
    "Probe": {
        *("failureThreshold", "initialDelaySeconds", "periodSeconds"),
        *("successThreshold", "timeoutSeconds", "terminationGracePeriodSeconds"),
    },
}
"""Types of which one field at a time is set, beside the named ones."""

_AMOUNTS: Final = {
    "cpu": "1",
    "memory": "1Gi",
    "ephemeral-storage": "2Gi",
    "hugepages-2Mi": "4Mi",
    "nvidia.com/gpu": "1",
}
_SOURCE: Final = {"apiGroup": "example.com", "kind": "Source", "name": "a"}
_CERTIFICATE: Final = {
    "signerName": "example.com/a",
    "keyType": "ED25519",
    "maxExpirationSeconds": 3600,
    "userAnnotations": {"example.com/a": "b"},
}
_NODE_FIELD: Final = {"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}

RUNTIME_CLASS: Final = "with-overhead"
OVERHEAD: Final = {"cpu": "250m"}
"""That of the runtime class, which must exist."""

VALUES: Final[dict[str, list[Any]]] = {
    "AzureDiskVolumeSource.diskURI": ["https://a.blob.core.windows.net/b/c.vhd"],
    "Container.name": ["main"],
    "Container.readinessProbe": [{"exec": {"command": ["a"]}, "periodSeconds": 3}],
    "Container.restartPolicy": ["Never"],
    "ContainerResizePolicy.resourceName": ["cpu"],
    "ContainerResizePolicy.restartPolicy": ["NotRequired"],
    "ContainerRestartRule.action": ["Restart"],
    "ContainerRestartRuleOnExitCodes.operator": ["In"],
    "HostAlias.ip": ["10.0.0.1"],
    "ISCSIVolumeSource.initiatorName": ["iqn.2026-01.com.example:b"],
    "ISCSIVolumeSource.iqn": ["iqn.2026-01.com.example:a"],
    "LabelSelectorRequirement.operator": ["In"],
    "NFSVolumeSource.path": ["/a"],
    "NodeSelectorRequirement.operator": ["In"],
    "NodeSelectorTerm.matchFields": [[_NODE_FIELD]],
    "ObjectFieldSelector.apiVersion": ["v1"],
    "ObjectFieldSelector.fieldPath": ["metadata.name"],
    "PersistentVolumeClaimSpec.dataSource": [_SOURCE],
    "PersistentVolumeClaimSpec.dataSourceRef": [_SOURCE],
    "PersistentVolumeClaimTemplate.metadata": [{"labels": {"a": "b"}, "annotations": {"c": "d"}}],
    "PodAffinityTerm.matchLabelKeys": [["x"]],
    "PodAffinityTerm.mismatchLabelKeys": [["y"]],
    "PodDNSConfig.nameservers": [["10.0.0.1"]],
    "PodOS.name": ["linux"],
    "PodSecurityContext.seLinuxChangePolicy": ["Recursive"],
    "PodSpec.overhead": [OVERHEAD],
    "PodSpec.preemptionPolicy": ["PreemptLowerPriority"],
    "PodSpec.resources": [
        {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}
    ],
    "PodSpec.runtimeClassName": [RUNTIME_CLASS],
    "QuobyteVolumeSource.registry": ["a:80"],
    "ResourceClaim.name": ["claim"],
    "ResourceFieldSelector.containerName": ["main"],
    "ResourceFieldSelector.resource": ["limits.cpu"],
    "ResourceRequirements.limits": [_AMOUNTS],
    "ResourceRequirements.requests": [_AMOUNTS],
    "ServiceAccountTokenProjection.expirationSeconds": [3600],
    "Toleration.operator": ["Equal"],
    "TopologySpreadConstraint.matchLabelKeys": [["x"]],
    "Volume.fc": [{"targetWWNs": ["a"], "lun": 1, "readOnly": True}, {"wwids": ["a"]}],
    "VolumeDevice.devicePath": ["/dev/a"],
    "VolumeDevice.name": ["device"],
    "VolumeMount.mountPath": ["/a"],
    "VolumeMount.mountPropagation": ["None"],
    "VolumeMount.recursiveReadOnly": ["IfPossible"],
    "VolumeProjection.clusterTrustBundle": [
        {"name": "a", "path": "b", "optional": True},
        {
            "signerName": "example.com/a",
            "labelSelector": {"matchLabels": {"b": "c"}},
            "path": "d",
        },
    ],
    "VolumeProjection.podCertificate": [
        {**_CERTIFICATE, "credentialBundlePath": "a"},
        {**_CERTIFICATE, "keyPath": "a", "certificateChainPath": "b"},
    ],
    "VolumeResourceRequirements.limits": [{"storage": "2Gi"}],
    "VolumeResourceRequirements.requests": [{"storage": "1Gi"}],
    "WindowsSecurityContextOptions.hostProcess": [False],
}
"""Variants of the value of a field, by `Type.field`."""

NOT_PASSED: Final = {
    "PodSpec.nodeName": "the node is that of the lease",
    "PodSpec.priorityClassName": "a priority class of Fairlead",
    "PodSpec.priority": "the API server sets it by the priority class",
    "PodSpec.ephemeralContainers": "the API server accepts them for existing pods only",
}
"""Fields that a job cannot give to its pod, with the reason."""

_BESIDE: Final[Json] = {
    "overhead": {"runtimeClassName": RUNTIME_CLASS},
    "volumes": {"serviceAccountName": "default"},
}
"""What some fields need beside them."""

_CONTAINER: Final[Json] = {
    "name": "main",
    "image": "x",
    "restartPolicy": "Never",
    "resources": {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    },
}
_POD: Final[Json] = {
    "containers": [_CONTAINER],
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 30,
    "activeDeadlineSeconds": 1000,
    "enableServiceLinks": True,
    "volumes": [
        {"name": "a", "emptyDir": {}},
        {"name": "device", "persistentVolumeClaim": {"claimName": "a"}},
    ],
    "resourceClaims": [{"name": "claim", "resourceClaimTemplateName": "a"}],
}


def make_pod_specs(schema: "Schema") -> list[tuple[str, Json]]:
    """Valid pod specs that together use all fields, each with the field that it is about."""
    made: list[tuple[str, Json]] = []
    for field, variants in schema.make_fields(CONTAINER).items():
        for variant in variants:
            container = {**_CONTAINER, field: variant}
            made.append((f"containers.{field}", {**_POD, "containers": [container]}))
            sidecar = {**container, "name": "sidecar", "restartPolicy": "Always"}
            made.append((f"initContainers.{field}", {**_POD, "initContainers": [sidecar]}))
    for field, variants in schema.make_fields().items():
        if field not in ("containers", "initContainers"):
            made += [(field, {**_POD, **_BESIDE.get(field, {}), field: it}) for it in variants]
    return copy.deepcopy(made)


class Schema:
    """The schema of pod specs. `document`: what `/openapi/v3/api/v1` answers."""

    def __init__(self, document: Json) -> None:
        self._types: Json = document["components"]["schemas"]
        self.used: set[str] = set()
        """The fields for which a value was made, as `Type.field`."""

    def list_fields(self) -> set[str]:
        """All fields that a pod spec can have, as `Type.field`."""
        found: set[str] = set()
        waiting = [POD_SPEC]
        seen = set(waiting)
        while waiting:
            name = waiting.pop()
            for field, schema in self._types[name].get("properties", {}).items():
                found.add(f"{_short(name)}.{field}")
                target = _find_type(schema)
                if target is not None and target not in seen and not self._is_given(name, field):
                    seen.add(target)
                    waiting.append(target)
        return found

    def _is_given(self, name: str, field: str) -> bool:
        key = f"{_short(name)}.{field}"
        return key in VALUES or key in NOT_PASSED

    def make_variants(self, name: str = POD_SPEC) -> list[Json]:
        """Objects of a type that together use all its fields."""
        kind = _short(name)
        fields = self.make_fields(name)
        common = UNIONS.get(kind)
        if common is None:
            return [_combine(fields, number) for number in range(_most(fields))]
        shared = {field: found for field, found in fields.items() if field in common}
        return [
            {**_combine(shared, 0), field: variant}
            for field, found in fields.items()
            if field not in common
            for variant in found
        ]

    def make_fields(self, name: str = POD_SPEC) -> dict[str, list[Any]]:
        """Variants of the value of each field of a type. `Any`: JSON."""
        return {
            field: self._make_field(name, field, schema)
            for field, schema in self._types[name].get("properties", {}).items()
            if f"{_short(name)}.{field}" not in NOT_PASSED
        }

    def _make_field(self, name: str, field: str, schema: Json) -> list[Any]:
        """Variants of the value of a field. `Any`: JSON."""
        key = f"{_short(name)}.{field}"
        self.used.add(key)
        if key in VALUES:
            return copy.deepcopy(VALUES[key])
        target = _find_type(schema)
        if target is not None and self._types[target].get("properties"):
            variants: list[Any] = self.make_variants(target)
            if schema.get("type") == "array":
                return [[variant] for variant in variants]
            return variants
        value = self._make_leaf(schema, target)
        if schema.get("type") == "array":
            return [[value]]
        if schema.get("type") == "object":
            return [{"a": value}]
        return [value]

    def _make_leaf(self, schema: Json, target: str | None) -> Any:  # `Any`: JSON
        if schema.get("type") in ("array", "object"):
            schema = schema.get("items") or schema.get("additionalProperties") or {}
        if "enum" in schema:
            return next(choice for choice in schema["enum"] if choice)
        match _short(target) if target else schema.get("type"):
            case "boolean":
                return True
            case "integer" | "IntOrString":
                return 1
            case "Quantity":
                return "1"
            case _:
                return "a"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _find_type(schema: Json) -> str | None:
    """The type that a field, its items or its values have, if that has a name."""
    parts = [schema, schema.get("items", {}), schema.get("additionalProperties", {})]
    for part in parts:
        for each in (part, *part.get("allOf", ())) if isinstance(part, dict) else ():
            if "$ref" in each:
                return str(each["$ref"]).rpartition("/")[2]
    return None


def _most(fields: dict[str, list[Any]]) -> int:  # `Any`: JSON
    return max((len(variants) for variants in fields.values()), default=1)


def _combine(fields: dict[str, list[Any]], number: int) -> Json:  # `Any`: JSON
    """An object with variant `number` of each field, or its last one."""
    return {
        field: copy.deepcopy(variants[min(number, len(variants) - 1)])
        for field, variants in fields.items()
        if variants
    }


def list_changes(asked: object, given: object, at: str = "") -> Iterator[str]:
    """What was asked and is not given so; what is given besides is left out."""
    if isinstance(asked, dict) and isinstance(given, dict):
        for name, value in asked.items():
            yield from list_changes(value, given.get(name), f"{at}.{name}")
    elif isinstance(asked, list) and isinstance(given, list) and len(asked) == len(given):
        for number, (one, other) in enumerate(zip(asked, given, strict=True)):
            yield from list_changes(one, other, f"{at}[{number}]")
    elif asked != given:
        yield f"{at}: {asked!r} became {given!r}"
