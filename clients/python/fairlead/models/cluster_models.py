"""Where jobs run, as the API tells it: clusters, their nodes, and priority classes; and records of
the log that the services could not decode.

Amounts are cores, bytes and units.
"""

from msgspec import field

from fairlead.models.job_models import Answer, Sent


class Cluster(Answer, frozen=True, kw_only=True):
    """One executor's cluster. `used`: the requests of its runs.

    `cordoned_nodes`: nodes that take nothing new, by an operator's mark or their cluster's.
    """

    executor: str
    backend: str = ""
    version: str = ""
    last_heartbeat: str | None = None
    nodes: int = 0
    pools: dict[str, int] = field(default_factory=dict)
    allocatable: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    cordoned: bool = False
    reason: str | None = None
    cordoned_nodes: int = 0


class Taint(Answer, frozen=True, kw_only=True):
    """A taint of a node: only jobs that tolerate it run there."""

    key: str
    value: str = ""
    effect: str = ""


class Node(Answer, frozen=True, kw_only=True):
    """One node. `jobs`: some of the jobs that have allocations there.

    `unschedulable`: its cluster says so; `cordoned`: an operator does, for this `reason`.
    """

    node: str
    pool: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    cordoned: bool = False
    reason: str | None = None
    allocatable: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    jobs: tuple[str, ...] = ()


class QuarantineReader(Answer, frozen=True, kw_only=True):
    """What one service did at a record: `skipped` it, or `stopped` before it.

    `stopped` says whether it still waits there for a newer version.
    """

    reader: str
    outcome: str
    stopped: bool = False
    reason: str = ""
    seen: str = ""


class QuarantineRecord(Answer, frozen=True, kw_only=True):
    """A record of the log that could not be decoded.

    `time`: when the log took it; `key` and `head`: how its key and value begin.
    """

    topic: str
    partition: int
    position: int
    time: str = ""
    key: str = ""
    head: str = ""
    size: int | None = None
    readers: tuple[QuarantineReader, ...] = ()


class Cordon(Sent, frozen=True, kw_only=True):
    """Whether a cluster or a node is cordoned, and why."""

    cordoned: bool
    reason: str | None = None


class PriorityClass(Answer, frozen=True, kw_only=True):
    """How urgent jobs are: the greater `value` goes first.

    `preemption`: whether their runs may be stopped for others: any, urgency or none.
    """

    name: str
    value: int
    preemption: str = "any"
    limits: dict[str, float] = field(default_factory=dict)


class PriorityClasses(Answer, frozen=True, kw_only=True):
    """All of them."""

    priority_classes: tuple[PriorityClass, ...]
