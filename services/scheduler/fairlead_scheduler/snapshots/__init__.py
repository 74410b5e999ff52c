"""Builds the snapshots of pools for the engine, and retains their columns between rounds. Pure.

`builder.py` builds a snapshot. `pool_rows/` has the jobs of a pool, `gangs/` its gangs, and
`tables/` the classes, queues, shapes and nodes that both refer to. docs/decisions/0011 describes
how they are updated.
"""

from fairlead_scheduler.snapshots.builder import Builder
from fairlead_scheduler.snapshots.built_snapshot import BuiltSnapshot

__all__ = ["Builder", "BuiltSnapshot"]
