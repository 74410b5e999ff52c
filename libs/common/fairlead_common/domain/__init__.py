"""Types and rules that services agree on. Pure: no I/O, clock, chance or web framework."""
