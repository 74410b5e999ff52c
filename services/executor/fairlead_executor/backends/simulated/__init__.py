"""A cluster that exists in memory only: any number of nodes, runs that take time and no work."""

from fairlead_executor.backends.simulated.settings import NodeKind, Simulation
from fairlead_executor.backends.simulated.simulated_cluster import SimulatedCluster

__all__ = ["NodeKind", "SimulatedCluster", "Simulation"]
