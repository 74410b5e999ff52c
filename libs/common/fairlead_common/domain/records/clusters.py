"""Existing nodes: the records of `fairlead.clusters`, written by executors.

Key `executor` is the heartbeat, `executor/node` one node, written when it changes; null when the
node no longer exists. The leading scheduler writes `/scheduler`, which no executor is named.
"""

from typing import Annotated, Final

import msgspec

from fairlead_common.domain.scheduling.shapes import Taint
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import CLUSTERS

Name = Annotated[str, msgspec.Meta(max_length=256)]
TIME_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999, the last time that can be written."""
Amount = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]


class Heartbeat(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="heartbeat"
):
    """The executor is alive. `leases_position` is where it reads its lease topic next.

    Every lease before that position was reported as pending (this record is in the same append),
    except those at the positions `leases_waiting`: the next process continues from there.
    `instance` names the process. `address` is the base URL at which lookout requests logs ("" if it
    serves none).
    """

    executor: str
    leases_position: int = 0
    leases_waiting: tuple[int, ...] = ()
    instance: str = ""
    address: str = ""
    backend: str = ""
    version: str = ""
    at_ms: int = 0


class Avoidance(msgspec.Struct, frozen=True, rename="camel"):
    """No job is placed on a node until this time (ms), or until a run starts there.

    `failures` runs in a row failed to start there; `reason` is that of the last one.
    """

    failures: int
    reason: str
    until_ms: Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)]


class Node(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="node"
):
    """One node as its cluster has it. `allocatable` in fixed units (see `quantities`).

    `unschedulable`: it accepts no new runs, because its cluster says so or because it is `avoided`.
    """

    executor: Name
    name: Name
    allocatable: dict[str, Amount]
    pool: Name = "default"
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    avoided: Avoidance | None = None


class LeaderHeartbeat(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="leader"
):
    """The leading scheduler is alive. `instance` names the process.

    A leader that reads its own heartbeat back has read every executor's heartbeat before it. An
    executor is stale when it was silent for `executor_stale_ms`, lost after `executor_timeout_ms`.
    """

    instance: str
    version: str = ""
    since_ms: int = 0
    executor_stale_ms: int = 30_000
    executor_timeout_ms: int = 600_000


LEADER_KEY: Final = "/scheduler"
ClusterRecord = Heartbeat | Node | LeaderHeartbeat

_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[ClusterRecord]] = msgspec.json.Decoder(ClusterRecord)


def decode(value: bytes) -> ClusterRecord:
    """The heartbeat or node of a record. Raises `msgspec.DecodeError`."""
    return _decoder.decode(value)


def heartbeat_record(heartbeat: Heartbeat) -> Record:
    """The record of a heartbeat."""
    return Record(CLUSTERS, heartbeat.executor, _encoder.encode(heartbeat))


def leader_heartbeat_record(heartbeat: LeaderHeartbeat) -> Record:
    """The record of a leader's heartbeat."""
    return Record(CLUSTERS, LEADER_KEY, _encoder.encode(heartbeat))


def node_record(node: Node) -> Record:
    """The record of a node that appeared or changed."""
    return Record(CLUSTERS, f"{node.executor}/{node.name}", _encoder.encode(node))


def removed_node_record(executor: str, name: str) -> Record:
    """The record of a node that no longer exists."""
    return Record(CLUSTERS, f"{executor}/{name}", None)
