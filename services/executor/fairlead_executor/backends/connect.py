"""Opens the cluster that the settings name."""

from typing import assert_never

from fairlead_common.domain.errors import FieldError
from fairlead_common.service import clock
from fairlead_common.service.settings import SettingsError
from fairlead_executor.backends.process import ProcessCluster
from fairlead_executor.backends.simulated import SimulatedCluster
from fairlead_executor.backends.simulated.settings import build_nodes
from fairlead_executor.domain.cluster_protocol import Cluster
from fairlead_executor.service.settings import ExecutorSettings


async def open_cluster(settings: ExecutorSettings, log_id: str) -> Cluster:
    """The cluster with its existing runs. `log_id`: the log whose leases the executor follows."""
    match settings.backend:
        case "process":
            return await ProcessCluster.open(settings, log_id)
        case "simulated":
            kinds = settings.simulation.nodes
            try:
                nodes = build_nodes(kinds, settings.executor, settings.pool, settings.labels)
            except ValueError as error:
                raise SettingsError([FieldError("FAIRLEAD_SIMULATION", str(error))]) from error
            return SimulatedCluster(nodes, settings.simulation, clock.now_ms)
        case _:
            assert_never(settings.backend)
