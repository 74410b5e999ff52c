"""Reading the jobs, nodes and settings of a simulation."""
