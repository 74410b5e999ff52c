"""Which nodes are avoided because runs in a row failed to start there. Pure.

A run fails to start if it ends on a node before it has started: returned, or failed with one of
`JOB_OR_NODE`. A returned run counts against its node. A failed one counts only if a run of its job
set has started on another node, because the job is otherwise the likelier cause. If runs of one job
set fail on a second node and none has started since, none of its failures counts.

A node with enough failures is avoided from the last one on. It is not avoided any more after the
stated time, or as soon as a run starts there; after that time one more failure is enough.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from fairlead_common.domain.records.clusters import Avoidance, Node
from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.domain.pods import EndKind, Pod

JOB_OR_NODE: Final = frozenset({FailureCategory.START, FailureCategory.IMAGE_PULL})
"""Categories of failures before the start that the job or its node can have caused."""
JOB_SETS_MAX: Final = 10_000
"""Most job sets that are remembered, with the nodes where their runs started or failed to."""
REASON_LENGTH_MAX: Final = 300

JobSet = tuple[str, str]
"""The queue and the name of a job set."""


class _NodeFailures(msgspec.Struct):
    """Failures in a row on one node, by job set. `reason`: that of the last one."""

    by_job_set: dict[JobSet, int] = {}
    until_ms: int = 0
    reason: str = ""

    @property
    def count(self) -> int:
        """The number of failures."""
        return sum(self.by_job_set.values())


_BEFORE_RESTART: Final = ("", "")
"""The job set of failures that were counted by the executor before this one."""

V = TypeVar("V")


class StartFailures:
    """Counts starts and failures to start.

    A node is avoided after `failures_min` failures in a row (0: never), for `avoid_s` seconds after
    the last one.
    """

    def __init__(self, failures_min: int, avoid_s: int) -> None:
        self._failures_min = failures_min
        self._avoid_ms = 1000 * avoid_s
        self._nodes: dict[str, _NodeFailures] = {}
        self._started_on: dict[JobSet, str] = {}
        """The node on which a run of each job set started last."""
        self._failed_on: dict[JobSet, set[str]] = {}
        """The nodes on which runs of each job set failed to start since one has started."""
        self._avoided: dict[str, Avoidance] = {}

    def restore(self, nodes: Iterable[Node]) -> None:
        """Continue with the nodes that the executor before this one avoided."""
        if not self._failures_min:
            return
        for node in nodes:
            if node.avoided is not None:
                by_job_set = {_BEFORE_RESTART: node.avoided.failures}
                self._nodes[node.name] = _NodeFailures(
                    by_job_set, node.avoided.until_ms, node.avoided.reason
                )

    def note_start(self, node: str, job_set: JobSet) -> None:
        """A run of this job set has started on the node."""
        self._nodes.pop(node, None)
        self._failed_on.pop(job_set, None)
        self._started_on.pop(job_set, None)
        self._started_on[job_set] = node
        _limit(self._started_on)

    def note_end(self, pod: Pod, job_set: JobSet, now_ms: int) -> None:
        """A run of this job set has ended; its start, if it had one, was noted."""
        end = pod.end
        assert end is not None, f"{pod.run} has not ended"
        if not self._failures_min or pod.started_ms or not pod.node:
            return
        is_returned = end.kind is EndKind.RETURNED
        if not is_returned and not (end.kind is EndKind.FAILED and end.category in JOB_OR_NODE):
            return
        failed_on = self._failed_on.setdefault(job_set, set())
        failed_on.add(pod.node)
        _limit(self._failed_on)
        if len(failed_on) > 1:
            self._discount(job_set, failed_on)
        elif is_returned or self._started_on.get(job_set, pod.node) != pod.node:
            failures = self._nodes.setdefault(pod.node, _NodeFailures())
            failures.by_job_set[job_set] = failures.by_job_set.get(job_set, 0) + 1
            failures.until_ms = now_ms + self._avoid_ms
            failures.reason = end.reason[:REASON_LENGTH_MAX]

    def _discount(self, job_set: JobSet, nodes: Collection[str]) -> None:
        """The job set, not these nodes, is the likely cause of its failures."""
        for node in nodes:
            failures = self._nodes.get(node)
            if failures is None:
                continue
            failures.by_job_set.pop(job_set, None)
            if not failures.by_job_set:
                del self._nodes[node]

    def retain(self, nodes: Collection[str]) -> None:
        """Forget all nodes but these, which exist."""
        for name in self._nodes.keys() - set(nodes):
            del self._nodes[name]

    def find_avoided(self, now_ms: int) -> Mapping[str, Avoidance]:
        """The nodes that are avoided now; the same mapping as long as nothing changes."""
        avoided = {
            name: Avoidance(each.count, each.reason, each.until_ms)
            for name, each in self._nodes.items()
            if now_ms < each.until_ms and each.count >= self._failures_min
        }
        if avoided != self._avoided:
            self._avoided = avoided
        return self._avoided

    @property
    def next_ms(self) -> int | None:
        """When the first node that is avoided is not avoided any more (ms)."""
        return min((each.until_ms for each in self._avoided.values()), default=None)


def mark_avoided(node: Node, avoided: Mapping[str, Avoidance]) -> Node:
    """The node as it is reported: an avoided one accepts no new runs."""
    avoidance = avoided.get(node.name)
    if avoidance is None:
        return node
    return msgspec.structs.replace(node, unschedulable=True, avoided=avoidance)


def _limit(remembered: dict[JobSet, V]) -> None:
    """Forget the oldest job set if there are too many."""
    if len(remembered) > JOB_SETS_MAX:
        del remembered[next(iter(remembered))]
