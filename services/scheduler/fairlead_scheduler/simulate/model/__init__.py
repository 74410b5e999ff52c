"""The simulated jobs, nodes and time: pure."""
