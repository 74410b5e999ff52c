"""The state of a round that the kernels share."""
