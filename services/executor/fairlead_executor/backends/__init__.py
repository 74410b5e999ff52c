"""The backends of an executor: implementations of the `Cluster` protocol."""
