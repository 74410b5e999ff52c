"""Compiling the engine's kernels, and starting without them."""
