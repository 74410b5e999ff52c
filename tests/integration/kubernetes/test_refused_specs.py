"""Pod specs that the API server refuses fail their runs with its own words, and no others."""

import json
import urllib.error
from typing import Any, Final

import pytest

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.domain.pods import SUCCEEDED
from tests.integration.kubernetes.conftest import RealWorld
from tests.integration.kubernetes.pod_spec_schema import CONTAINER, Json, Schema

pytestmark = pytest.mark.kubernetes

SET_BY_FAIRLEAD: Final = {"terminationGracePeriodSeconds", "nodeName", "priorityClassName"}
"""Fields of a pod whose value is that of the job, not that of its spec."""
MAIN: Final[Json] = {"name": "main", "image": "x"}
VOLUME: Final[Json] = {"name": "v", "emptyDir": {}}
TERM: Final = {"key": "a", "operator": "Near", "values": ["b"]}
SPREAD: Final = {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}


def of_container(**fields: Any) -> Json:
    """`Any`: JSON."""
    return {"containers": [{**MAIN, **fields}]}


def of_pod(**fields: Any) -> Json:
    """`Any`: JSON."""
    return {"containers": [MAIN], **fields}


INVALID: Final[dict[str, Json]] = {
    "containers[0].name": of_container(name="Not Valid"),
    "containers[1].name": {"containers": [MAIN, MAIN]},
    "containers[0].image": of_container(image=" x"),
    "containers[0].imagePullPolicy": of_container(imagePullPolicy="Sometimes"),
    "containers[0].env[0].name": of_container(env=[{"name": "a=b"}]),
    "containers[0].env[0].valueFrom": of_container(env=[{"name": "A", "valueFrom": {}}]),
    "containers[0].envFrom": of_container(envFrom=[{}]),
    "containers[0].ports[0].containerPort": of_container(ports=[{"containerPort": 99999}]),
    "containers[0].resources.requests": of_container(
        resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    ),
    "containers[0].resources.claims[0]": of_container(resources={"claims": [{"name": "no"}]}),
    "containers[0].volumeMounts[0].name": of_container(
        volumeMounts=[{"name": "missing", "mountPath": "/a"}]
    ),
    "containers[0].volumeDevices[0].name": of_container(
        volumeDevices=[{"name": "missing", "devicePath": "/a"}]
    ),
    "containers[0].livenessProbe": of_container(livenessProbe={"periodSeconds": -1}),
    "containers[0].lifecycle.preStop": of_container(lifecycle={"preStop": {}}),
    "containers[0].securityContext": of_container(securityContext={"runAsUser": -1}),
    "containers[0].terminationMessagePolicy": of_container(terminationMessagePolicy="No"),
    "initContainers[0].restartPolicy": of_pod(
        initContainers=[{**MAIN, "name": "init", "restartPolicy": "Often"}]
    ),
    "ephemeralContainers": of_pod(ephemeralContainers=[{**MAIN, "name": "debug"}]),
    "volumes[1].name": of_pod(volumes=[VOLUME, VOLUME]),
    "volumes[0]": of_pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
    "affinity.nodeAffinity": of_pod(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [TERM]}]
                }
            }
        }
    ),
    "affinity.podAntiAffinity": of_pod(
        affinity={
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
        }
    ),
    "nodeSelector": of_pod(nodeSelector={"not valid": "a"}),
    "tolerations[0].operator": of_pod(tolerations=[{"key": "a", "operator": "Near"}]),
    "topologySpreadConstraints[0].maxSkew": of_pod(topologySpreadConstraints=[SPREAD]),
    "securityContext.fsGroup": of_pod(securityContext={"fsGroup": -1}),
    "dnsPolicy": of_pod(dnsPolicy="Any"),
    "dnsConfig.nameservers[0]": of_pod(dnsConfig={"nameservers": ["a"]}),
    "hostAliases[0].ip": of_pod(hostAliases=[{"ip": "a", "hostnames": ["b"]}]),
    "hostname": of_pod(hostname="Not Valid"),
    "restartPolicy": of_pod(restartPolicy="No"),
    "readinessGates[0].conditionType": of_pod(readinessGates=[{"conditionType": "not valid"}]),
    "schedulingGates[0]": of_pod(schedulingGates=[{"name": "not valid"}]),
    "serviceAccountName": of_pod(serviceAccountName="Not Valid"),
    "resourceClaims[0]": of_pod(resourceClaims=[{"name": "a"}]),
    "Overhead": of_pod(overhead={"cpu": "1"}),
    "RuntimeClass": of_pod(runtimeClassName="missing"),
    "PreemptionPolicy": of_pod(preemptionPolicy="Sometimes"),
    "os": of_pod(os={"name": "plan9"}),
    "resources": of_pod(resources={"requests": {"nvidia.com/gpu": "1"}}),
    "activeDeadlineSeconds": of_pod(activeDeadlineSeconds=0),
}
"""A spec that is not valid for each family of fields; the server names the field, the key."""


def wrong_types(schema: Schema) -> dict[str, Json]:
    """For each field of a pod and of a container, a spec in which it has an impossible value."""
    found = {
        f"spec.{field}": of_pod(**{field: _wrong(variants)})
        for field, variants in schema.make_fields().items()
        if field not in SET_BY_FAIRLEAD
    }
    for field, variants in schema.make_fields(CONTAINER).items():
        found[f"spec.containers.{field}"] = of_container(**{field: _wrong(variants)})
    return found


def _wrong(variants: list[Any]) -> object:  # `Any`: JSON
    return "wrong" if isinstance(variants[0], dict) else {"a": 1}


def words_of_the_server(world: RealWorld, spec: Json) -> str:
    """What the API server answers to this spec, without the name of the pod."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dry"}, "spec": spec}
    try:
        world.plane.request("POST", f"{world.path}/pods?dryRun=All", body)
    except urllib.error.HTTPError as error:
        message: str = json.loads(error.read())["message"]
        return message.removeprefix('Pod "dry" is invalid: ').removeprefix('pods "dry" ')
    raise AssertionError(f"the API server accepts {spec}")


async def test_a_refused_field_fails_its_run_with_the_words_of_the_server_and_no_other(
    world: RealWorld,
) -> None:
    schema = Schema(world.plane.request("GET", "/openapi/v3/api/v1"))
    specs = {**INVALID, **wrong_types(schema)}
    expected = {name: words_of_the_server(world, spec) for name, spec in specs.items()}
    assert not [name for name, text in expected.items() if name in INVALID and name not in text]
    await world.open()
    first = world.run("first", annotations={"run-for": "10ms"})
    refused: dict[str, RunId] = {
        name: world.run(f"r{number:03}x", spec=spec)
        for number, (name, spec) in enumerate(specs.items())
    }
    last = world.run("last", annotations={"run-for": "10ms"})
    for name, run in refused.items():
        end = (await world.until_ended(run)).end
        assert end is not None
        assert end.category is FailureCategory.ADMISSION, name
        assert expected[name] in end.reason, name
    for run in (first, last):
        assert (await world.until_ended(run)).end == SUCCEEDED
    assert {pod["metadata"]["name"] for pod in world.pods()} == {first, last}
