"""How many devices of a class nodes offer, and which selectors of classes are read."""

import json
from typing import Any

import msgspec
import pytest

from fairlead_executor.backends.kubernetes.domain import device_objects, device_selectors
from fairlead_executor.backends.kubernetes.domain.api_objects import NodeObject, PodObject
from fairlead_executor.backends.kubernetes.domain.cluster_nodes import ClusterNodes
from fairlead_executor.backends.kubernetes.domain.device_objects import (
    Device,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from fairlead_executor.backends.kubernetes.domain.device_selectors import UnreadableSelector
from fairlead_executor.backends.kubernetes.domain.node_devices import NodeDevices
from tests.unit.executor.kubernetes.objects import Json, make_node, make_pod
from tests.unit.executor.kubernetes.world import claim_object, class_object, slice_object

DRIVER = "gpu.example.com"


def make_class(name: str = "gpu", *expressions: str) -> DeviceClass:
    return device_objects.class_decoder.decode(json.dumps(class_object(name, *expressions)))


def make_slice(name: str = "n0", devices: int = 4, **fields: Any) -> ResourceSlice:
    """`Any`: of its spec."""
    return device_objects.slice_decoder.decode(json.dumps(slice_object(name, devices, **fields)))


def make_claim(*devices: str, pod: str = "", **metadata: Any) -> ResourceClaim:
    """`Any`: of its metadata."""
    body = claim_object(*devices, pod=pod, **metadata)
    return device_objects.claim_decoder.decode(json.dumps(body))


def make_devices(*classes: DeviceClass) -> NodeDevices:
    """With one class that counts as `gpu`; the pod `own` is a run."""
    resources = {"gpu": "example.com/gpu"}
    devices = NodeDevices(resources, lambda _, name: name == "own")
    devices.replace_classes(classes or [make_class()])
    return devices


def gpus(devices: NodeDevices, node: str = "n0") -> int:
    return devices.offered(node).get("example.com/gpu", 0)


def test_devices_of_a_class_are_counted_by_node() -> None:
    devices = make_devices()
    slices = [make_slice("n0", 4), make_slice("n1", 2)]
    assert devices.replace_slices(slices) == {"n0", "n1"}
    assert (gpus(devices), gpus(devices, "n1"), gpus(devices, "n2")) == (4, 2, 0)
    assert devices.put_slice(make_slice("n0", 3, generation=2)) == {"n0"}
    assert gpus(devices) == 3
    assert devices.delete_slice("n1") == {"n1"}
    assert gpus(devices, "n1") == 0


def test_devices_of_other_classes_are_not_counted() -> None:
    devices = make_devices(make_class("gpu", 'device.driver == "other.example.com"'))
    assert devices.put_slice(make_slice()) == set()
    assert gpus(devices) == 0
    assert devices.put_class(make_class("unknown")) == set()
    assert devices.put_class(make_class()) == {"n0"}
    assert gpus(devices) == 4
    assert devices.delete_class("gpu") == {"n0"}
    assert gpus(devices) == 0


def test_a_device_counts_for_the_first_class_that_it_belongs_to() -> None:
    devices = NodeDevices({"big": "example.com/big", "gpu": "example.com/gpu"})
    big = 'device.attributes["gpu.example.com"].index == 0'
    devices.replace_classes([make_class(), make_class("big", big)])
    devices.put_slice(make_slice())
    assert devices.offered("n0") == {"example.com/big": 1, "example.com/gpu": 3}


def test_only_the_newest_generation_of_a_pool_counts_and_only_once_it_is_complete() -> None:
    devices = make_devices()
    devices.put_slice(make_slice("a", 4, node="n0", pool="p"))
    devices.put_slice(make_slice("b", 2, node="n0", pool="p", generation=2, count=2))
    assert gpus(devices) == 0
    devices.put_slice(make_slice("c", 3, node="n0", pool="p", generation=2, count=2, first=2))
    assert gpus(devices) == 5
    devices.delete_slice("a")
    assert gpus(devices) == 5


def test_tainted_devices_and_those_of_no_single_node_are_not_counted() -> None:
    devices = make_devices()
    body = slice_object("n0", 3)
    body["spec"]["devices"][0]["taints"] = [{"key": "broken", "effect": "NoExecute"}]
    body["spec"]["devices"][1]["taints"] = [{"key": "hot", "effect": "None"}]
    devices.put_slice(device_objects.slice_decoder.decode(json.dumps(body)))
    assert gpus(devices) == 2
    devices.put_slice(make_slice("shared", 2, node="", allNodes=True))
    assert gpus(devices) == 2
    body = slice_object("several", 2, node="", perDeviceNodeSelection=True)
    body["spec"]["devices"][1]["nodeName"] = "n1"
    devices.put_slice(device_objects.slice_decoder.decode(json.dumps(body)))
    assert (gpus(devices), gpus(devices, "n1")) == (2, 1)


def test_devices_that_claims_of_others_have_are_not_offered() -> None:
    devices = make_devices()
    devices.put_slice(make_slice())
    assert devices.put_claim(make_claim("d0", "d1", pod="theirs")) == {"n0"}
    assert gpus(devices) == 2
    assert devices.put_claim(make_claim("d0", pod="theirs")) == {"n0"}
    assert gpus(devices) == 3
    assert devices.delete_claim("claim") == {"n0"}
    assert gpus(devices) == 4


def test_claims_of_runs_are_counted_by_the_scheduler_and_not_here() -> None:
    devices = make_devices()
    devices.put_slice(make_slice())
    owner = [{"kind": "Pod", "name": "own"}]
    devices.put_claim(make_claim("d0", pod="own", uid="a"))
    devices.put_claim(make_claim("d1", uid="b", ownerReferences=owner))
    assert gpus(devices) == 4


def test_a_claim_of_a_run_stays_its_own_after_the_pod_has_gone() -> None:
    own = {"own"}
    devices = NodeDevices({"gpu": "example.com/gpu"}, lambda _, name: name in own)
    devices.replace_classes([make_class()])
    devices.put_slice(make_slice())
    devices.put_claim(make_claim("d0", pod="own"))
    own.clear()
    devices.put_claim(make_claim("d0"))
    assert gpus(devices) == 4
    devices.put_claim(make_claim("d0", pod="theirs"))
    assert gpus(devices) == 3
    devices.replace_claims([])
    assert gpus(devices) == 4


def test_a_claim_with_access_for_administrators_takes_no_device() -> None:
    devices = make_devices()
    devices.put_slice(make_slice())
    body = claim_object("d0", pod="monitor")
    body["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    devices.put_claim(device_objects.claim_decoder.decode(json.dumps(body)))
    assert gpus(devices) == 4


def test_a_class_that_does_not_exist_or_cannot_be_read_is_named() -> None:
    devices = make_devices(make_class("other"))
    assert devices.problems() == ["the device class gpu does not exist"]
    devices.put_class(make_class("gpu", "device.driver.startsWith('gpu')"))
    (problem,) = devices.problems()
    assert problem.startswith(
        "the device class gpu: the condition \"device.driver.startsWith('gpu')"
    )
    devices.put_class(make_class())
    assert devices.problems() == []


def test_devices_take_the_place_of_an_extended_resource_of_the_same_name() -> None:
    devices = make_devices()
    nodes = ClusterNodes("e", "default", "pool", None, devices)
    body: Json = {"status": {"allocatable": {"cpu": "8", "example.com/gpu": "9"}}}
    node: NodeObject = msgspec.convert(
        {"metadata": {"name": "n0", "resourceVersion": "1"}, **body}, NodeObject
    )
    nodes.put(node, 0)
    containers = [{"name": "x", "resources": {"requests": {"example.com/gpu": "1"}}}]
    pod: PodObject = make_pod({"phase": "Running"}, {"containers": containers}, labels={}, name="o")
    nodes.put_pod(pod)
    assert nodes.nodes()[0].allocatable["example.com/gpu"] == 8
    assert nodes.note_devices(devices.put_slice(make_slice()))
    assert nodes.nodes()[0].allocatable["example.com/gpu"] == 4
    assert not nodes.note_devices({"n0", "unknown"})


def test_a_node_without_devices_offers_what_it_did() -> None:
    nodes = ClusterNodes("e", "default", "pool", None, make_devices())
    nodes.put(make_node(), 0)
    assert set(nodes.nodes()[0].allocatable) == {"cpu", "memory", "pods"}


@pytest.mark.parametrize(
    ("expression", "is_met"),
    [
        ('device.driver == "gpu.example.com"', True),
        ("device.driver=='other.example.com'", False),
        (
            "device.driver == 'gpu.example.com'"
            " && device.attributes['gpu.example.com'].kind == 'a && b'",
            True,
        ),
        ('(device.attributes["gpu.example.com"].kind == "mig")', False),
        ('device.attributes["gpu.example.com"].index == 3', True),
        ('device.attributes["gpu.example.com"].index == true', False),
        ('device.attributes["gpu.example.com"].whole == true', True),
        ('device.attributes["gpu.example.com"].driverVersion == "1.2.3"', True),
        ('device.attributes["gpu.example.com"].missing == 1', False),
        ('device.attributes["other.example.com"].rack == "r1"', True),
        ('device.attributes["third.example.com"].rack == "r1"', False),
        ('"other.example.com" in device.attributes', True),
        ('"gpu.example.com" in device.attributes', True),
        ('"third.example.com" in device.attributes', False),
    ],
)
def test_conditions_of_a_class_are_those_that_drivers_use(expression: str, is_met: bool) -> None:
    attributes = {
        "kind": {"string": "a && b"},
        "index": {"int": 3},
        "whole": {"bool": True},
        "driverVersion": {"version": "1.2.3"},
        "other.example.com/rack": {"string": "r1"},
    }
    device = msgspec.convert({"name": "d", "attributes": attributes}, Device)
    conditions = device_selectors.read_selectors([expression])
    assert device_selectors.matches(conditions, DRIVER, device) == is_met


def test_all_selectors_of_a_class_must_be_met() -> None:
    selectors = ['device.driver == "gpu.example.com"', 'device.driver == "other.example.com"']
    conditions = device_selectors.read_selectors(selectors)
    assert not device_selectors.matches(conditions, DRIVER, Device("d"))
    assert device_selectors.matches(device_selectors.read_selectors([]), DRIVER, Device("d"))


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "true",
        'device.driver != "a"',
        'device.driver == "a" || device.driver == "b"',
        'device.capacity["a"].memory.compareTo(quantity("1Gi")) > 0',
        'device.driver == "a" && ',
        '(device.driver == "a") && (device.driver == "b"',
    ],
)
def test_other_expressions_are_refused(expression: str) -> None:
    with pytest.raises(UnreadableSelector):
        device_selectors.read_selectors([expression])
