"""How kernels are compiled where numba is installed."""
