"""The commands of this package and the web process that they start."""
