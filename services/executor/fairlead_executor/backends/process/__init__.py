"""This machine as a cluster: one process and one folder per run, and no run starts twice."""

from fairlead_executor.backends.process.process_cluster import ProcessCluster

__all__ = ["ProcessCluster"]
