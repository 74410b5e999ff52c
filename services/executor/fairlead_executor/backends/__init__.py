"""The clusters that an executor can run jobs on, behind one protocol."""
