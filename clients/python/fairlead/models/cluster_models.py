"""Clusters, their nodes, priority classes, and records of the log that services could not decode.

Amounts are cores, bytes and units.
"""

from typing import Literal

from msgspec import field

from fairlead.models.model_bases import RequestModel, ResponseModel


class Cluster(ResponseModel, frozen=True, kw_only=True):
    """The cluster of one executor. `used`: the sum of the requests of its runs.

    `status`: STALE or LOST if its executor was silent for as long as the settings of the scheduler
    say. `cordoned_nodes`: the number of nodes that accept no new runs, because an operator or their
    cluster has cordoned them.
    """

    executor: str
    backend: str = ""
    version: str = ""
    last_heartbeat: str | None = None
    status: Literal["REPORTING", "STALE", "LOST"] = "REPORTING"
    nodes: int = 0
    pools: dict[str, int] = field(default_factory=dict)
    allocatable: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    cordoned: bool = False
    reason: str | None = None
    cordoned_nodes: int = 0


class Taint(ResponseModel, frozen=True, kw_only=True):
    """A taint of a node: only jobs that tolerate it run there."""

    key: str
    value: str = ""
    effect: str = ""


class Avoidance(ResponseModel, frozen=True, kw_only=True):
    """Why an executor avoids a node: this many runs in a row failed to start there.

    `reason`: that of the last one. It ends at the time `until`, or as soon as a run starts there.
    """

    failures: int
    reason: str = ""
    until: str = ""


class Node(ResponseModel, frozen=True, kw_only=True):
    """One node. `jobs`: some of the jobs that have allocations there.

    `unschedulable`: its cluster says so, or it is `avoided` by its executor; `cordoned`: an
    operator says so, for this `reason`.
    """

    node: str
    pool: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    avoided: Avoidance | None = None
    cordoned: bool = False
    reason: str | None = None
    allocatable: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    jobs: tuple[str, ...] = ()


class QuarantineReader(ResponseModel, frozen=True, kw_only=True):
    """What one service did with a record: its `outcome` is `skipped` or `stopped`.

    `stopped`: whether the service still waits at the record for a newer version of itself.
    """

    reader: str
    outcome: str
    stopped: bool = False
    reason: str = ""
    seen: str = ""


class QuarantineRecord(ResponseModel, frozen=True, kw_only=True):
    """A record of the log that could not be decoded.

    `time`: when it was appended. `key` and `head`: the first characters of its key and its value.
    """

    topic: str
    partition: int
    position: int
    time: str = ""
    key: str = ""
    head: str = ""
    size: int | None = None
    readers: tuple[QuarantineReader, ...] = ()


class Cordon(RequestModel, frozen=True, kw_only=True):
    """Whether a cluster or a node is cordoned, and why."""

    cordoned: bool
    reason: str | None = None


class ClusterCordon(ResponseModel, frozen=True, kw_only=True):
    """The cordon of a cluster, or of one of its nodes, after a change.

    Reads with `after=position` include it. `pending`: it is stored, but is not in effect yet,
    because the log was not available for 2 s.
    """

    executor: str
    node: str | None = None
    cordoned: bool
    reason: str = ""
    version: int = 0
    position: str = ""
    pending: bool = False


class PriorityClass(ResponseModel, frozen=True, kw_only=True):
    """A priority class: jobs of a class with a greater `value` are scheduled first.

    `preemption`: for which jobs the scheduler is permitted to preempt its runs: any, urgency, none.
    """

    name: str
    value: int
    preemption: str = "any"
    limits: dict[str, float] = field(default_factory=dict)


class PriorityClasses(ResponseModel, frozen=True, kw_only=True):
    """All priority classes."""

    priority_classes: tuple[PriorityClass, ...]
