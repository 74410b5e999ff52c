"""Devices of dynamic resource allocation: what nodes offer, and runs that get some."""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from fairlead_executor.backends.kubernetes.device_watches import CLASSES, SLICES
from tests.integration.kubernetes.conftest import RealWorld
from tests.integration.kubernetes.test_fates import runs
from tests.unit.executor.kubernetes.world import class_object, slice_object

pytestmark = pytest.mark.kubernetes

RESOURCE: Final = "gpu.example.com"


@pytest.fixture
async def node(world: RealWorld) -> AsyncIterator[str]:
    """A node with four devices of a class of its own; its name is that of the class and slice."""
    name = f"{world.namespace}-devices"
    world.plane.add_nodes(name)
    # Other tests have devices of the same driver on the same server.
    condition = 'device.attributes["gpu.example.com"].owner == "{name}"'
    world.plane.request("POST", CLASSES, class_object(name, condition.format(name=name)))
    body = slice_object(name, 4)
    for device in body["spec"]["devices"]:
        device["attributes"]["owner"] = {"string": name}
    world.plane.request("POST", SLICES, body)
    yield name
    for path in (SLICES, CLASSES, "/api/v1/nodes"):
        world.plane.request("DELETE", f"{path}/{name}")


def claim_devices(world: RealWorld, name: str, device_class: str, count: int) -> dict[str, Any]:
    """Create a claim; the spec of a pod that uses it. `Any`: JSON."""
    exactly = {"deviceClassName": device_class, "count": count}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    path = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaims"
    world.plane.request("POST", path, body)
    resources = {"claims": [{"name": "gpu"}]}
    return {
        "containers": [{"name": "main", "image": "x", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }


def allocated(world: RealWorld, name: str) -> int:
    """How many devices a claim has."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaims/{name}"
    status = world.plane.request("GET", path).get("status", {})
    return len(status.get("allocation", {}).get("devices", {}).get("results", []))


async def test_a_node_offers_its_devices_less_what_claims_of_others_have(
    world: RealWorld, node: str
) -> None:
    await world.open(device_resources={node: RESOURCE})

    def offered() -> int:
        found = {each.name: each.allocatable.get(RESOURCE, 0) for each in world.cluster.nodes()}
        return found.get(node, 0)

    await world.until(lambda: offered() == 4)
    spec = claim_devices(world, "theirs", node, 1)
    spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs"}, "spec": spec}
    world.plane.request("POST", f"{world.path}/pods", pod)
    await world.until(lambda: offered() == 3)

    run = world.run(node=node, spec=claim_devices(world, "ours", node, 2))
    await world.until_pod(run, runs)
    assert allocated(world, "ours") == 2
    claims = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaims"
    # The controller manager would remove what the ended pod of somebody else had.
    world.plane.request("DELETE", f"{world.path}/pods/theirs", {"gracePeriodSeconds": 0})
    body = {"status": {"allocation": None, "reservedFor": None}}
    world.plane.request("PATCH", f"{claims}/theirs/status", body, "application/merge-patch+json")
    await world.until(lambda: offered() == 4)
    assert allocated(world, "ours") == 2, "what runs have is counted by the scheduler"


async def test_a_run_gets_a_device_by_the_extended_resource_of_its_class(
    world: RealWorld, node: str
) -> None:
    resource = f"example.com/{node}"
    path = f"{CLASSES}/{node}"
    body = {"spec": {"extendedResourceName": resource}}
    world.plane.request("PATCH", path, body, "application/merge-patch+json")
    await world.open(device_resources={node: resource})

    def offered() -> int:
        found = {each.name: each.allocatable.get(resource, 0) for each in world.cluster.nodes()}
        return found.get(node, 0)

    await world.until(lambda: offered() == 4)
    resources = {"requests": {resource: "2"}, "limits": {resource: "2"}}
    spec = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    run = world.run(node=node, spec=spec)
    await world.until_pod(run, runs)
    claims = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaims"
    (claim,) = world.plane.request("GET", claims)["items"]
    assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs"}, "spec": spec}
    other["spec"] = {**spec, "nodeSelector": {"kubernetes.io/hostname": node}}
    world.plane.request("POST", f"{world.path}/pods", other)
    await world.until(lambda: offered() == 2)
