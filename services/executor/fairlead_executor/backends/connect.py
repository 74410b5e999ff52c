"""Opens the cluster that the settings name."""

import random
from typing import assert_never

from fairlead_common.domain.errors import FieldError, WorldError
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
        case "kubernetes":
            return await _open_kubernetes(settings, log_id)
        case "simulated":
            kinds = settings.simulation.nodes
            try:
                nodes = build_nodes(kinds, settings.executor, settings.pool, settings.labels)
            except ValueError as error:
                raise SettingsError([FieldError("FAIRLEAD_SIMULATION", str(error))]) from error
            return SimulatedCluster(nodes, settings.simulation, clock.now_ms)
        case _:
            assert_never(settings.backend)


async def _open_kubernetes(settings: ExecutorSettings, log_id: str) -> Cluster:
    """Only this backend needs an HTTP client and what reads credentials: an extra."""
    try:
        from fairlead_executor.backends.kubernetes.kubernetes_cluster import KubernetesCluster
    except ImportError as error:
        raise WorldError(
            f"the Kubernetes backend needs {error.name}; install it with: pip install"
            " 'fairlead-executor[kubernetes]'"
        ) from error
    return await KubernetesCluster.open(settings, log_id, random.random)
