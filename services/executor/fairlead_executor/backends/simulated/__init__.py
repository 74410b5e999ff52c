"""A cluster in memory: any number of nodes, and runs that take time but execute nothing."""

from fairlead_executor.backends.simulated.settings import NodeKind, Simulation
from fairlead_executor.backends.simulated.simulated_cluster import SimulatedCluster

__all__ = ["NodeKind", "SimulatedCluster", "Simulation"]
