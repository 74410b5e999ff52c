"""Child processes: starting, supervising and probing them, and their output."""
