"""What every cluster offers the executor. All implementations pass `tests/contract/cluster/`.

Commands return at once and never fail: their outcome is seen in `pods`. Clauses:

- after `create` the run has a pod; a run that has one, or must not start, is not started (again),
  also after any process was killed in between; what belongs to its pod is completed;
- a pod that ended stays until `remove`; its `end` never changes;
- `stop` ends a live pod within the grace, and does nothing to one that ended or never existed;
  of several stops the first sets the reported end, and the shortest grace counts;
- after `prevent_start` the run has a pod: the one that existed already, or one with that end,
  which it shows as soon as a new executor would also see it;
- a pod that ended before it started names the node that failed to start it, "" if none was tried;
- a run of a job with services or ingresses has them, or fails with the reason;
- the members of groups find their group file, in the version that was written last, if the cluster
  has group files;
- `changes` names every run whose pod changed since the last call; the first call names all.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from fairlead_common.domain.ids import GroupId, RunId
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.domain.pods import End, Pod
from fairlead_executor.domain.run_logs import LogEnd, LogEndRequest, LogRequest


class GroupFile(msgspec.Struct, frozen=True):
    """What the runs of a group on one cluster read of its members. `content`: JSON.

    `namespaces`: those of the runs. `service`: the group has a headless service with its name.
    """

    group: GroupId
    name: str
    runs: Sequence[RunId]
    content: bytes
    namespaces: Sequence[str] = ("default",)
    service: bool = False


class Cluster(Protocol):
    """A cluster, by way of its backend: it starts, stops and observes runs as pods."""

    backend: str
    """Its name in the heartbeat."""

    stops_with_executor: bool
    """Whether its runs are stopped when the executor shuts down."""

    @property
    def pods(self) -> Mapping[RunId, Pod]:
        """All pods of this executor, as of the last `changes`, `create` or `prevent_start`."""
        ...

    def nodes(self) -> Sequence[Node]:
        """The nodes as they are now; the same list as long as nothing changed."""
        ...

    def problem(self) -> str | None:
        """Why pods and nodes cannot be read or changed now, in a sentence; None: they can."""
        ...

    def changes(self, now_ms: int) -> Collection[RunId]:
        """Bring `pods` up to date; the runs whose pod changed since the last call."""
        ...

    async def changed(self) -> None:
        """Return when `changes` would name something, or a node has changed."""
        ...

    def create(self, leases: Sequence[Lease], now_ms: int) -> None:
        """Start these runs. Their `JobRunPending` is in the log already."""
        ...

    def write_group_file(self, group: GroupFile) -> None:
        """Let the runs of a group that are here, or are created next, find this content."""
        ...

    def retain_groups(self, groups: Collection[GroupId]) -> None:
        """Remove what was made for groups other than these, which have leases here."""
        ...

    def stop(self, run: RunId, grace_s: int, end: End) -> None:
        """Request the run to end; if this ends it, `end` is reported as its end."""
        ...

    def prevent_start(self, run: RunId, end: End, now_ms: int, namespace: str = "default") -> None:
        """Make sure that this run never starts here; `end` is reported as its end.

        `namespace`: that of its lease, where its pod would be.
        """
        ...

    def remove(self, runs: Sequence[RunId]) -> None:
        """Forget these ended pods."""
        ...

    def logs(self, run: RunId, request: LogRequest) -> AsyncIterator[bytes]:
        """The output of the run. Raises `NoLog` at the first step if there is no log."""
        ...

    async def log_end(self, run: RunId, request: LogEndRequest) -> LogEnd:
        """The end of the output of the run, read within bounds. Raises `NoLog`."""
        ...

    async def run(self) -> None:
        """The cluster's own work, until cancelled. A failure ends the process."""
        ...

    async def close(self) -> None:
        """Release all resources. Runs continue."""
        ...
