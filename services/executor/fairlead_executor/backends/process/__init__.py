"""This machine as a cluster: a process per run, a folder per run, nothing started twice."""

from fairlead_executor.backends.process.process_cluster import ProcessCluster

__all__ = ["ProcessCluster"]
