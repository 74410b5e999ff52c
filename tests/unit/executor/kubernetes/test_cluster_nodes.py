"""What nodes offer: their capacity less what the pods of others use."""

from typing import Any

import hypothesis
import hypothesis.strategies as st
import msgspec

from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject
from fairlead_executor.backends.kubernetes.domain.cluster_nodes import ClusterNodes
from fairlead_executor.backends.kubernetes.domain.node_capacity import OtherPods, pod_requests
from tests.unit.executor.kubernetes.objects import make_node, make_pod

GIB = 2**30


def make_nodes(**fields: Any) -> ClusterNodes:  # `Any`: arguments
    known: dict[str, Any] = {"pool_label": "pool", "other_priority_min": None}
    nodes = ClusterNodes("e", "default", **{**known, **fields})
    nodes.put(make_node(), 0)
    return nodes


def other_pod(uid: str = "o", cpu: str = "2", phase: str = "Running", **spec: Any) -> PodObject:
    containers = [{"name": "x", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    given = {"containers": containers, **spec}
    return make_pod({"phase": phase}, given, uid=uid, labels={}, name=uid)


def offered(nodes: ClusterNodes) -> dict[str, int]:
    (node,) = nodes.nodes()
    return node.allocatable


def test_a_node_offers_what_is_allocatable() -> None:
    assert offered(make_nodes()) == {"cpu": 8000, "memory": 32 * GIB, "pods": 110}


def test_pods_of_others_reduce_what_is_offered_and_give_it_back() -> None:
    nodes = make_nodes()
    assert nodes.put_pod(other_pod())
    assert offered(nodes) == {"cpu": 6000, "memory": 31 * GIB, "pods": 109}
    assert nodes.put_pod(other_pod(cpu="4"))
    assert offered(nodes)["cpu"] == 4000
    assert nodes.put_pod(other_pod(phase="Succeeded"))
    assert offered(nodes) == {"cpu": 8000, "memory": 32 * GIB, "pods": 110}


def test_a_pod_that_is_on_no_node_uses_nothing() -> None:
    nodes = make_nodes()
    assert not nodes.put_pod(other_pod(nodeName=""))
    assert offered(nodes)["cpu"] == 8000


def test_pods_below_a_priority_are_not_counted_if_settings_say_so() -> None:
    nodes = make_nodes(other_priority_min=0)
    nodes.put_pod(other_pod(priority=-1))
    assert offered(nodes)["cpu"] == 8000
    nodes.put_pod(other_pod(priority=0))
    assert offered(nodes)["cpu"] == 6000


def test_a_node_never_offers_less_than_nothing() -> None:
    nodes = make_nodes()
    nodes.put_pod(other_pod(cpu="20"))
    assert offered(nodes)["cpu"] == 0


def test_a_cordoned_node_or_one_that_is_not_ready_offers_nothing_new() -> None:
    nodes = make_nodes()
    assert not nodes.nodes()[0].unschedulable
    nodes.put(make_node(spec={"unschedulable": True}), 0)
    assert nodes.nodes()[0].unschedulable
    nodes.put(make_node(ready="Unknown"), 0)
    assert nodes.nodes()[0].unschedulable


def test_the_pool_is_that_of_the_label_or_that_of_the_executor() -> None:
    nodes = make_nodes()
    assert nodes.nodes()[0].pool == "default"
    nodes.put(make_node(metadata={"labels": {"pool": "gpu"}}), 0)
    assert nodes.nodes()[0].pool == "gpu"


def test_taints_are_reported_but_those_that_repeat_that_a_node_is_not_ready() -> None:
    taints = [
        {"key": "gpu", "value": "1", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    nodes = make_nodes()
    nodes.put(make_node(spec={"taints": taints}), 0)
    assert [taint.key for taint in nodes.nodes()[0].taints] == ["gpu"]


def test_nodes_are_the_same_list_while_nothing_that_is_offered_changes() -> None:
    nodes = make_nodes()
    before = nodes.nodes()
    assert not nodes.put(make_node(), 1)
    assert nodes.nodes() is before
    assert nodes.delete("n0", 2)
    assert nodes.nodes() == []


def test_a_node_is_lost_when_it_was_away_for_long_enough() -> None:
    nodes = make_nodes()
    assert nodes.find_lost(10_000, 5) == []
    nodes.put(make_node(ready="False"), 10_000)
    nodes.put(make_node(ready="Unknown"), 12_000)
    assert nodes.find_lost(14_999, 5) == []
    assert nodes.find_lost(15_000, 5) == ["n0"]
    nodes.put(make_node(), 16_000)
    assert nodes.find_lost(30_000, 5) == []
    nodes.delete("n0", 30_000)
    assert nodes.find_lost(35_000, 5) == ["n0"]


def test_a_node_that_never_existed_is_lost_as_well() -> None:
    nodes = make_nodes()
    nodes.note_absent("n9", 1_000)
    nodes.note_absent("n0", 1_000)
    assert nodes.find_lost(6_000, 5) == ["n9"]


def test_lost_nodes_without_runs_are_forgotten_if_they_do_not_exist() -> None:
    nodes = make_nodes()
    nodes.note_absent("n9", 1_000)
    nodes.put(make_node(ready="False"), 1_000)
    nodes.forget_absent(["n9", "n0"])
    assert nodes.find_lost(6_000, 5) == ["n0"]


def test_the_request_of_a_pod_is_that_of_kubernetes() -> None:
    def container(cpu: str, **fields: str) -> dict[str, Any]:  # `Any`: JSON
        return {"resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "containers": [container("1"), container("2"), {"resources": {"limits": {"cpu": "500m"}}}],
        "initContainers": [container("1", restartPolicy="Always"), container("6")],
        "overhead": {"cpu": "250m"},
    }
    # Sidecar and init container: 7; containers with the sidecar: 4.5; and the overhead.
    assert pod_requests(make_pod(spec=spec)) == {"cpu": 7250, "pods": 1}
    whole = {**spec, "resources": {"requests": {"cpu": "3"}}}
    assert pod_requests(make_pod(spec=whole))["cpu"] == 3250


def test_devices_storage_and_huge_pages_are_offered_less_what_others_use() -> None:
    amounts = {
        "nvidia.com/gpu": "4",
        "example.com/license": "2",
        "ephemeral-storage": "10Gi",
        "hugepages-2Mi": "1Gi",
    }
    node = make_node()
    allocatable = {**node.status.allocatable, **amounts}
    status = msgspec.structs.replace(node.status, allocatable=allocatable)
    nodes = make_nodes()
    nodes.put(msgspec.structs.replace(node, status=status), 0)
    used = {**dict.fromkeys(amounts, "1"), "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}
    spec = {"nodeName": "n0", "containers": [{"resources": {"limits": used}}]}
    nodes.put_pod(make_pod(spec=spec))
    offered = nodes.nodes()[0].allocatable
    assert {name: offered[name] for name in amounts} == {
        "nvidia.com/gpu": 3,
        "example.com/license": 1,
        "ephemeral-storage": 9 * 2**30,
        "hugepages-2Mi": 2**30 - 4 * 2**20,
    }


CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["n0", "n1", ""]), st.integers(0, 3)),
    max_size=30,
)


@hypothesis.given(CHANGES)
def test_the_use_of_nodes_is_the_sum_over_the_pods_that_are_there(
    changes: list[tuple[str, str, int]],
) -> None:
    other, there = OtherPods(), dict[str, tuple[str, int]]()
    for uid, node, cpu in changes:
        if node:
            other.put(uid, node, {"cpu": cpu} if cpu else {})
            there[uid] = (node, cpu)
        else:
            other.remove(uid)
            there.pop(uid, None)
    for node in ("n0", "n1"):
        total = sum(cpu for its_node, cpu in there.values() if its_node == node)
        assert other.used(node).get("cpu", 0) == total
