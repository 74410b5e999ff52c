"""Follows device classes, slices and claims, if a setting says what devices count as."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from fairlead_executor.backends.kubernetes.api_client import ApiClient
from fairlead_executor.backends.kubernetes.domain import device_objects
from fairlead_executor.backends.kubernetes.domain.api_objects import ObjectMeta
from fairlead_executor.backends.kubernetes.domain.device_objects import (
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from fairlead_executor.backends.kubernetes.domain.node_devices import NodeDevices
from fairlead_executor.backends.kubernetes.watches import ObjectList, ObjectWatch, Receiver

GROUP: Final = "/apis/resource.k8s.io/v1"
CLASSES: Final = f"{GROUP}/deviceclasses"
SLICES: Final = f"{GROUP}/resourceslices"
CLAIMS: Final = f"{GROUP}/resourceclaims"
PATHS: Final = (CLASSES, SLICES, CLAIMS)

_logger = logging.getLogger("fairlead.executor")


class DeviceWatches:
    """Keeps `devices` up to date. `note_nodes` is called with the nodes whose devices changed."""

    def __init__(
        self,
        client: ApiClient,
        devices: NodeDevices,
        note_nodes: Callable[[set[str]], None],
        chance: Callable[[], float],
    ) -> None:
        self._devices = devices
        self._note_nodes = note_nodes
        self._named: list[str] = []
        """The problems that the log of the executor names."""
        classes = Receiver(self._replace_classes, self._put_class, self._delete_class)
        slices = Receiver(self._replace_slices, self._put_slice, self._delete_slice)
        claims = Receiver(self._replace_claims, self._put_claim, self._delete_claim)
        self.watches: Sequence[ObjectWatch[Any]] = (  # `Any`: of three kinds
            ObjectWatch(client, CLASSES, device_objects.class_decoder, classes, chance),
            ObjectWatch(client, SLICES, device_objects.slice_decoder, slices, chance),
            ObjectWatch(client, CLAIMS, device_objects.claim_decoder, claims, chance),
        )

    def _replace_classes(self, listed: ObjectList[DeviceClass]) -> None:
        self._note_nodes(self._devices.replace_classes(listed.objects))
        self._name_problems()

    def _put_class(self, item: DeviceClass) -> None:
        self._note_nodes(self._devices.put_class(item))
        self._name_problems()

    def _delete_class(self, metadata: ObjectMeta, _: DeviceClass | None) -> None:
        self._note_nodes(self._devices.delete_class(metadata.name))
        self._name_problems()

    def _replace_slices(self, listed: ObjectList[ResourceSlice]) -> None:
        self._note_nodes(self._devices.replace_slices(listed.objects))

    def _put_slice(self, item: ResourceSlice) -> None:
        self._note_nodes(self._devices.put_slice(item))

    def _delete_slice(self, metadata: ObjectMeta, _: ResourceSlice | None) -> None:
        self._note_nodes(self._devices.delete_slice(metadata.name))

    def _replace_claims(self, listed: ObjectList[ResourceClaim]) -> None:
        self._note_nodes(self._devices.replace_claims(listed.objects))

    def _put_claim(self, item: ResourceClaim) -> None:
        self._note_nodes(self._devices.put_claim(item))

    def _delete_claim(self, metadata: ObjectMeta, _: ResourceClaim | None) -> None:
        self._note_nodes(self._devices.delete_claim(metadata.uid))

    def _name_problems(self) -> None:
        problems = self._devices.problems()
        for problem in problems:
            if problem not in self._named:
                _logger.warning("devices are not offered: %s", problem)
        self._named = problems
