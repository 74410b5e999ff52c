"""The fields of `resource.k8s.io/v1` that are read: devices, and which claims have them. Pure."""

from typing import Final

import msgspec

from fairlead_executor.backends.kubernetes.domain.api_objects import KubernetesObject

AttributeValue = str | int | bool


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """An attribute of a device; one of the fields has its value."""

    string: str | None = None
    number: int | None = msgspec.field(default=None, name="int")
    truth: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None

    @property
    def value(self) -> AttributeValue | None:
        """The value; None if it is of a type that is not read."""
        values = (self.string, self.number, self.truth, self.version)
        return next((value for value in values if value is not None), None)


class DeviceTaint(msgspec.Struct, frozen=True, gc=False):
    """Why a device is not to be used."""

    effect: str = ""


class Device(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One device. `node_name`: where it is, if the devices of its slice are on several nodes."""

    name: str
    attributes: dict[str, Attribute] = {}
    taints: tuple[DeviceTaint, ...] = ()
    node_name: str = ""


class DevicePool(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Which devices of a driver a slice belongs to; it is one of `resource_slice_count`."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Of a slice."""

    driver: str = ""
    pool: DevicePool = DevicePool()
    node_name: str = ""
    devices: tuple[Device, ...] = ()


class ResourceSlice(KubernetesObject, frozen=True, gc=False):
    """Devices that a driver has found."""

    spec: SliceSpec = SliceSpec()


class CelSelector(msgspec.Struct, frozen=True, gc=False):
    """A condition on a device, in the Common Expression Language."""

    expression: str = ""


class ClassSelector(msgspec.Struct, frozen=True, gc=False):
    """A condition on a device."""

    cel: CelSelector = CelSelector()


class ClassSpec(msgspec.Struct, frozen=True, gc=False):
    """Of a device class; a device belongs to it if it meets all selectors."""

    selectors: tuple[ClassSelector, ...] = ()


class DeviceClass(KubernetesObject, frozen=True, gc=False):
    """What pods can claim."""

    spec: ClassSpec = ClassSpec()


class AllocatedDevice(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A device that a claim has; with `admin_access` it does not have it for itself."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False


class DeviceAllocation(msgspec.Struct, frozen=True, gc=False):
    """All devices of a claim."""

    results: tuple[AllocatedDevice, ...] = ()


class Allocation(msgspec.Struct, frozen=True, gc=False):
    """What a claim has."""

    devices: DeviceAllocation = DeviceAllocation()


class Consumer(msgspec.Struct, frozen=True, gc=False):
    """Who uses a claim."""

    resource: str = ""
    name: str = ""


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(KubernetesObject, frozen=True, gc=False):
    """Devices for one pod or several."""

    status: ClaimStatus = ClaimStatus()


slice_decoder: Final = msgspec.json.Decoder(ResourceSlice)
class_decoder: Final = msgspec.json.Decoder(DeviceClass)
claim_decoder: Final = msgspec.json.Decoder(ResourceClaim)
