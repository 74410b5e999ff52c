"""The data folder and the space that it needs."""
