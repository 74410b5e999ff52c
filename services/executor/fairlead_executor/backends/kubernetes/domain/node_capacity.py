"""What the nodes of a cluster offer: their capacity, less what the pods of others use. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import quantities
from fairlead_common.domain.scheduling.shapes import Taint
from fairlead_executor.backends.kubernetes.domain.api_objects import (
    Container,
    NodeObject,
    PodObject,
    Quantity,
    find_condition,
)

_NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that repeat what `Ready` says; pods of jobs tolerate neither."""
_PODS: Final = "pods"


class OtherPods:
    """What the pods of others use, by node. Only this class changes it."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, dict[str, int]]] = {}
        self._by_node: dict[str, dict[str, int]] = {}

    def put(self, uid: str, node: str, requests: dict[str, int]) -> set[str]:
        """Note a pod; the nodes whose use changed."""
        before = self._pods.get(uid)
        if before == (node, requests):
            return set()
        changed = self.remove(uid)
        self._pods[uid] = (node, requests)
        self._add(node, requests, 1)
        return {*changed, node}

    def remove(self, uid: str) -> set[str]:
        """Forget a pod; the nodes whose use changed."""
        before = self._pods.pop(uid, None)
        if before is None:
            return set()
        self._add(*before, -1)
        return {before[0]}

    def retain(self, uids: Iterable[str]) -> set[str]:
        """Forget all pods but these; the nodes whose use changed."""
        changed: set[str] = set()
        for uid in self._pods.keys() - set(uids):
            changed |= self.remove(uid)
        return changed

    def used(self, node: str) -> Mapping[str, int]:
        """What is used on a node, in fixed units."""
        return self._by_node.get(node, {})

    def _add(self, node: str, requests: Mapping[str, int], sign: int) -> None:
        used = self._by_node.setdefault(node, {})
        for name, amount in requests.items():
            used[name] = used.get(name, 0) + sign * amount
            if not used[name]:
                del used[name]
        if not used:
            del self._by_node[node]


def build_node(
    node: NodeObject,
    used: Mapping[str, int],
    devices: Mapping[str, int],
    executor: str,
    pool: str,
    pool_label: str,
) -> Node:
    """The node as it is offered. `pool`: that of nodes without the label.

    `devices` takes the place of allocatable resources of the same name, whatever is `used` of them.
    """
    offered: dict[str, int] = {}
    for name, quantity in node.status.allocatable.items():
        amount = parse_amount(name, quantity, round_up=False)
        if amount is not None:
            offered[name] = max(0, amount - used.get(name, 0))
    offered.update(devices)
    labels = node.metadata.labels
    return Node(
        executor=executor,
        name=node.metadata.name,
        allocatable=offered,
        pool=labels.get(pool_label) or pool,
        labels=labels,
        taints=tuple(
            Taint(taint.key, taint.value, taint.effect)
            for taint in node.spec.taints
            if taint.key not in _NOT_READY
        ),
        unschedulable=node.spec.unschedulable or not is_ready(node),
    )


def is_ready(node: NodeObject) -> bool:
    """Whether its kubelet reports that it is able to run pods."""
    ready = find_condition(node.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


def uses_node(pod: PodObject) -> bool:
    """Whether the pod holds resources of a node."""
    return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")


def pod_requests(pod: PodObject) -> dict[str, int]:
    """What the pod requests, in fixed units, itself as one of `pods` included.

    The rule of Kubernetes (KEP-753, KEP-2837):
    the sum over containers and sidecars, at least the largest init container counted with the
    sidecars that start before it, plus the overhead. Requests of the pod as a whole override.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        amounts = _container_requests(container)
        for name, amount in amounts.items():
            at_start = running.get(name, 0) + amount
            peak[name] = max(peak.get(name, 0), at_start)
            if container.restart_policy == "Always":
                running[name] = at_start
    for container in pod.spec.containers:
        for name, amount in _container_requests(container).items():
            running[name] = running.get(name, 0) + amount
    total = {
        name: max(running.get(name, 0), peak.get(name, 0)) for name in running.keys() | peak.keys()
    }
    if pod.spec.resources is not None:
        total |= _parse(pod.spec.resources.requests)
    for name, amount in _parse(pod.spec.overhead).items():
        total[name] = total.get(name, 0) + amount
    return {_PODS: 1} | {name: amount for name, amount in total.items() if amount}


def _container_requests(container: Container) -> dict[str, int]:
    return _parse(container.resources.limits) | _parse(container.resources.requests)


def _parse(given: Mapping[str, Quantity] | None) -> dict[str, int]:
    parsed = {
        name: parse_amount(name, quantity, round_up=True)
        for name, quantity in (given or {}).items()
    }
    return {name: amount for name, amount in parsed.items() if amount is not None}


def parse_amount(name: str, quantity: Quantity, *, round_up: bool) -> int | None:
    """An amount in fixed units; None for one that no machine has."""
    try:
        return quantities.parse_quantity(name, quantity, round_up=round_up)
    except ValueError:
        return None
