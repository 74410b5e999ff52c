"""The nodes of a cluster and what they offer, brought up to date object by object. Pure."""

from collections.abc import Iterable, Sequence

from fairlead_common.domain.records.clusters import Node
from fairlead_executor.backends.kubernetes.domain import node_capacity
from fairlead_executor.backends.kubernetes.domain.api_objects import NodeObject, PodObject
from fairlead_executor.backends.kubernetes.domain.node_capacity import OtherPods
from fairlead_executor.backends.kubernetes.domain.node_devices import NodeDevices


class ClusterNodes:
    """All nodes. `other_priority_min`: pods of others below this priority are not counted.

    `devices`: what the nodes offer of device classes.
    """

    def __init__(
        self,
        executor: str,
        pool: str,
        pool_label: str,
        other_priority_min: int | None,
        devices: NodeDevices | None = None,
    ) -> None:
        self._executor = executor
        self._pool = pool
        self._pool_label = pool_label
        self._other_priority_min = other_priority_min
        self._objects: dict[str, NodeObject] = {}
        self._offered: dict[str, Node] = {}
        self._list: list[Node] | None = None
        self._others = OtherPods()
        self._devices = devices or NodeDevices({})
        self._absent_since_ms: dict[str, int] = {}
        """Since when each node is not ready or does not exist."""

    def nodes(self) -> Sequence[Node]:
        """What is offered; the same list as long as nothing changes."""
        if self._list is None:
            self._list = list(self._offered.values())
        return self._list

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    def replace_all(
        self, objects: Iterable[NodeObject], unchanged: Iterable[str], now_ms: int
    ) -> bool:
        """These are all nodes; `unchanged` stay as they are. Whether an offer changed."""
        there = {node.metadata.name: node for node in objects}
        gone = self._objects.keys() - there.keys() - set(unchanged)
        changed = [self.put(node, now_ms) for node in there.values()]
        changed += [self.delete(name, now_ms) for name in gone]
        return any(changed)

    def put(self, node: NodeObject, now_ms: int) -> bool:
        """A node was added or changed; whether an offer changed."""
        name = node.metadata.name
        self._objects[name] = node
        if node_capacity.is_ready(node):
            self._absent_since_ms.pop(name, None)
        else:
            self._absent_since_ms.setdefault(name, now_ms)
        return self._refresh([name])

    def delete(self, name: str, now_ms: int) -> bool:
        """A node does not exist any more; whether an offer changed."""
        self._objects.pop(name, None)
        self._absent_since_ms.setdefault(name, now_ms)
        if self._offered.pop(name, None) is None:
            return False
        self._list = None
        return True

    def note_absent(self, name: str, now_ms: int) -> None:
        """A run is on this node; if the node does not exist, its absence begins."""
        if name not in self._objects:
            self._absent_since_ms.setdefault(name, now_ms)

    def forget_absent(self, names: Iterable[str]) -> None:
        """No run is on these nodes: forget those that do not exist."""
        for name in names:
            if name not in self._objects:
                self._absent_since_ms.pop(name, None)

    def find_lost(self, now_ms: int, node_lost_s: int) -> list[str]:
        """Nodes that have been absent for this long."""
        return [
            name
            for name, since_ms in self._absent_since_ms.items()
            if now_ms - since_ms >= 1000 * node_lost_s
        ]

    def put_pod(self, pod: PodObject) -> bool:
        """A pod of others was added or changed; whether an offer changed."""
        counts = node_capacity.uses_node(pod) and (
            self._other_priority_min is None or (pod.spec.priority or 0) >= self._other_priority_min
        )
        if not counts:
            return self.delete_pod(pod.metadata.uid)
        requests = node_capacity.pod_requests(pod)
        return self._refresh(self._others.put(pod.metadata.uid, pod.spec.node_name, requests))

    def delete_pod(self, uid: str) -> bool:
        """A pod of others does not exist any more; whether an offer changed."""
        return self._refresh(self._others.remove(uid))

    def retain_pods(self, uids: Iterable[str]) -> bool:
        """No other pods of others exist; whether an offer changed."""
        return self._refresh(self._others.retain(uids))

    def note_devices(self, names: Iterable[str]) -> bool:
        """The devices of these nodes changed; whether an offer changed."""
        return self._refresh(names)

    def _refresh(self, names: Iterable[str]) -> bool:
        changed = False
        for name in names:
            node = self._objects.get(name)
            if node is None:
                continue
            used, devices = self._others.used(name), self._devices.offered(name)
            offer = node_capacity.build_node(
                node, used, devices, self._executor, self._pool, self._pool_label
            )
            if self._offered.get(name) != offer:
                self._offered[name] = offer
                changed = True
        if changed:
            self._list = None
        return changed
