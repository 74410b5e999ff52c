"""Pools are whatever jobs and nodes name: anybody may name as many as he likes."""

from fairlead_common import clusters as records
from fairlead_common.clusters import Heartbeat, Node
from fairlead_common.ids import JobId
from fairlead_common.log import Entry, Record
from fairlead_scheduler.clusters import Clusters
from fairlead_scheduler.deciding import Decider
from fairlead_scheduler.leasing import Leases
from fairlead_scheduler.queues import Queues
from fairlead_scheduler.settings import SchedulerSettings
from fairlead_scheduler.snapshots.builder import BARE_POOLS_MAX
from fairlead_scheduler.view import apply
from fairlead_scheduler.view.columns import View
from tests.unit.scheduler.facts import fold, message, submitted


def tell(clusters: Clusters, *told: Record) -> None:
    clusters.apply([Entry(0, 0, record.key, record.value, 0) for record in told])


def view_with_many_pools(count: int) -> View:
    """So many pools were named before job `a` named one more, `late`."""
    view = fold()
    for number in range(count):
        view.jobs.pools.number(f"p{number}")
    apply.apply(view, [message(0, submitted("a", pool="late"))], {})
    return view


def test_a_job_is_folded_however_many_pools_were_named_before() -> None:
    view = view_with_many_pools(1 << 16)
    assert view.jobs.pools.values[view.jobs.pool[view.jobs.rows[JobId("a")]]] == "late"


def test_of_pools_without_nodes_so_many_are_looked_at_and_another_when_its_nodes_come() -> None:
    view, clusters = view_with_many_pools(BARE_POOLS_MAX), Clusters()
    decider = Decider(SchedulerSettings(), view, clusters, Queues(), Leases(), began_ms=0)
    decider.round("p0", decider.due(0), 0, lambda: 0.0)
    assert len(decider.pools()) == BARE_POOLS_MAX
    assert "late" not in decider.pools()
    tell(
        clusters,
        records.heartbeat_record(Heartbeat(executor="e")),
        records.node_record(
            Node(executor="e", name="n", pool="late", allocatable={"cpu": 4000, "memory": 2**30})
        ),
    )
    clusters.tick(1)
    assert "late" in decider.pools()
    decided = decider.round("late", decider.due(1), 1, lambda: 0.0)
    assert decided is not None
    assert decided.plan.placed_job.size == 1
