"""A cluster that exists in memory only: any number of nodes, runs that take time and no work."""

from fairlead_executor.backends.simulated.cluster import SimulatedCluster
from fairlead_executor.backends.simulated.settings import NodeKind, Simulation

__all__ = ["NodeKind", "SimulatedCluster", "Simulation"]
