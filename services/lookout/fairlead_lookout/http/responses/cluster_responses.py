"""Clusters and nodes as the API returns them."""

from typing import Final, Literal

from fairlead_common.domain.scheduling import shapes
from fairlead_lookout.http.responses.response_base import ResponseBody

ExecutorStatus = Literal["REPORTING", "STALE", "LOST"]
EFFECTS: Final[dict[ExecutorStatus, str]] = {
    "STALE": "Nothing new starts there until it reports again.",
    "LOST": "Its runs are given up, and nothing new starts there until it reports again.",
}
"""What the silence of an executor means, in a sentence."""


class ClusterResponse(ResponseBody, frozen=True, kw_only=True):
    """The cluster of one executor. Amounts in cores, bytes, units; `used`: what its runs request.

    `status`: STALE when the executor was silent for `executorStaleS` (a setting of the scheduler),
    and LOST after `executorTimeoutS`. `cordonedNodes`: nodes that take no new runs, cordoned by an
    operator or by their cluster.
    """

    executor: str
    backend: str
    version: str
    last_heartbeat: str | None = None
    status: ExecutorStatus
    nodes: int
    pools: dict[str, int]
    allocatable: dict[str, float | int]
    used: dict[str, float | int]
    runs: int
    cordoned: bool = False
    reason: str | None = None
    cordoned_nodes: int = 0


class AvoidanceResponse(ResponseBody, frozen=True, kw_only=True):
    """Why an executor avoids a node: this many runs in a row failed to start there. `reason`: that
    of the last one. It ends at the time `until`, or as soon as a run starts there."""

    failures: int
    reason: str
    until: str


class NodeResponse(ResponseBody, frozen=True, kw_only=True):
    """One node. `jobs`: some of the jobs that run there; `unschedulable`: cordoned in its cluster,
    or `avoided` by its executor; `cordoned`: by an operator of Fairlead, for this `reason`."""

    node: str
    pool: str
    labels: dict[str, str]
    taints: list[shapes.Taint]
    unschedulable: bool = False
    avoided: AvoidanceResponse | None = None
    cordoned: bool = False
    reason: str | None = None
    allocatable: dict[str, float | int]
    used: dict[str, float | int]
    runs: int
    jobs: list[str]


class NodesResponse(ResponseBody, frozen=True, kw_only=True):
    """The nodes of a cluster, by name."""

    executor: str
    nodes: list[NodeResponse]


class ClustersResponse(ResponseBody, frozen=True, kw_only=True):
    """All clusters that are known."""

    clusters: list[ClusterResponse]
