"""How many devices of some classes each node offers, less what others have. Pure.

Drivers publish devices as ResourceSlices; kube-scheduler writes the devices of a pod into its
ResourceClaim. A device counts for the first configured class that it belongs to. As for
kube-scheduler, only the newest generation of a pool of devices counts, and only once all its slices
are there; devices that are tainted or are on no single node do not count.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fairlead_executor.backends.kubernetes.domain import device_selectors
from fairlead_executor.backends.kubernetes.domain.device_objects import (
    Device,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from fairlead_executor.backends.kubernetes.domain.device_selectors import (
    Condition,
    UnreadableSelector,
)

DeviceKey = tuple[str, str, str]
"""Driver, pool and name of a device."""
PoolKey = tuple[str, str]
"""Driver and name of a pool of devices."""
_UNUSABLE: Final = frozenset({"NoSchedule", "NoExecute"})


class NodeDevices:
    """All devices. `resources`: the resource that each class counts as.

    `is_own`: whether the pod of this namespace and name is one of this executor's runs, whose use
    the scheduler counts. Changes return the nodes whose offer may have changed.
    """

    def __init__(
        self, resources: Mapping[str, str], is_own: Callable[[str, str], bool] = lambda *_: False
    ) -> None:
        self._resources = resources
        self._is_own = is_own
        self._classes: dict[str, tuple[Condition, ...]] = {}
        self._unreadable: dict[str, str] = {}
        self._pools: dict[PoolKey, dict[str, ResourceSlice]] = {}
        self._pool_of_slice: dict[str, PoolKey] = {}
        self._devices: dict[PoolKey, dict[DeviceKey, tuple[str, str]]] = {}
        """Node and resource of each device that counts, by its pool."""
        self._by_node: dict[str, dict[DeviceKey, str]] = {}
        """The resource of each device that counts, by its node."""
        self._own_claims: set[str] = set()
        self._claims: dict[str, frozenset[DeviceKey]] = {}
        """The devices of each claim of others."""
        self._used: dict[DeviceKey, int] = {}
        """How many claims of others have a device."""

    def offered(self, node: str) -> Mapping[str, int]:
        """How many devices of each resource the node offers."""
        found: dict[str, int] = {}
        for key, resource in self._by_node.get(node, {}).items():
            found[resource] = found.get(resource, 0) + (key not in self._used)
        return found

    def problems(self) -> list[str]:
        """Why classes do not count, one sentence each."""
        missing = self._resources.keys() - self._classes.keys() - self._unreadable.keys()
        return [
            *(f"the device class {name} does not exist" for name in sorted(missing)),
            *(f"the device class {name}: {why}" for name, why in self._unreadable.items()),
        ]

    def replace_classes(self, found: Iterable[DeviceClass]) -> set[str]:
        """These are all classes."""
        self._classes.clear()
        self._unreadable.clear()
        for item in found:
            self._read_class(item)
        return self._count_all()

    def put_class(self, found: DeviceClass) -> set[str]:
        """A class was added or changed."""
        return self._count_all() if self._read_class(found) else set()

    def delete_class(self, name: str) -> set[str]:
        """A class does not exist any more."""
        self._unreadable.pop(name, None)
        return set() if self._classes.pop(name, None) is None else self._count_all()

    def replace_slices(self, found: Iterable[ResourceSlice]) -> set[str]:
        """These are all slices."""
        before = set(self._pools)
        self._pools.clear()
        self._pool_of_slice.clear()
        for item in found:
            self._add_slice(item)
        return self._count_pools(before | self._pools.keys())

    def put_slice(self, found: ResourceSlice) -> set[str]:
        """A slice was added or changed."""
        before = self._remove_slice(found.metadata.name)
        return self._count_pools({*before, self._add_slice(found)})

    def delete_slice(self, name: str) -> set[str]:
        """A slice does not exist any more."""
        return self._count_pools(self._remove_slice(name))

    def replace_claims(self, found: Iterable[ResourceClaim]) -> set[str]:
        """These are all claims."""
        there = list(found)
        gone = {*self._claims, *self._own_claims} - {item.metadata.uid for item in there}
        changed: set[str] = set()
        for uid in gone:
            changed |= self.delete_claim(uid)
        for item in there:
            changed |= self.put_claim(item)
        return changed

    def put_claim(self, claim: ResourceClaim) -> set[str]:
        """A claim was added or changed."""
        uid, allocation = claim.metadata.uid, claim.status.allocation
        if self._belongs_to_a_run(claim):
            self._own_claims.add(uid)
            return self._set_claim(uid, frozenset())
        if allocation is None:
            return self._set_claim(uid, frozenset())
        self._own_claims.discard(uid)
        devices = frozenset(
            (each.driver, each.pool, each.device)
            for each in allocation.devices.results
            if not each.admin_access
        )
        return self._set_claim(uid, devices)

    def delete_claim(self, uid: str) -> set[str]:
        """A claim does not exist any more."""
        self._own_claims.discard(uid)
        return self._set_claim(uid, frozenset())

    def _belongs_to_a_run(self, claim: ResourceClaim) -> bool:
        """Also after its pod has gone: Kubernetes removes a pod first, then its claim."""
        metadata = claim.metadata
        pods = [each.name for each in claim.status.reserved_for if each.resource == "pods"]
        if not pods:
            pods = [owner.name for owner in metadata.owner_references if owner.kind == "Pod"]
            if metadata.uid in self._own_claims:
                return True
        return any(self._is_own(metadata.namespace, name) for name in pods)

    def _set_claim(self, uid: str, devices: frozenset[DeviceKey]) -> set[str]:
        before = self._claims.pop(uid, frozenset())
        if devices:
            self._claims[uid] = devices
        for key in before - devices:
            self._used[key] -= 1
            if not self._used[key]:
                del self._used[key]
        for key in devices - before:
            self._used[key] = self._used.get(key, 0) + 1
        return self._nodes_of(before ^ devices)

    def _read_class(self, found: DeviceClass) -> bool:
        """Whether the class counts, or counted before."""
        name = found.metadata.name
        if name not in self._resources:
            return False
        before = self._classes.pop(name, None)
        self._unreadable.pop(name, None)
        expressions = (selector.cel.expression for selector in found.spec.selectors)
        try:
            self._classes[name] = device_selectors.read_selectors(expressions)
        except UnreadableSelector as error:
            self._unreadable[name] = str(error)
        return self._classes.get(name) != before

    def _add_slice(self, found: ResourceSlice) -> PoolKey:
        pool = (found.spec.driver, found.spec.pool.name)
        self._pools.setdefault(pool, {})[found.metadata.name] = found
        self._pool_of_slice[found.metadata.name] = pool
        return pool

    def _remove_slice(self, name: str) -> set[PoolKey]:
        pool = self._pool_of_slice.pop(name, None)
        if pool is None:
            return set()
        del self._pools[pool][name]
        if not self._pools[pool]:
            del self._pools[pool]
        return {pool}

    def _count_all(self) -> set[str]:
        return self._count_pools({*self._pools, *self._devices})

    def _count_pools(self, pools: Iterable[PoolKey]) -> set[str]:
        """Find the devices of these pools again; the nodes that have or had some."""
        nodes: set[str] = set()
        for pool in pools:
            before = self._devices.pop(pool, {})
            found = self._find_devices(pool)
            for key, (node, _) in before.items():
                del self._by_node[node][key]
            for key, (node, resource) in found.items():
                self._by_node.setdefault(node, {})[key] = resource
            if found:
                self._devices[pool] = found
            if before != found:
                nodes.update(node for node, _ in (*before.values(), *found.values()))
        for node in nodes:
            if not self._by_node[node]:
                del self._by_node[node]
        return nodes

    def _find_devices(self, pool: PoolKey) -> dict[DeviceKey, tuple[str, str]]:
        slices = list(self._pools.get(pool, {}).values())
        newest = max((each.spec.pool.generation for each in slices), default=0)
        current = [each for each in slices if each.spec.pool.generation == newest]
        if any(each.spec.pool.resource_slice_count != len(current) for each in current):
            return {}
        driver, name = pool
        found: dict[DeviceKey, tuple[str, str]] = {}
        for each in current:
            for device in each.spec.devices:
                node = each.spec.node_name or device.node_name
                resource = self._resource_of(driver, device)
                if node and resource and not is_tainted(device):
                    found[driver, name, device.name] = (node, resource)
        return found

    def _resource_of(self, driver: str, device: Device) -> str | None:
        for name, resource in self._resources.items():
            conditions = self._classes.get(name)
            if conditions is not None and device_selectors.matches(conditions, driver, device):
                return resource
        return None

    def _nodes_of(self, keys: Iterable[DeviceKey]) -> set[str]:
        found = (self._devices.get(key[:2], {}).get(key) for key in keys)
        return {item[0] for item in found if item is not None}


def is_tainted(device: Device) -> bool:
    """Whether new pods do not get the device."""
    return any(taint.effect in _UNUSABLE for taint in device.taints)
