"""The pool when the round starts: checks and types of the snapshot, eligible node types, totals,
free capacity, fair shares, and what could run if the pool were empty."""
