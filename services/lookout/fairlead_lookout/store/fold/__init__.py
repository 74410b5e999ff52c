"""Writes the view: one connection, which holds the locks of its partitions."""
