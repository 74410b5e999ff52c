"""The commands about groups."""
