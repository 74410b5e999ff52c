"""The fields of Kubernetes objects that are read, as the API server writes them. Pure."""

from typing import Final, TypeVar

import msgspec

Quantity = str | int | float


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """An object that this one is removed with."""

    kind: str = ""
    name: str = ""


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class KubernetesObject(msgspec.Struct, frozen=True, gc=False):
    """Any object."""

    metadata: ObjectMeta


class Resources(msgspec.Struct, frozen=True, gc=False):
    """What a container asks for."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class Container(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Of a pod spec."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    priority: int | None = None
    overhead: dict[str, Quantity] | None = None
    resources: Resources | None = None
    termination_grace_period_seconds: int | None = None


class ContainerStateWaiting(msgspec.Struct, frozen=True, gc=False):
    """A container that waits."""

    reason: str = ""
    message: str = ""


class Started(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A container that runs."""

    started_at: str | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A container that ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """One of the three."""

    waiting: ContainerStateWaiting | None = None
    running: Started | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Of a pod's status."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class Condition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Of a pod or node."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class PodObject(KubernetesObject, frozen=True, gc=False):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class TaintObject(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """Of a node."""

    taints: tuple[TaintObject, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """Of a node."""

    allocatable: dict[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()


class NodeObject(KubernetesObject, frozen=True, gc=False):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Of a page of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list, its items undecoded."""

    metadata: ListMeta
    items: tuple[msgspec.Raw, ...] = ()


class WatchEvent(msgspec.Struct, frozen=True):
    """A line of a watch, its object undecoded."""

    type: str
    object: msgspec.Raw


class Status(msgspec.Struct, frozen=True):
    """What the API server answers when it refuses."""

    message: str = ""
    reason: str = ""
    code: int = 0


T = TypeVar("T", bound=KubernetesObject)

page_decoder: Final = msgspec.json.Decoder(ListPage)
event_decoder: Final = msgspec.json.Decoder(WatchEvent)
metadata_decoder: Final = msgspec.json.Decoder(KubernetesObject)
pod_decoder: Final = msgspec.json.Decoder(PodObject)
node_decoder: Final = msgspec.json.Decoder(NodeObject)
_status_decoder: Final = msgspec.json.Decoder(Status)


def decode_status(body: bytes) -> Status:
    """The refusal in a body; its text if it is no `Status`."""
    try:
        return _status_decoder.decode(body)
    except msgspec.DecodeError:
        return Status(message=body[:1_000].decode("utf-8", "replace"))


def is_newer(first: ObjectMeta, second: ObjectMeta) -> bool:
    """Whether the first version of an object is newer than the second.

    Resource versions of one resource can be compared as numbers (KEP-5504).
    """
    return int(first.resource_version or 0) > int(second.resource_version or 0)


def find_condition(conditions: tuple[Condition, ...], name: str) -> Condition | None:
    """The condition of this type."""
    return next((item for item in conditions if item.type == name), None)
