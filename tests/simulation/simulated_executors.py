"""Executors: the real core over a simulated cluster that outlives it."""

from fairlead_common.domain.errors import AppendRefused, AppendUnknown, ProducerFenced
from fairlead_common.log.topics import CLUSTERS, leases
from fairlead_executor.domain.executor_state import ExecutorState, ReconcilePlan, find_own_records
from tests.simulation.clusters import VirtualCluster
from tests.simulation.world import Tail, World, Writer, values_of


class Executor:
    """One executor process; `restart` is what `kill -9` and a new start leave of it."""

    def __init__(self, world: World, name: str, cluster: VirtualCluster) -> None:
        self._world = world
        self.name = name
        self.cluster = cluster
        self.away_until_ms = 0
        self._starts = 0
        self.restart()

    def restart(self) -> None:
        """Begin where the log says that the one before ended."""
        world = self._world
        self._starts += 1
        self._writer = Writer(world, f"executor-{self.name}")
        self._leases = Tail(world, leases(self.name).name)
        newest = self._leases.read_newest()
        before, nodes = find_own_records(self.name, values_of(Tail(world, CLUSTERS).read_newest()))
        self.core = ExecutorState(self.name, self.cluster, instance=str(self._starts))
        position = self._leases.positions[0]
        self.core.take_over(newest.values(), position, before, nodes)
        self._planned: ReconcilePlan | None = None

    def turn(self) -> None:
        """Fold some leases, tell what there is to tell, then do it."""
        world = self._world
        if world.now_ms < self.away_until_ms:
            return
        self.cluster.advance(world.now_ms)
        batch = self._leases.read()
        self.core.fold_leases(batch.entries, self._leases.positions[0])
        turn = self.core.plan(world.now_ms)
        if turn.empty:
            return
        try:
            if turn.records:
                self._writer.append(turn.records)
        except AppendRefused:
            self.core.discard_plan()
            return
        except (AppendUnknown, ProducerFenced):
            self.restart()
            return
        if world.maybe(0.02):
            self.restart()
            return
        self.core.apply(turn, world.now_ms)
